#!/usr/bin/env python3
"""stress.py SEED SECONDS: open appenders with all kinds of ends under an audience that is killed."""
import sys,os,time,random,json,threading,subprocess,signal,re
sys.path.insert(0,"./tests/sql")
from session import Session
H=os.environ.get("H","./build-test/src/cli/howdah"); URL=os.environ["HOWDAH_TEST_PG"]
SEED=int(sys.argv[1]); SECS=float(sys.argv[2])
R=random.Random(SEED)
sh=lambda *a: subprocess.run([H,"--store",URL,*a],check=True,capture_output=True,text=True,timeout=60).stdout
sh("init","--quiet")
adm=Session(URL)
adm.sql("CREATE ROLE plain LOGIN")
roles=[r[0] for r in adm.sql("select rolname from pg_roles where rolname like 'howdah%'")]
for r in roles: adm.sql('GRANT "%s" TO plain'%r)
m=re.match(r"(.*user=)[^&]*(.*)",URL)
PLAIN=m.group(1)+"plain"+m.group(2) if m else URL+("&" if "?" in URL else "?")+"user=plain"
stop=threading.Event(); fails=[]; lock=threading.Lock()
gids=[0]; opened={}
def sess():
    while True:
        try: return Session(URL)
        except Exception: time.sleep(0.1)
def quick(rnd):
    s=sess(); k=0
    while not stop.is_set():
        try:
            iso=rnd.choice(["READ COMMITTED"]*4+["REPEATABLE READ","SERIALIZABLE"])
            s.sql("BEGIN ISOLATION LEVEL "+iso)
            for _ in range(rnd.choice([1,1,1,2,5])):
                if rnd.random()<0.15:
                    s.sql("SAVEPOINT a"); s.sql("SELECT howdah.append('q%d','q.burnt')"%rnd.randrange(8)); s.sql("ROLLBACK TO a")
                s.sql("SELECT howdah.append('q%d','%s')"%(rnd.randrange(8),rnd.choice(["q.a","q.b","r.c"])))
            if rnd.random()<0.2: time.sleep(rnd.random()*0.05)
            s.sql("COMMIT" if rnd.random()<0.8 else "ROLLBACK")
        except Exception as e:
            try: s.sql("ROLLBACK")
            except Exception:
                s=sess()
        time.sleep(rnd.random()*0.03)
    s.close()
def finish_prepared(rnd,gid,wait):
    time.sleep(wait)
    adm2=sess()
    for _ in range(5):
        try: adm2.sql(("COMMIT" if rnd.random()<0.7 else "ROLLBACK")+" PREPARED '%s'"%gid); break
        except Exception as e: time.sleep(0.1)
    adm2.close()
pend=[]
def long(rnd,i):
    s=sess(); n=0
    while not stop.is_set():
        st="L%d.%d"%(i,rnd.randrange(3))
        try:
            s.sql("BEGIN ISOLATION LEVEL "+rnd.choice(["READ COMMITTED","READ COMMITTED","REPEATABLE READ","SERIALIZABLE"]))
            end=time.time()+rnd.choice([0.3,1,2.5,6])
            mine=[]
            if rnd.random()<0.3: mine=[int(s.one("SELECT nextval('howdah.events_global_sequence_seq')")) for _ in range(rnd.randrange(1,4))]
            while time.time()<end and not stop.is_set():
                x=rnd.random()
                if x<0.2: s.sql("SELECT pg_sleep(%f)"%(rnd.random()*0.5))
                elif x<0.6: s.sql("SELECT howdah.append('%s','%s')"%(st,rnd.choice(["q.a","l.x"])))
                elif x<0.7:
                    s.sql("SAVEPOINT b"); s.sql("SELECT howdah.append('%s','l.x') FROM generate_series(1,3)"%st); s.sql("ROLLBACK TO b")
                else: time.sleep(rnd.random())
                if mine and rnd.random()<0.5:
                    g=mine.pop(0)
                    s.sql("INSERT INTO howdah.events(global_sequence,stream,version,type,data) VALUES (%d,'hand%d',1,'hand.x','null')"%(g,g))
            x=rnd.random()
            if x<0.4: s.sql("COMMIT")
            elif x<0.55: s.sql("ROLLBACK")
            elif x<0.85:
                with lock: gids[0]+=1; gid="g%d"%gids[0]
                s.sql("PREPARE TRANSACTION '%s'"%gid)
                t=threading.Thread(target=finish_prepared,args=(rnd,gid,rnd.choice([0,0.1,1,4])));t.start();pend.append(t)
            else:
                pid=s.one("SELECT pg_backend_pid()")
                a=sess(); a.sql("SELECT pg_terminate_backend(%s)"%pid); a.close()
        except Exception as e: pass
        try: s.sql("ROLLBACK")
        except Exception: s=sess()
        time.sleep(rnd.random()*0.5)
    s.close()
