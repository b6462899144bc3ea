"""Members of groups: processes that share a subscription, and how a scenario starts them.

All members of a group add their lines to one file, so that the order in which events were handled is known,
whoever had them.
"""
import collections
import os
import time

from hands import Hand

LEASE_MS = 1000  # what a member that is gone had comes again after so long
START_S = 2.0    # who cannot begin so long is not waited for: a pooler may still have connections to a server that died
UNAVAILABLE = 5  # its exit code
PROMPT_S = 20.0  # all is handled so long after the last change, also where much else goes on

# Kind: the program, its first words, and whether its effects are in the transactions of its acks.
KINDS = {
    "exec": ("howdah", (), False),
    "handler": ("hand", ("subscribe",), False),
    "tx": ("hand", ("subscribe",), True),
    "pull": ("member", ("pull",), False),
    "sql": ("member", ("sql",), True),
}


class Member(Hand):
    """One process.  The first of a group reads what all of them have written.

    One that finds no store when it starts is started again, as by whoever looks after it.  Later it has to wait.
    """

    def __init__(self, *words, **more):
        self.said = collections.Counter()
        super().__init__(*words, **more)

    def start(self):
        self.started = time.monotonic()
        super().start()

    def read_log(self):
        super().read_log()
        if self.process.process.poll() == UNAVAILABLE and time.monotonic() - self.started < START_S:
            self.stage.run.comment("%s is started again: %s" % (self.subscription.name, self.process.last_words()))
            self.start()

    def on_line(self, line):
        self.said[line] += 1


def words_of(stage, kind, name, url, log, keys):
    program, first, _ = KINDS[kind]
    if program == "howdah":
        options = [word for key, value in keys.items() for word in ("--" + key, str(value))]
        return [stage.howdah, "--store", url, "--quiet", "subscribe", name, "--shared", "--lease", "%dms" % LEASE_MS,
                *options, "--exec", 'echo "$HOWDAH_EVENT_ID $HOWDAH_SEQUENCE 0" >>"$RUNS"']
    path = stage.hand if program == "hand" else os.path.join(os.path.dirname(stage.hand), "member")
    words = [path, *first, url, name, "log=" + log]
    if program == "hand":
        words += ["instance=shared"] + (["checkpoint=transactional"] if kind == "tx" else [])
    return words + ["%s=%s" % item for item in dict({"lease_ms": LEASE_MS}, **keys).items()]


def group(stage, name, effects=False):
    """Makes it; nobody serves it."""
    stage.command("subscribe", name, "--shared", "--max", "0", "--max-retries", "1000", "--retry-delay", "20ms",
                  "--max-retry-delay", "200ms")
    return stage.history.subscription(name, effects=effects, shared=True)


def share(stage, name, kind, *more, url=None, sub=None, **keys):
    """A group with a member of this kind, and one for each of more: what it has differently."""
    sub = sub or group(stage, name, KINDS[kind][2])
    log = os.path.join(stage.dir, name)
    open(log, "w").close()
    return [stage.keep(Member(stage, sub, words_of(stage, kind, name, url or stage.url(), log, dict(keys, **other)),
                              log=None if i else log, RUNS=log)) for i, other in enumerate(({},) + more)]


def until_prompt(stage, hands):
    """Everything in the log is handled, in time."""
    start = time.monotonic()
    stage.until_handled(*hands)
    took = time.monotonic() - start
    stage.run.comment("all is handled after %.1f s" % took)
    assert took < PROMPT_S, "it took %.1f s" % took


def said(hands, word):
    return sum(hand.said[word] for hand in hands)
