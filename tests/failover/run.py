#!/usr/bin/env python3
"""Runs scenarios in which a server is replaced under running clients.

  tests/failover/run.py [--only NAME]... [--seed N] [--rounds N] [--for SECONDS] [--howdah PATH] [--hand PATH] [--list]

NAME is a group (pooler, direct, end, effects, follow, jobs, append, sqlite, random, members, reserved,
restarts, random members, sqlite members) or words of a case's name.  --for goes on with the next seeds until the time is over.  Also: HOWDAH, HOWDAH_HAND, HOWDAH_FAILOVER_SEED, HOWDAH_FAILOVER_ROUNDS.
"""
import argparse
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "meta"))
import tap  # noqa: E402
from servers import Place, Template  # noqa: E402
from scenarios import GROUPS  # noqa: E402
from group_scenarios import SHARED  # noqa: E402

GROUPS.update(SHARED)

BUILT = os.path.join(ROOT, "build-test")


class Run:
    """What the scenarios share."""

    comment = staticmethod(tap.comment)

    def __init__(self, arguments):
        self.howdah = os.path.abspath(arguments.howdah)
        self.hand = os.path.abspath(arguments.hand)
        self.seed = arguments.seed
        self.rounds = arguments.rounds
        self.place = Place()
        self.made = None
        self.stages = 0

    def template(self):
        self.made = self.made or Template(self.place, self.howdah)
        return self.made

    def count(self):
        self.stages += 1
        return self.stages

    def case(self, group, function):
        """A title, and the function with what makes it come again when it fails."""
        title = "%s: %s" % (group, function.__name__.replace("_", " "))

        def timed():
            start = time.monotonic()
            try:
                function(self)
            except BaseException:
                tap.comment("reproduce: tests/failover/run.py --only '%s' --seed %d --rounds %d --howdah %s --hand %s" % (
                    function.__name__, self.seed, self.rounds, self.howdah, self.hand))
                raise
            finally:
                tap.comment("%.1f s" % (time.monotonic() - start))
        return title, timed


def chosen(only):
    for group, functions in GROUPS.items():
        for function in functions:
            if not only or group in only or any(
                    word not in GROUPS and word.replace(" ", "_") in function.__name__ for word in only):
                yield group, function


def main():
    number = time.time_ns() // 1000 % 1000000
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("HOWDAH_FAILOVER_SEED", number)))
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("HOWDAH_FAILOVER_ROUNDS", 6)))
    parser.add_argument("--for", type=float, default=0, dest="seconds", metavar="SECONDS")
    parser.add_argument("--howdah", default=os.environ.get("HOWDAH", os.path.join(BUILT, "src/cli/howdah")))
    parser.add_argument("--hand", default=os.environ.get("HOWDAH_HAND", os.path.join(BUILT, "tests/failover/hand")))
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    cases = list(chosen(arguments.only))
    if arguments.list:
        print("\n".join("%s: %s" % (group, function.__name__) for group, function in cases))
        return 0
    if not cases:
        parser.error("no such scenario: %s" % ", ".join(arguments.only))
    run = Run(arguments)
    end = time.monotonic() + arguments.seconds
    code = 0
    while True:
        tap.comment("seed %d" % run.seed)
        code |= tap.run([run.case(*case) for case in cases])
        run.seed += 1
        if time.monotonic() >= end:
            return code


if __name__ == "__main__":
    sys.exit(main())
