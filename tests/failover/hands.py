"""Processes of howdah that go on while servers change, and what they say."""
import json
import os
import re
import signal
import subprocess
import threading
import time

from session import PATIENCE_S, until

LOUD = re.compile(r"replaced|another (log|bus|server|database|file)|(log|bus|server|database|file) "
                  r"(is|was|has|does)( not)? (another|other|restored|older|fit|changed|know)", re.I)
TICK = "order.tick"


class Process:
    """Its lines of stdout are handed to on_line as they come; stderr is kept."""

    def __init__(self, *words, on_line=None, **environment):
        self.words = words
        self.said = []
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=dict(os.environ, **environment))
        self.threads = [threading.Thread(target=self.read, args=(self.process.stdout, on_line or (lambda line: None))),
                        threading.Thread(target=self.read, args=(self.process.stderr, self.said.append))]
        for thread in self.threads:
            thread.daemon = True
            thread.start()

    @staticmethod
    def read(stream, on_line):
        for line in stream:
            if line.endswith("\n"):  # half a line was not written
                on_line(line[:-1])

    def ended(self):
        return self.process.poll() is not None

    def catches_term(self):
        try:
            with open("/proc/%d/status" % self.process.pid) as status:
                caught = re.search(r"^SigCgt:\s*(\w+)", status.read(), re.M)
        except FileNotFoundError:
            return True
        return not caught or int(caught.group(1), 16) >> (signal.SIGTERM - 1) & 1 == 1

    def term(self):
        """Asks it to end, when it listens."""
        until(lambda: self.ended() or self.catches_term(), "%s listens" % self.words[1])
        if not self.ended():
            self.process.terminate()

    def wait(self):
        """What became of it, and all its lines are handed out."""
        code = self.process.wait(PATIENCE_S)
        for thread in self.threads:
            thread.join(PATIENCE_S)
        return code

    def end(self):
        self.term()
        return self.wait()

    def kill(self):
        if not self.ended():
            self.process.kill()
        self.process.wait(PATIENCE_S)
        self.process.stdin.close()

    def last_words(self):
        return " / ".join(self.said[-4:])


class Hand:
    """Whoever serves a subscription: a process at a time, that can be ended and started again."""

    def __init__(self, stage, subscription, words, log=None, **environment):
        self.stage = stage
        self.subscription = subscription
        self.words = words
        self.log = log  # a file that the command of --exec adds lines to
        self.at = 0
        self.environment = environment
        self.trouble = []
        self.ticks = 0
        self.start()

    def start(self):
        self.process = Process(*self.words, on_line=self.on_line, **self.environment)

    def on_line(self, line):
        event = json.loads(line)
        self.ticks += event["type"] == TICK
        self.subscription.saw(event["id"], event["global_sequence"], at=time.monotonic())

    def read_log(self):
        """Lines "id sequence exit-code"."""
        if self.log and os.path.exists(self.log):
            with open(self.log) as lines:
                lines.seek(self.at)
                for line in iter(lines.readline, ""):
                    if not line.endswith("\n"):
                        break
                    self.at += len(line)
                    event_id, sequence, code = line.split()
                    self.subscription.saw(event_id, int(sequence), handled=code == "0", at=time.monotonic())

    @property
    def durable(self):
        return True

    def judge(self):
        """Whether it stopped by itself; then the subscription's halt, or a finding."""
        state = self.stage.show(self.subscription.name)
        if state["state"] == "halted" and state["reason"]:
            self.subscription.halted = state["reason"]
        elif self.process.ended():
            self.note("%s ended with %s: %s" % (self.subscription.name, self.process.process.returncode,
                                                self.process.last_words()))
        return state["contiguous"] >= state["head"] or self.process.ended()

    def note(self, text):
        if text not in self.trouble:
            self.trouble.append(text)


class Follower(Hand):
    durable = False
    place = None  # of its last line, when it prints them

    def start(self):
        if self.place:
            at = self.words.index("--place" if "--place" in self.words else "--since")
            self.words[at:at + 2] = ["--place", self.place]
        super().start()

    def on_line(self, line):
        super().on_line(line)
        self.place = json.loads(line).get("place")

    def judge(self):
        """It has no place in the store: it is done when it prints what is appended now.

        One that says that the log was replaced and goes on has to print all of it."""
        loud = [line for line in self.process.said if LOUD.search(line)]
        code = self.process.process.poll()
        if loud and code is not None:
            self.subscription.halted = loud[0]
        elif code is not None:
            self.note("%s ended with %s: %s" % (self.subscription.name, code, self.process.last_words()))
        elif not self.ticks:
            self.stage.append(10, types=(TICK,), streams=("tick",))
            return False
        return True


