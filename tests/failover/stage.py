"""A scenario's surroundings: its servers or file, its processes, what they did, and the verdict."""
import json
import os
import random
import shutil
import subprocess
import time
import uuid

import tap
from checker import Event, History, Job
from hands import Follower, Hand, LineWriter, Process, Writer
from session import PATIENCE_S, Session, until

TYPES = ("order.created", "order.paid", "cart.created", "ship.sent")
RARE = "rare.seen"  # never among what is lost: who waits for it only counts the others
STREAMS = tuple("s%d" % i for i in range(6))
QUIET_S = 3.0   # somebody who says that all is done, and does nothing for so long, does nothing more
STUCK_S = 30.0  # and somebody who does not say so
PAGE = 0.05     # between two looks: each reads the whole log, and must not be what the servers do most


class Stage:
    """Common to both stores.  A scenario is: with Stage(...) as stage: ...; the verdict is at the end."""

    def __init__(self, run, name):
        self.run = run
        self.howdah = run.howdah
        self.hand = run.hand
        self.dice = random.Random("%s %s" % (run.seed, name))
        self.history = History(may_halt=False)
        self.hands = []
        self.workers = []
        self.let_go = []  # of the workers, who was told to end
        self.writers = []
        self.types = TYPES + (RARE,)
        self.dir = run.place.path("stage-%d" % run.count())
        os.mkdir(self.dir)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.verdict()
        finally:
            for process in [hand.process for hand in self.hands + self.writers] + self.workers:
                process.kill()
            self.close()
            shutil.rmtree(self.dir, ignore_errors=True)

    def new_id(self):
        return str(uuid.UUID(int=self.dice.getrandbits(128), version=4))

    # ---- what is done

    def command(self, *words, text=None, url=None, check=True):
        done = subprocess.run([self.howdah, "--store", url or self.direct(), *words], capture_output=True, text=True,
                              input=text, timeout=2 * PATIENCE_S)
        assert done.returncode == 0 or not check, "howdah %s: %s" % (" ".join(words), done.stderr)
        return done

    def append(self, n, types=None, streams=STREAMS, url=None, tx_size=7):
        """So many events, straight to the store that is in place; acknowledged."""
        ids = [self.new_id() for _ in range(n)]
        lines = ["%s\n" % json.dumps({"id": i, "stream": self.dice.choice(streams),
                                      "type": self.dice.choice(types or self.types), "data": {"u": i}}) for i in ids]
        for event_id in ids:
            self.history.append(event_id, "unknown")
        self.command("append", "--batch", "--quiet", "--tx-size", str(tx_size), text="".join(lines), url=url)
        for event_id in ids:
            self.history.append(event_id, "ok")
        return ids

    def lose(self, n, **more):
        """So many that will be gone, if the standby is cut off."""
        return self.append(n, types=TYPES, **more)

    def show(self, name):
        return json.loads(self.command("sub", "show", name, "--json").stdout)

    def subscribe(self, name, *options, pattern=None, begin="start", exec_line=None, url=None,
                  retries=("1000", "50ms")):
        """howdah subscribe, with lines on stdout or with a command for each event."""
        words = [self.howdah, "--store", url or self.url(), "--quiet", "subscribe", name, "--from", begin,
                 "--json", "--max-retries", retries[0], "--retry-delay", retries[1], "--max-retry-delay", "1s",
                 "--lease", "2s", *options]
        words += ["--pattern", pattern] if pattern else []
        log = os.path.join(self.dir, name) if exec_line else None
        if exec_line:
            words += ["--exec", exec_line + '; code=$?; echo "$HOWDAH_EVENT_ID $HOWDAH_SEQUENCE $code" >>"$RUNS";'
                      " exit $code"]
        known = [e.id for e in self.read_log()] if begin == "end" else ()
        self.command("subscribe", name, "--max", "0", "--from", begin, *(["--pattern", pattern] if pattern else []))
        sub = self.history.subscription(name, pattern=pattern, not_before=known)
        return self.keep(Hand(self, sub, words, log=log, RUNS=log or ""))

    def transact(self, name, *options, pattern=None, begin="start", url=None):
        """A handler whose effect is in the transaction of its checkpoint."""
        known = [e.id for e in self.read_log()] if begin == "end" else ()
        self.command("subscribe", name, "--max", "0", "--from", begin, *(["--pattern", pattern] if pattern else []))
        sub = self.history.subscription(name, pattern=pattern, not_before=known, effects=True)
        words = [self.hand, "subscribe", url or self.url(), name, "checkpoint=transactional", "lease_ms=2000", *options]
        words += ["pattern=" + pattern] if pattern else []
        return self.keep(Hand(self, sub, words))

    def follow(self, name, *options, pattern=None, url=None):
        """Prints all from the beginning; what it is called is only for us."""
        sub = self.history.subscription(name, pattern=pattern)
        words = [self.howdah, "--store", url or self.url(), "--set", "connect_timeout=60s", "follow", "--json",
                 "--since", "0", *options]
        words += ["--pattern", pattern] if pattern else []
        return self.keep(Follower(self, sub, words))

    def keep(self, hand):
        self.hands.append(hand)
        return hand

    def bind(self, queue, pattern):
        self.history.queues[queue] = pattern
        self.command("bind", queue, pattern)
        self.command("queue", "set", queue, "abandon_after=2s", "backoff_initial=100ms", "backoff_max=500ms",
                     "max_attempts=100")

    def work(self, queue, *options, url=None):
        """A worker that notes which jobs it ran; not a subscriber, but it is ended with them."""
        worker = Process(
            self.howdah, "--store", url or self.url(), "--quiet", "work", queue, "--lease", "2s", "--exec",
            'cat >>"$RUNS"; sleep 0.02', *options, RUNS=os.path.join(self.dir, "runs-" + queue))
        self.workers.append(worker)
        return worker

    def write(self, streams, url=None, **more):
        writer = Writer(self, url or self.url(), streams, **more)
        self.writers.append(writer)
        return writer

    def write_lines(self, streams, url=None):
        writer = LineWriter(self, url or self.url(), streams)
        self.writers.append(writer)
        return writer

    # ---- what has happened

    def handled(self, hand):
        self.look()
        return len(self.history.handled(hand.subscription))

    def until_handled(self, *hands):
        """Each has everything that is in the log now."""
        end = time.monotonic() + PATIENCE_S
        while True:
            self.look()
            late = [h for h in hands if self.history.missing(h.subscription)]
            if not late:
                return
            assert time.monotonic() < end and not late[0].process.ended(), "%s has not got %d events (%s): %s" % (
                late[0].subscription.name, len(self.history.missing(late[0].subscription)),
                late[0].process.process.returncode, late[0].process.last_words())
            time.sleep(PAGE)

    def until_stored(self, *hands):
        """And the store knows."""
        self.until_handled(*hands)
        end = time.monotonic() + PATIENCE_S
        for hand in hands:
            while (state := self.show(hand.subscription.name))["contiguous"] < state["head"]:
                assert time.monotonic() < end, state
                time.sleep(PAGE)

    def until_calls(self, hand, n):
        """So many calls of its handler, in all."""
        end = time.monotonic() + PATIENCE_S
        while len(hand.subscription.deliveries) < n:
            hand.read_log()
            assert time.monotonic() < end and not hand.process.ended(), "%d calls: %s" % (len(hand.subscription.deliveries), hand.process.last_words())
            time.sleep(PAGE / 10)

    def write_file(self, name, text=""):
        with open(os.path.join(self.dir, name), "w") as out:
            out.write(text)

    def until_files(self, names):
        paths = [os.path.join(self.dir, name) for name in names]
        until(lambda: all(map(os.path.exists, paths)), "there are " + ", ".join(paths))

    def until_written(self, n):
        """So many more are acknowledged, and who serves a subscription has had time for some of them."""
        end, n = time.monotonic() + PATIENCE_S, n + len(self.history.acknowledged())
        while len(self.history.acknowledged()) < n:
            assert time.monotonic() < end, "nobody writes"
            time.sleep(PAGE / 5)
        calls = [len(hand.subscription.deliveries) for hand in self.hands]
        end = time.monotonic() + 1
        while time.monotonic() < end and not all(
                hand.process.ended() or len(hand.subscription.deliveries) > before
                for hand, before in zip(self.hands, calls)):
            time.sleep(PAGE / 5)
            for hand in self.hands:
                hand.read_log()

    def until_run(self, queue, n):
        """So many jobs were begun, of different events."""
        end = time.monotonic() + PATIENCE_S
        while True:
            self.look()
            if len([1 for q, _ in self.history.runs if q == queue]) >= n:
                return
            assert time.monotonic() < end, "%d jobs ran: %s" % (
                len(self.history.runs), " | ".join(w.last_words() for w in self.workers))
            time.sleep(PAGE)

    def look(self):
        self.history.log = self.read_log()
        self.history.effects = self.read_effects()
        for hand in self.hands:
            hand.read_log()
        for queue in self.history.queues:
            self.history.jobs[queue] = self.read_jobs(queue)
            runs = os.path.join(self.dir, "runs-" + queue)
            if os.path.exists(runs):
                with open(runs) as lines:
                    jobs = [json.loads(line) for line in lines if line.endswith("\n")]
                # The event that the worker was shown, and the one that the job is of.
                self.history.runs = self.history.runs | {(queue, job["data"]["u"]) for job in jobs}
                self.history.mixed = self.history.mixed | {
                    (queue, job["causation_id"], job["data"]["u"]) for job in jobs
                    if job["causation_id"] != job["data"]["u"]}

    def wait_until_quiet(self):
        """Until everything is well, or nothing more will happen."""
        end = time.monotonic() + PATIENCE_S
        still, last, judged = None, time.monotonic(), 0.0
        while time.monotonic() < end:
            self.look()
            late = [h for h in self.hands if self.history.missing(h.subscription) and not h.subscription.halted]
            if not late and not any(found for queue in self.history.queues for found in self.history.of_queue(queue)):
                return
            state = ([len(h.subscription.deliveries) for h in self.hands], len(self.history.effects),
                     self.history.jobs, len(self.history.runs))
            if state != still:
                still, last = state, time.monotonic()
            if time.monotonic() - judged > QUIET_S / 4:
                judged = time.monotonic()
                done = [h.judge() for h in late]  # each is asked
                done += self.judge_queues()
                # A job may wait for a lease to run out.
                patience = STUCK_S if not all(done) else QUIET_S * 3 if self.history.queues else QUIET_S
                if time.monotonic() - last > patience:
                    return
            time.sleep(PAGE)

    def judge_queues(self):
        """Whether each has got all events, as it says."""
        done = []
        for queue, pattern in self.history.queues.items():
            state = self.show("queue:%s:%s" % (queue, pattern))
            if state["state"] == "halted" and state["reason"]:
                self.history.halted[queue] = state["reason"]
            done.append(state["contiguous"] >= state["head"])
        return done

    def verdict(self):
        self.wait_until_quiet()
        self.judge_queues()
        for hand in self.hands:
            if hand.durable:
                hand.judge()
        self.history.secure()
        self.look()
        found = self.history.findings() + ["ended: " + t for h in self.hands for t in h.trouble
                                           if not h.subscription.halted]
        found += ["ended: a worker: " + w.last_words() for w in self.workers if w.ended() and w not in self.let_go]
        for queue, reason in self.history.halted.items():
            tap.comment("the binding of %s is halted: %s" % (queue, reason))
        for hand in self.hands:
            if hand.subscription.halted:
                tap.comment("%s is halted: %s" % (hand.subscription.name, hand.subscription.halted))
        assert not found, "\n" + "\n".join("  " + text for text in found)


