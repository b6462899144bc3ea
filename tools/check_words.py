#!/usr/bin/env python3
"""Keeps retired words out of names: files, C identifiers, SQL names.

A word that meant several things, or that nobody outside of the project knows, has been replaced by
the field's word (ARCHITECTURE.md, "Words").  Prose is free; names are not.
"""
import os
import re
import sys

import sources

# Retired: what to say instead.
RETIRED = {
    "glance": "summary",
    "owed": "outstanding",
    "lift": "upcast",
    "lifted": "upcast",
    "deaf": "cannot_listen",
    "foreign": "caller_owned",
    "bury": "resolve_gap",
    "buried": "resolved",
    "bears": "retries_after",
    "feed": "reader",
    "turn": "deliver (a subscription) or exchange (a worker)",
    "turns": "deliver (a subscription) or exchange (a worker)",
    "settle": "ack (a job) or prove (a number)",
    "settled": "acked (a job) or proven (a number)",
    "settles": "acks",
    "settling": "acking",
    "settlement": "ack",
    "settlements": "acks",
    "owning": "ownership",
    "audience": "subscribers",
    "crew": "clients",
    "question": "query",
    "temporal": "times",
    "letter": "dead_letter",
    "letters": "dead_letters",
}
# "dead_letter" is the word itself.
ALLOWED_AFTER = {"letter": "dead", "letters": "dead"}
# Names of others, and words of plain English in the names of tests, which are sentences.
EXCEPT = {"FOREIGN", "foreign_keys"}
SENTENCE_SEGMENTS = 5

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[A-Za-z_]\w*', re.S)
SQL_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|[A-Za-z_]\w*")


def retired_in(name):
    """The first retired word in a name, or None."""
    segments = name.lower().split("_")
    if name in EXCEPT or len(segments) > SENTENCE_SEGMENTS:
        return None
    for i, segment in enumerate(segments):
        if segment in RETIRED and not (i > 0 and ALLOWED_AFTER.get(segment) == segments[i - 1]):
            return segment
    return None


def names_in(text, token):
    """(name, line) of each identifier, outside of comments and strings."""
    for match in token.finditer(text):
        if re.match(r"[A-Za-z_]", match.group(0)):
            yield match.group(0), text.count("\n", 0, match.start()) + 1


def check_text(path, text):
    """What is wrong with one file, as lines."""
    problems = []
    stem = os.path.splitext(os.path.basename(path))[0]
    found = retired_in(stem.replace("-", "_"))
    if found:
        problems.append('%s: "%s" is retired, say %s' % (path, found, RETIRED[found]))
    token = SQL_TOKEN if path.endswith(".sql") else TOKEN
    if path.endswith((".c", ".h", ".sql")):
        for name, line in names_in(text, token):
            found = retired_in(name)
            if found:
                problems.append('%s:%d: %s: "%s" is retired, say %s'
                                % (path, line, name, found, RETIRED[found]))
    return problems


def main():
    names = [n for n in sources.files(".c", ".h", ".sql", ".py", ".sh", ".md") if not n.startswith("build")]
    problems = [p for name in names for p in check_text(name, sources.read(name))]
    for problem in problems:
        print(problem)
    print("%d files, %d names with retired words" % (len(names), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
