#!/usr/bin/env python3
"""Checks that no source file has more lines than one can keep in mind, and that lines end cleanly."""
import os
import sys

import sources

LINES_MAX = 1000
SUFFIXES = (".c", ".h", ".py", ".sh", ".sql", ".build", ".md", ".yml", ".1")
# Without a suffix, yet text.
NAMES = ("dev", ".ci/run", "tools/with-pg", "tools/fetch-pg")


def problems_of(name):
    text = sources.read(name)
    lines = text.split("\n")
    if len(lines) > LINES_MAX and not name.endswith(".md"):
        yield "%s: %d lines, at most %d" % (name, len(lines), LINES_MAX)
    if text and not text.endswith("\n"):
        yield "%s: no newline at its end" % name
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield "%s:%d: blanks at the end of the line" % (name, number)
        if "\t" in line and not name.endswith((".md", ".1")):
            yield "%s:%d: a tab" % (name, number)


def main():
    names = sources.files(*SUFFIXES) + [n for n in NAMES if os.path.exists(
        os.path.join(sources.ROOT, n))]
    problems = [p for name in names for p in problems_of(name)]
    for problem in problems:
        print(problem)
    print("%d files, %d problems" % (len(names), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
