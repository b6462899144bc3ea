import sys,time,subprocess,json,os
sys.path.insert(0,"./tests/failover")
import servers
H="./build-test/src/cli/howdah"
N=int(sys.argv[1]) if len(sys.argv)>1 else 120000
place=servers.Place(); place.bin
t=servers.Template(place,H); site=t.site()
S=servers.Session
out=open("/tmp/attack/promo.out","w"); err=open("/tmp/attack/promo.err","w")
f=subprocess.Popen([H,"--store",site.standby.url(),"--set","read_only=true","follow","--json","--since","0"],stdout=out,stderr=err)
p=site.primary
def ins(x,stream,n=1,t="t"):
    for _ in range(n): x.sql("INSERT INTO howdah.events(stream,version,type,data) SELECT '%s',1+count(*),'%s','null' FROM howdah.events WHERE stream='%s'"%(stream,t,stream))
def seen():
    r=[]
    for l in open("/tmp/attack/promo.out"):
        try: r.append(json.loads(l))
        except: pass
    return r
def check(cl,what,wait=20):
    truth={int(r[0]) for r in cl.sql("select global_sequence from howdah.events")}
    t0=time.time()
    while time.time()-t0<wait:
        e=seen(); got={x["global_sequence"] for x in e}
        if truth<=got: break
        time.sleep(0.2)
    last={};bad=0
    for x in e:
        if x["version"]!=last.get(x["stream"],0)+1: bad+=1
        last[x["stream"]]=x["version"]
    print(what,"lost",len(truth-got),"of",len(truth),"printed",len(e),"disorder",bad,"%.1fs"%(time.time()-t0),flush=True)
ins(p,"a",5)
A=S(p.url()); A.sql("BEGIN"); ins(A,"open",2)
ins(p,"a",5)
time.sleep(1)
check(p,"standby, one open:")
A.sql("COMMIT"); ins(p,"open",1)
check(p,"standby, committed:")
A.sql("BEGIN"); ins(A,"open2",1); ins(p,"a",3)
site.sync()
p.stop()
sb=site.standby
print("promote",sb.one("SELECT pg_promote(true,60)"))
ins(sb,"a",3)
check(sb,"promoted:")
B=S(sb.url()); B.sql("BEGIN"); ins(B,"open3",1); 
sb.sql("INSERT INTO howdah.events(stream,version,type,data) SELECT 'burnt',g,'t','null' FROM generate_series(1,%d) g WHERE nextval('howdah.events_global_sequence_seq') IS NOT NULL"%N)
check(sb,"promoted, burnt:",25)
B.sql("COMMIT"); ins(sb,"open3",1)
check(sb,"promoted, burnt, committed:",10)
f.terminate(); f.wait()
print(open("/tmp/attack/promo.err").read()[-1500:])
site.close()