def burner(rnd):
    s=sess(); n=0
    while not stop.is_set():
        try:
            x=rnd.random()
            if x<0.5:
                s.sql("BEGIN");s.sql("SELECT count(nextval('howdah.events_global_sequence_seq')) FROM generate_series(1,%d)"%rnd.choice([1,5,300]));s.sql("ROLLBACK")
            elif x<0.56:
                n+=1
                s.sql("INSERT INTO howdah.events(stream,version,type,data) SELECT 'burn%d',g,'burn.x','null' FROM generate_series(1,%d) g WHERE nextval('howdah.events_global_sequence_seq') IS NOT NULL"%(n,rnd.choice([100,300,600])))
            elif x<0.6:
                u=s.sql("select id from howdah.events order by random() limit 1")
            time.sleep(rnd.random()*0.1)
        except Exception as e:
            try: s.sql("ROLLBACK")
            except Exception: s=sess()
    s.close()
class Aud:
    def __init__(self,name,words,copies=1,follow=False,plain=False,match=lambda e:True,start=True,killable=True):
        self.name=name;self.words=words;self.copies=copies;self.follow=follow;self.url=PLAIN if plain else URL
        self.match=match;self.start=start;self.killable=killable;self.got=[];self.procs=[];self.err=[];self.threads=[]
        self.begun=time.time()
    def run(self):
        w=["follow",*self.words] if self.follow else ["subscribe",self.name,*self.words]
        p=subprocess.Popen([H,"--store",self.url,*w,"--json"],stdout=subprocess.PIPE,stderr=subprocess.PIPE,text=True)
        def rd():
            for l in p.stdout:
                try: e=json.loads(l)
                except Exception: continue
                with lock: self.got.append((e["global_sequence"],e["stream"],e["version"],e["type"]))
        def re_():
            for l in p.stderr:
                if "are missing for" not in l and "kept waiting" not in l and "taken over" not in l: self.err.append(l.strip())
        for f in (rd,re_):
            t=threading.Thread(target=f,daemon=True);t.start();self.threads.append(t)
        self.procs.append(p)
    def keep(self):
        for p in list(self.procs):
            if p.poll() is not None:
                if p.returncode not in (-9,): self.err.append("ENDED %s"%p.returncode)
                self.procs.remove(p)
        while len(self.procs)<self.copies: self.run()
    def kill(self):
        if self.procs: self.procs[R.randrange(len(self.procs))].kill()
A=[Aud("all",["--from","start"],2),Aud("batched",["--from","start","--checkpoint","batched"],1),
   Aud("plain",["--from","start","--checkpoint","batched"],1,plain=True),
   Aud("typed",["--pattern","q.a"],1,match=lambda e:e[3]=="q.a"),
   Aud("wild",["--pattern","*.x"],2,match=lambda e:e[3].endswith(".x")),
   Aud("stream",["--stream","L1.1"],1,match=lambda e:e[1]=="L1.1"),
   Aud("lease",["--instance","lease","--lease","1s"],2),
   Aud("f0",["--since","0"],1,follow=True,killable=False),
   Aud("fplain",["--since","0"],1,follow=True,killable=False,plain=True)]
