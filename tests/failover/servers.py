"""Real servers that replace one another behind one address.

A Site is what clients know: an address, perhaps a pooler in front of it, one primary and one standby.
cut() stops the standby where it is: what the primary does from then on is lost with it.

    site.cut()        all so far is on the standby; nothing after it will be
    site.stop_primary(); site.start_next()    the standby is promoted and has its address

Everything is in one directory that is gone at the end, whatever happens, and no server outlives us.
"""
import atexit
import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "sql"))
from session import PATIENCE_S, Session, until  # noqa: E402  (its place is known only now)

DATABASE = "shop"
POOLER_PORT = 6432  # of a Unix socket in a directory of its own: just a name
POOL = 8
ROOM = 2 << 30  # free bytes of memory below which the clusters are on a disk

CONF = """
jit = off
listen_addresses = ''
port = 5432
max_connections = 90
shared_buffers = 16MB
dynamic_shared_memory_type = mmap
fsync = off
full_page_writes = off
wal_level = replica
wal_keep_size = 512MB
max_wal_senders = 8
hot_standby = on
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 100ms
max_slot_wal_keep_size = -1
checkpoint_timeout = 1h
max_wal_size = 4GB
autovacuum = off
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %a '
"""

# What a handler with a transaction of its own leaves behind; no key: a second one must be seen.
EFFECTS = ("CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, subscriber text NOT NULL,"
           " event_id text NOT NULL, stream text NOT NULL, version bigint NOT NULL)")


def find_bin():
    """As tools/with-pg does."""
    given = os.environ.get("HOWDAH_PG_BIN") or os.environ.get("HOWDAH_TEST_PG_BIN")
    if given:
        return given
    root = "/usr/lib/postgresql"
    majors = sorted((m for m in os.listdir(root) if m.isdigit()), key=int) if os.path.isdir(root) else []
    for major in ["15"] + majors[::-1]:
        if os.path.exists(os.path.join(root, major, "bin", "initdb")):
            return os.path.join(root, major, "bin")
    sys.exit("no PostgreSQL server found (install postgresql-15, or set HOWDAH_PG_BIN)")