class PgStage(Stage):
    def __init__(self, run, name, pooled=False):
        super().__init__(run, name)
        self.site = run.template().site(pooled)

    def url(self):
        return self.site.url

    def direct(self):
        return self.site.primary.url()

    def close(self):
        self.site.close()

    def read_log(self):
        return [Event(int(n), i, s, int(v), t) for n, i, s, v, t in self.site.primary.sql(
            "SELECT global_sequence, id, stream, version, type FROM howdah.events ORDER BY 1")]

    def read_effects(self):
        for hand in self.hands:
            hand.subscription.dead = {i for (i,) in self.site.primary.sql(
                "SELECT event_id FROM howdah.dead_letters WHERE subscriber_id = '%s'" % hand.subscription.name)}
        return [tuple(row) for row in self.site.primary.sql("SELECT subscriber, event_id FROM effects ORDER BY n")]

    def read_jobs(self, queue):
        return [Job(int(i), e, s) for i, e, s in self.site.primary.sql(
            "SELECT d.id, d.causation_id, CASE WHEN l.job_id IS NULL THEN 'pending' WHEN l.failed THEN 'failed'"
            " ELSE 'completed' END FROM howdah.job_data AS d"
            " JOIN howdah.queues AS q USING (queue_id) LEFT JOIN howdah.event_log AS l ON l.job_id = d.id"
            " WHERE q.name = '%s' ORDER BY 1" % queue)]

    def hold(self, n, stream):
        """A transaction with so many events that stays open; ends with the function returned."""
        session = Session(self.direct())
        ids = [self.new_id() for _ in range(n)]
        session.sql("BEGIN")
        for version, event_id in enumerate(ids, 1):
            self.history.append(event_id, "unknown")
            session.sql("INSERT INTO howdah.events (id, stream, version, type, data) VALUES"
                        " ('%s', '%s', %d, 'order.created', 'null')" % (event_id, stream, version))

        def commit():
            session.sql("COMMIT")
            session.close()
            for event_id in ids:
                self.history.append(event_id, "ok")
        return commit

    def cut(self):
        """What comes now is lost with the server."""
        secured = self.history.acknowledged() - self.history.doubtful
        self.site.cut()
        self.history.safe |= secured

    def stop_primary(self, crash=False):
        self.history.moment += 1
        self.site.stop_primary(crash)
        if not crash and not self.site.was_cut:
            self.history.secure()
        self.history.replaced()

    def start_next(self, promote=True, again=False, early=0):
        """early: so many events are in the new log before our clients come back."""
        if self.history.doubtful:
            self.history.may_halt = True
        self.site.start_next(promote, again, before=(lambda: self.append(early)) if early else None)
        self.history.moment += 1

    def replace(self, crash=False, **more):
        self.stop_primary(crash)
        self.start_next(**more)