class Writer:
    """A process that lives long and appends one event after the other; each outcome is noted.

    expecting: it names the version that it was told last.
    """

    def __init__(self, stage, url, streams, expecting=False, pause_s=0.0):
        self.stage = stage
        self.streams = streams
        self.expecting = expecting
        self.pause_s = pause_s
        self.versions = dict.fromkeys(streams, 0)
        self.answers = []
        self.turn = threading.Condition()
        self.process = Process(stage.hand, "append", url, on_line=self.on_line)
        self.stopping = threading.Event()
        self.thread = None
        self.failure = None
        self.refused = 0

    def on_line(self, line):
        with self.turn:
            self.answers.append(json.loads(line))
            self.turn.notify()

    def ask(self, *words):
        with self.turn:
            self.answers.clear()
            self.process.process.stdin.write(" ".join(words) + "\n")
            self.process.process.stdin.flush()
            assert self.turn.wait_for(lambda: self.answers, PATIENCE_S), "no answer: %s" % self.process.last_words()
            return self.answers[0]

    def one(self):
        """An event, sent again until its outcome is known."""
        history = self.stage.history
        event_id, event_type = self.stage.new_id(), self.stage.dice.choice(self.stage.types)
        stream = self.stage.dice.choice(self.streams)
        expect = ("%d" % self.versions[stream] if self.versions[stream] else "none") if self.expecting else "any"
        history.append(event_id, "unknown")
        end = time.monotonic() + PATIENCE_S
        while True:
            sent = history.moment
            answer = self.ask(stream, event_type, expect, event_id)
            if answer["status"] == "OK":
                history.append(event_id, "ok", sent)
                self.versions[stream] = answer["version"]
                return
            if answer["status"] == "CONFLICT":
                history.append(event_id, "refused")
                self.versions[stream] = answer["actual"]
                self.refused += 1
                return
            assert time.monotonic() < end, "not stored: %s" % self.process.last_words()
            time.sleep(0.02)

    def many(self, n):
        for _ in range(n):
            self.one()

    def start(self):
        """Goes on in a thread until stop()."""
        def run():
            try:
                while not self.stopping.is_set():
                    self.one()
                    self.stopping.wait(self.pause_s)
            except (AssertionError, OSError, ValueError) as failure:  # told when somebody stops us
                self.failure = failure
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def stop(self):
        self.stopping.set()
        if self.thread:
            self.thread.join(2 * PATIENCE_S)
            assert not self.thread.is_alive()
        self.process.kill()
        if self.failure:
            raise self.failure


class LineWriter:
    """howdah append --batch with a line at a time, in one process as long as it goes on."""

    def __init__(self, stage, url, streams):
        self.stage = stage
        self.url = url
        self.streams = streams
        self.stored = set()
        self.start()

    def start(self):
        self.process = Process(self.stage.howdah, "--store", self.url, "append", "--batch", "--tx-size", "1",
                               "--positions", "--json", on_line=lambda line: self.stored.add(json.loads(line)["id"]))

    def one(self):
        event_id = self.stage.new_id()
        line = json.dumps({"id": event_id, "stream": self.stage.dice.choice(self.streams),
                           "type": self.stage.dice.choice(self.stage.types), "data": {"u": event_id}})
        self.stage.history.append(event_id, "unknown")
        end = time.monotonic() + PATIENCE_S
        self.send(line)
        while event_id not in self.stored:
            if self.process.ended():  # the same line again: its id makes that safe
                self.start()
                self.send(line)
            assert time.monotonic() < end, "not stored: %s" % self.process.last_words()
            time.sleep(0.002)
        self.stage.history.append(event_id, "ok")

    def send(self, line):
        try:
            self.process.process.stdin.write(line + "\n")
            self.process.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and is started again

    def many(self, n):
        for _ in range(n):
            self.one()