class Place:
    """A directory, a user who is not root, and a watchdog for the case that we are killed."""

    def __init__(self):
        self.user = None
        if os.getuid() == 0:
            names = [entry.pw_name for entry in pwd.getpwall()]
            self.user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        parent = "/tmp"
        if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > ROOM:
            parent = "/dev/shm"
        self.dir = tempfile.mkdtemp(prefix="howdah-fo.", dir=parent)
        os.chmod(self.dir, 0o755)
        self.running = []
        atexit.register(self.remove)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda got, _: sys.exit(128 + got))
        self.watchdog = subprocess.Popen(
            ["setsid", "sh", "-c", 'while kill -0 %d 2>/dev/null; do sleep 1; done; rm -rf "%s"'
             % (os.getpid(), self.dir)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        for name in [name for name in os.environ if name.startswith("PG")]:
            del os.environ[name]

    @functools.cached_property
    def bin(self):
        found = find_bin()
        if os.path.exists(os.path.join(found, "psql")):  # Debian's in /usr/bin is a script, and five times as slow
            os.environ["PATH"] = found + ":" + os.environ["PATH"]
        return found

    def remove(self):
        for process, end in self.running:
            if process.poll() is None:
                process.send_signal(end)
                process.wait(PATIENCE_S)
        shutil.rmtree(self.dir, ignore_errors=True)
        self.watchdog.kill()
        self.watchdog.wait()

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def make_dir(self, *names):
        path = self.path(*names)
        os.mkdir(path, 0o755)
        if self.user:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
        return path

    def as_user(self, *words, end=signal.SIGKILL):
        """The words of a command that runs as the servers' user and ends with us."""
        command = ["setpriv", "--pdeathsig", end.name[3:]]
        if self.user:
            command += ["--reuid", str(self.user.pw_uid), "--regid", str(self.user.pw_gid), "--init-groups"]
        return command + ["--", *words]

    def start(self, *words, log, end=signal.SIGKILL):
        with open(log, "ab") as out:
            process = subprocess.Popen(self.as_user(*words, end=end), cwd=self.dir, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out)
        self.running.append((process, end))
        return process

    def run(self, *words, text=None):
        done = subprocess.run(self.as_user(*words), cwd=self.dir, input=text, capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0, "%s: %s%s" % (" ".join(words), done.stdout, done.stderr)
        return done.stdout


class Cluster:
    """One server: a data directory, and a socket in a directory of its own."""

    def __init__(self, place, name):
        self.place = place
        self.name = name
        self.home = place.make_dir(name)
        self.data = os.path.join(self.home, "data")
        self.log = os.path.join(self.home, "log")
        self.process = None
        self.observer = None

    def url(self, database=DATABASE):
        return "postgres:///%s?host=%s&port=5432&user=postgres" % (database, self.home)

    def create(self):
        self.place.run(os.path.join(self.place.bin, "initdb"), "-D", self.data, "-U", "postgres", "-E", "UTF8",
                       "--locale=C", "--auth=trust", "--no-sync", "--wal-segsize=1")
        with open(os.path.join(self.data, "postgresql.conf"), "a") as conf:
            conf.write(CONF)

    def copy_of(self, other):
        """The other one is not running."""
        assert other.process is None
        subprocess.run(["cp", "-a", other.data, self.data], check=True)
        for name in ("postmaster.pid", "standby.signal"):
            self.forget(name)
        return self

    def forget(self, name):
        path = os.path.join(self.data, name)
        if os.path.exists(path):
            os.unlink(path)

    def standby_of(self, primary):
        """Whom to follow, from the next start on; None: nobody, but still a standby."""
        path = os.path.join(self.data, "standby.signal")
        with open(path, "w"):
            pass
        if self.place.user:
            os.chown(path, self.place.user.pw_uid, self.place.user.pw_gid)
        conninfo = "host=%s port=5432 user=postgres" % primary.home if primary else ""
        self.options = ["-c", "primary_conninfo=" + conninfo]

    options = ()

    def start(self):
        self.process = self.place.start(
            os.path.join(self.place.bin, "postgres"), "-D", self.data, "-c",
            "unix_socket_directories=" + self.home, *self.options, log=self.log, end=signal.SIGQUIT)  # it takes its memory with it
        try:
            until(self.is_ready, "%s is ready" % self.name)
        except AssertionError as late:
            with open(self.log, errors="replace") as log:
                raise AssertionError("%s\n%s" % (late, log.read()[-2000:])) from late

    def is_ready(self):
        assert self.process.poll() is None, "%s has ended" % self.name
        try:
            with open(os.path.join(self.data, "postmaster.pid")) as state:
                lines = state.read().split("\n")
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[7].strip() in ("ready", "standby")

    def answers(self):
        return subprocess.run(["psql", "-X", "-q", "-d", self.url(), "-c", "SELECT"], capture_output=True,
                              timeout=PATIENCE_S).returncode == 0

    def promote(self):
        # Not pg_promote(true): its snapshot can keep the last of the log from being replayed for half a minute.
        self.sql("SELECT pg_promote(false)")
        until(lambda: self.one("SELECT pg_is_in_recovery()") == "f", "%s is promoted" % self.name)

    def stop(self, how=signal.SIGINT):
        """SIGINT: in good order, standbys have got everything.  SIGQUIT: at once."""
        if self.observer:
            self.observer.close()
            self.observer = None
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE_S)
        self.process = None

    def remove(self):
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.home)

    def sql(self, text):
        """Rows of texts; in a session that stays open."""
        if not self.observer:
            self.observer = Session(self.url())
        return self.observer.sql(text)

    def one(self, text):
        rows = self.sql(text)
        assert len(rows) == 1 and len(rows[0]) == 1, rows
        return rows[0][0]


class Pooler:
    """PgBouncer in transaction mode before an address."""

    def __init__(self, place, name, address):
        self.dir = place.make_dir(name)
        self.place = place
        self.url = "postgres:///%s?host=%s&port=%d&user=postgres" % (DATABASE, self.dir, POOLER_PORT)
        ini = os.path.join(self.dir, "ini")
        with open(ini, "w") as out:
            out.write("[databases]\n%s = host=%s port=5432 dbname=%s user=postgres\n" %
                      (DATABASE, address, DATABASE))
            out.write("[pgbouncer]\nlisten_addr =\nlisten_port = %d\nunix_socket_dir = %s\nauth_type = any\n"
                      "pool_mode = transaction\ndefault_pool_size = %d\nserver_round_robin = 1\n"
                      "admin_users = postgres\nmax_client_conn = 200\nserver_login_retry = 0.2\nquery_wait_timeout = 60\n" %
                      (POOLER_PORT, self.dir, POOL))
        found = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
        assert found, "is the package pgbouncer installed?"
        self.words = (found, ini)
        self.log = os.path.join(self.dir, "log")
        self.ending = False
        self.start()
        threading.Thread(target=self.supervise, daemon=True).start()

    def start(self):
        self.process = self.place.start(*self.words, log=self.log)
        until(lambda: os.path.exists(os.path.join(self.dir, ".s.PGSQL.%d" % POOLER_PORT)), "pgbouncer runs")

    def supervise(self):
        """1.18 ends itself when a request to cancel crosses the end of a server (its issue 822)."""
        while True:
            self.process.wait()
            if self.ending:
                return
            with open(self.log, errors="replace") as log:
                assert "server in bad state" in log.read(), "pgbouncer has ended"
            print("# pgbouncer has ended, and is started again", flush=True)
            self.start()

    def say(self, command):
        before = self.process
        done = subprocess.run(["psql", "-X", "-q", "-h", self.dir, "-p", str(POOLER_PORT), "-U", "postgres", "-d",
                               "pgbouncer", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S)
        # One that was started again knows nothing of a pause.
        assert done.returncode == 0 or before.poll() is not None or "not paused" in done.stderr, "%s: %s" % (
            command, done.stderr)

    def stop(self):
        self.ending = True
        self.process.kill()
        self.process.wait()


class Template:
    """A cluster with a bus in it that is stopped: sites are copies of it."""

    def __init__(self, place, howdah):
        self.place = place
        self.howdah = howdah
        self.cluster = Cluster(place, "template")
        self.cluster.create()
        self.cluster.start()
        postgres = Session(self.cluster.url("postgres"))
        postgres.sql("CREATE DATABASE " + DATABASE)
        postgres.close()
        self.cluster.sql(EFFECTS)
        subprocess.run([howdah, "--store", self.cluster.url(), "init", "--quiet"], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        self.cluster.stop()
        self.sites = 0

    def site(self, pooled=False):
        self.sites += 1
        return Site(self, "site%d" % self.sites, pooled)


class Site:
    """What clients know under one address, while servers come and go behind it."""

    def __init__(self, template, name, pooled):
        self.template = template
        self.place = template.place
        self.name = name
        self.generation = 0
        self.address = self.place.path(name)
        self.was_cut = False
        self.paused = False
        self.primary = self.cluster().copy_of(template.cluster)
        self.standby = self.cluster().copy_of(template.cluster)
        self.primary.start()
        self.follow()
        self.point()
        self.pooler = Pooler(self.place, name + "-pool", self.address) if pooled else None
        self.url = self.pooler.url if pooled else self.url_at(self.address)

    @staticmethod
    def url_at(where, more=""):
        return "postgres:///%s?host=%s&port=5432&user=postgres%s" % (DATABASE, where, more)

    def cluster(self):
        self.generation += 1
        return Cluster(self.place, "%s-%d" % (self.name, self.generation))

    def point(self, to=None):
        """The address leads to the primary, or where we say, from one moment to the next."""
        fresh = self.address + ".new"
        os.symlink((to or self.primary).home, fresh)
        os.rename(fresh, self.address)

    def lead(self, to):
        """Those behind the pooler come to another server, whom they have not lost."""
        self.point(to)
        self.pooler.say("RECONNECT")

    def promote(self):
        """The standby becomes the primary under those who are connected to it."""
        self.sync()
        gone, self.primary, self.standby = self.primary, self.standby, None
        gone.remove()
        self.primary.promote()

    def follow(self):
        self.standby.standby_of(self.primary)
        self.standby.start()
        self.was_cut = False

    def hosts(self):
        """Both servers, and the client finds out which is the primary."""
        return self.url_at("%s,%s" % (self.primary.home, self.standby.home), "&target_session_attrs=read-write")

    def sync(self):
        """The standby has everything that is committed now."""
        self.primary.sql("SELECT pg_logical_emit_message(true, 'sync', '')")  # waits for what was not flushed yet
        place = self.primary.one("SELECT pg_current_wal_flush_lsn()")
        until(lambda: self.standby.one("SELECT pg_last_wal_replay_lsn() >= '%s'::pg_lsn" % place) == "t",
              "the standby has replayed %s" % place)

    def cut(self):
        self.sync()
        self.standby.stop()
        self.was_cut = True

    def stop_primary(self, crash=False):
        """With crash at once; else in good order, with the pooler's clients held back."""
        if self.pooler and not crash:
            self.pooler.say("PAUSE")
            self.paused = True
        self.primary.stop(signal.SIGQUIT if crash else signal.SIGINT)

    def start_next(self, promote=True, again=False, before=None):
        """The standby takes the address; what is to be done before clients meet it is before().

        promote=False: it is put into its place like a backup of the primary, under the same timeline.
        again=True: there is a new standby afterwards.
        """
        gone, self.primary = self.primary, self.standby
        self.primary.stop()
        spare = self.cluster().copy_of(self.primary) if again else None
        if promote:
            self.primary.standby_of(None)
            self.primary.start()
            self.primary.promote()
        else:
            self.primary.forget("standby.signal")
            self.primary.options = ()
            self.primary.start()
        if before:
            before()
        self.point()
        if self.paused:
            self.pooler.say("RESUME")
            self.paused = False
        gone.remove()
        if spare:
            self.standby = spare
            self.follow()

    def restart(self, how):
        """The same server again, at the same address."""
        self.primary.stop(how)
        self.primary.start()

    def kill_backends(self):
        """All of them, as the kernel does when there is no memory: the server recovers by itself."""
        own = self.primary.one("SELECT pg_backend_pid()")
        others = [int(pid) for (pid,) in self.primary.sql(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> %s" % own)]
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.primary.observer.close()
        self.primary.observer = None
        until(self.primary.answers, "%s has recovered" % self.primary.name)
        return len(others)

    def close(self):
        if self.pooler:
            self.pooler.stop()
        for cluster in (self.primary, self.standby):
            if cluster and os.path.exists(cluster.home):
                cluster.remove()
