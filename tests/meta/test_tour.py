#!/usr/bin/env python3
"""The guided tour of ./dev run, and the verbs of ./dev that need no build.

  test_tour.py HOWDAH
"""
import os
import subprocess
import sys
import tempfile

import tap

HOWDAH = os.path.abspath(sys.argv[1])
TOUR = os.path.join(tap.ROOT, "tools", "tour.sh")
DEV = os.path.join(tap.ROOT, "dev")


def take(directory):
    done = subprocess.run([TOUR, HOWDAH, os.path.join(directory, "howdah.db")],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def the_tour_shows_its_commands_and_can_be_taken_again():
    with tempfile.TemporaryDirectory() as directory:
        first = take(directory)
        for shown in ("$ howdah init", "$ howdah append order-1 order.created", "--expect none",
                      "$ howdah append --batch", "$ howdah read --stream order-1",
                      "$ howdah trace", "$ howdah follow", "$ howdah subscribe tour",
                      "order-1: order.shipped", "$ howdah sub ls",
                      "$ howdah push mail", "$ howdah work mail", "$ howdah log mail", "no such address",
                      "$ howdah queue show mail", "$ howdah status", "That was the tour."):
            assert shown in first, "%s is not in\n%s" % (shown, first)
        second = take(directory)
        assert "$ howdah read --stream order-2" in second, second


def dev_lists_its_verbs():
    for arguments in ([], ["help"]):
        done = subprocess.run([DEV, *arguments], capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done
        for verb in ("run", "test", "check", "lint", "format", "asan", "bench", "matrix"):
            assert "\n  %s " % verb in done.stdout, verb


def dev_refuses_an_unknown_verb():
    done = subprocess.run([DEV, "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage:" in done.stderr, done


if __name__ == "__main__":
    sys.exit(tap.run([the_tour_shows_its_commands_and_can_be_taken_again, dev_lists_its_verbs,
                      dev_refuses_an_unknown_verb]))
