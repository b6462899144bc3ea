import sys,time,subprocess,json,os
sys.path.insert(0,"./tests/failover")
import servers
H=os.environ.get("H","./build-test/src/cli/howdah")
place=servers.Place(); place.bin
t=servers.Template(place,H); site=t.site(pooled=True)
S=servers.Session
ro=["--set","read_only=true"]
procs={}
def start(name,words):
    procs[name]=subprocess.Popen([H,"--store",site.url,*words,"--json"],stdout=open("/tmp/attack/pool.%s"%name,"w"),stderr=open("/tmp/attack/pool.%s.err"%name,"w"))
p=site.primary
start("follow",["--set","read_only=true","follow","--since","0"])
start("sub",["subscribe","s","--from","start"])
def ins(x,stream,n=1,t="t"):
    for _ in range(n): x.sql("INSERT INTO howdah.events(stream,version,type,data) SELECT '%s',1+count(*),'%s','null' FROM howdah.events WHERE stream='%s'"%(stream,t,stream))
def check(cl,what,wait=10):
    truth={int(r[0]) for r in cl.sql("select global_sequence from howdah.events")}
    for n in procs:
        t0=time.time()
        while True:
            e=[]
            for l in open("/tmp/attack/pool.%s"%n):
                try:e.append(json.loads(l))
                except: pass
            got={x["global_sequence"] for x in e}
            if truth<=got or time.time()-t0>wait: break
            time.sleep(.2)
        print(what,n,"lost",sorted(truth-got)[:5],"of",len(truth),"printed",len(e),"%.1fs"%(time.time()-t0),flush=True)
def point(c):
    os.symlink(c.home,site.address+".new"); os.rename(site.address+".new",site.address); site.pooler.say("RECONNECT")
ins(p,"a",5)
A=S(p.url()); A.sql("BEGIN"); ins(A,"open",2)
ins(p,"a",5); time.sleep(2)
check(p,"one open:")
site.sync()
point(site.standby); time.sleep(2)
ins(p,"a",3); site.sync(); time.sleep(2)
back=len(sys.argv)>1
if back:
    point(p); time.sleep(2)
A.sql("COMMIT"); ins(p,"open",1); site.sync()
check(p,"committed:")
if back:
    print(p.sql("select subscriber_id,high,owed,still from howdah.subscriptions"), p.sql("select upto,holes from howdah.settled"))
for n,q in procs.items():
    q.terminate(); q.wait(); print(n,open("/tmp/attack/pool.%s.err"%n).read()[-600:])
site.close()