class SqliteStage(Stage):
    def __init__(self, run, name):
        super().__init__(run, name)
        self.file = os.path.join(self.dir, "bus.db")
        self.command("init", "--quiet")
        self.sql("CREATE TABLE effects (n integer PRIMARY KEY, subscriber text, event_id text, stream text,"
                 " version integer)")

    def url(self):
        return "sqlite:" + self.file

    direct = url

    def close(self):
        pass

    def sql(self, text, file=None):
        done = subprocess.run(["sqlite3", "-batch", "-separator", "\t", "-cmd", ".timeout 60000", file or self.file, text],
                              capture_output=True, text=True, timeout=2 * PATIENCE_S)
        assert done.returncode == 0, "%s: %s" % (text, done.stderr)
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def read_log(self):
        return [Event(int(n), str(uuid.UUID(i)), s, int(v), t) for n, i, s, v, t in self.sql(
            "SELECT global_sequence, hex(id), stream, version, type FROM howdah_events ORDER BY 1")]

    def read_effects(self):
        for hand in self.hands:
            hand.subscription.dead = {str(uuid.UUID(i)) for (i,) in self.sql(
                "SELECT hex(event_id) FROM howdah_dead_letters WHERE subscriber_id = '%s'" % hand.subscription.name)}
        return self.sql("SELECT subscriber, event_id FROM effects ORDER BY n")

    def back_up(self):
        """A copy as it is now; what comes later is lost when it is put into place."""
        self.history.secure()
        self.backup = os.path.join(self.dir, "backup.db")
        self.sql("VACUUM INTO '%s'" % self.backup)

    def restore(self, move=True, early=0):
        """The backup is moved into place, or copied into the file that is there.

        early: it has gone on elsewhere before that, for so many events.
        """
        self.history.replaced()
        self.history.may_halt = True
        if early:
            self.append(early, url="sqlite:" + self.backup)
            self.sql("PRAGMA wal_checkpoint(TRUNCATE)", self.backup)
        if not move:
            self.sql(".restore " + self.backup)
            return
        for name in ("-wal", "-shm"):
            if os.path.exists(self.file + name):
                os.unlink(self.file + name)
        os.rename(self.backup, self.file)