if SEED%2: A.append(Aud("strict",["--ordering","strict","--checkpoint","batched"],1))
for a in A: a.keep()
th=[threading.Thread(target=quick,args=(random.Random(SEED*100+i),)) for i in range(3)]
th+=[threading.Thread(target=long,args=(random.Random(SEED*100+50+i),i)) for i in range(4)]
th+=[threading.Thread(target=burner,args=(random.Random(SEED*100+90),))]
for t in th: t.start()
t0=time.time(); nextnew=t0+5; k=0
while time.time()-t0<SECS:
    time.sleep(R.random()*0.4)
    for a in A: a.keep()
    if R.random()<0.35:
        c=[a for a in A if a.killable]; R.choice(c).kill()
    if time.time()>nextnew:
        nextnew+=SECS/6; k+=1
        top=adm.one("select coalesce(max(global_sequence),0) from howdah.events")
        a=Aud("end%d"%k,["--from","end"],1,start=False)
        a.keep()
        t1=time.time()
        while time.time()-t1<10 and adm.one("select count(*) from howdah.subscriptions where subscriber_id='end%d'"%k)=="0": time.sleep(0.05)
        a.have={int(r[0]) for r in adm.sql("select global_sequence from howdah.events")}  # visible a moment after creation
        A.append(a)
        b=Aud("late%d"%k,["--from","start","--checkpoint","batched"],1); b.keep(); A.append(b)
stop.set()
for t in th: t.join(30)
for t in pend: t.join(30)
left=adm.sql("select gid from pg_prepared_xacts")
for r in left: adm.sql("COMMIT PREPARED '%s'"%r[0])
for a in A: a.keep()
truth=[(int(r[0]),r[1],int(r[2]),r[3]) for r in adm.sql("select global_sequence,stream,version,type from howdah.events order by 1")]
print("seed",SEED,"events",len(truth),"last number",adm.one("select last_value from howdah.events_global_sequence_seq"),"audience",len(A),flush=True)
def missing(a):
    with lock: got={g[0] for g in a.got}
    want=[e for e in truth if a.match(e)]
    if not a.start: want=[e for e in want if e[0] not in a.have]
    return [e for e in want if e[0] not in got]
t1=time.time()
done={}
while time.time()-t1<25 and len(done)<len(A):
    for a in A:
        if a.name not in done and not missing(a): done[a.name]=round(time.time()-t1,1)
    time.sleep(0.3)
bad=0
for a in A:
    m=missing(a)
    order=[]
    idx={}; per={}
    for e in truth:
        if a.match(e): per.setdefault(e[1],[]).append(e[2])
    for s,v in per.items(): idx[s]={x:i for i,x in enumerate(sorted(v))}
    top={}
    dup=len(a.got)-len({g[0] for g in a.got})
    for g in a.got:
        i=idx.get(g[1],{}).get(g[2])
        if i is None: order.append(("ghost",g)); continue
        t=top.get(g[1], -1 if a.start else None)
        if t is not None and i>t+1: order.append((g,t))
        top[g[1]]=max(i,t if t is not None else -1)
    if a.name=="strict":
        hi=0
        fl=set()
        for g in a.got:
            if g[0] in fl: continue
            fl.add(g[0])
            if g[0]<hi: order.append(("strict",g,hi))
            hi=max(hi,g[0])
    e=[x for x in a.err if "lost" not in x]
    flag="BAD" if m or order or (a.follow and dup) else "ok "
    if flag=="BAD": bad=1
    print(flag,a.name,"got",len(a.got),"dups",dup,"missing",len(m),m[:4],"order",len(order),order[:3],"| err",len(a.err),a.err[:3],flush=True)
print("settled",adm.sql("select upto,cardinality(holes) from howdah.settled"),"waited",done)
if bad and os.environ.get("KEEP"): print("sleeping"); time.sleep(600)
for a in A:
    for p in a.procs: p.kill()
for a in A:
    for p in a.procs: p.wait()
adm.close()
sys.exit(bad)
