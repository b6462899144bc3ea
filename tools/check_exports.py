#!/usr/bin/env python3
"""Compares the public headers, exports.txt and the built library: the same functions in all three.

  check_exports.py [LIBRARY]   headers against exports.txt, and the library's symbols if given
  check_exports.py --write     makes exports.txt from the headers; refuses to drop a symbol
"""
import os
import re
import subprocess
import sys

import sources

EXPORTS = "exports.txt"
SONAME = "libhowdah.so.0"
DECLARATION = re.compile(r"\bHOWDAH_API\b\s+(?:HOWDAH_MUST_CHECK\s+)?[^;(]*?\b(howdah_\w+)\s*\(")
HEAD = """\
# Every symbol of libhowdah.so, sorted.  Lines are only ever added: a symbol that was released stays.
# Made by tools/check_exports.py --write; compared with headers and library by the tests.
"""


def declared():
    """Functions that the public headers declare with HOWDAH_API."""
    found = set()
    for name in sources.files(".h"):
        if name.startswith("include/howdah/"):
            text = re.sub(r"/\*.*?\*/", " ", sources.read(name), flags=re.S)
            text = re.sub(r"^[ \t]*#.*(?:\\\n.*)*$", "", text, flags=re.M)
            found.update(DECLARATION.findall(text))
    return found


def listed():
    path = os.path.join(sources.ROOT, EXPORTS)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [line.strip() for line in f if line.strip() and not line.startswith("#")]


def built(library):
    """Dynamic symbols that the library defines."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                         capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


def soname(library):
    out = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                         text=True).stdout
    match = re.search(r"\(SONAME\).*\[(.+)\]", out)
    return match.group(1) if match else None


def compare(left_name, left, right_name, right):
    problems = ["%s has %s, %s has not" % (left_name, s, right_name) for s in sorted(left - right)]
    problems += ["%s has %s, %s has not" % (right_name, s, left_name) for s in sorted(right - left)]
    return problems


def write():
    names = declared()
    gone = set(listed()) - names
    if gone:
        print("no longer declared, but exported before: %s" % ", ".join(sorted(gone)))
        return 1
    with open(os.path.join(sources.ROOT, EXPORTS), "w", encoding="utf-8") as f:
        f.write(HEAD + "".join(name + "\n" for name in sorted(names)))
    print("%s: %d symbols" % (EXPORTS, len(names)))
    return 0


def main(arguments):
    if arguments == ["--write"]:
        return write()
    lines = listed()
    problems = compare("a header", declared(), EXPORTS, set(lines))
    if lines != sorted(set(lines)):
        problems.append("%s is not sorted, or has a symbol twice" % EXPORTS)
    for library in arguments:
        problems += compare(EXPORTS, set(lines), os.path.basename(library), built(library))
        if soname(library) != SONAME:
            problems.append("SONAME is %s, not %s" % (soname(library), SONAME))
    for problem in problems:
        print(problem)
    print("%d exports, %d problems" % (len(lines), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
