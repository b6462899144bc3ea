#!/usr/bin/env python3
"""Checks that includes point one way: base <- engine <- store <- bus <- face <- cli, gateway, bench.

  base     nothing of ours but itself and the public header's types
  engine   base; pure: no clock, no randomness, no input and output, no threads
  store    base and engine; pg and sqlite do not know one another
  bus      base, engine and the store's contract, not its engines (but for caller_tx.c)
  face     the public headers and base, as any program outside would: what the faces of the bus,
           cli and gateway, print and read alike
  cli      the same, and face; only out/out.c writes to stdout and stderr, so that nothing reaches a
           terminal past it
  gateway  the public headers, base and face; cli/cmd/serve.c is its only door
  bench    the public headers, base and face, and how the command prints; cli/cmd/bench.c is its only
           door
  tests, examples, tools: whatever they like
"""
import os
import re
import sys

import sources

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')

# A folder, and the folders of src/ that its files may include.  The longest match counts.
MAY = {
    "base": ["base"],
    "engine": ["base", "engine"],
    "store": ["base", "engine", "store"],
    "store/pg": ["base", "engine", "store", "store/pg"],
    "store/sqlite": ["base", "engine", "store", "store/sqlite"],
    "bus": ["base", "engine", "store", "bus"],
    "face": ["base", "face"],
    "cli": ["base", "face", "cli"],
    "gateway": ["base", "face", "gateway"],
    "bench": ["base", "face", "cli", "bench"],
}
# The dispatcher of stores has to know the stores; so has the call on the caller's own connection.
MAY_ALSO = {
    "store/store.c": ["store/pg", "store/sqlite"],
    "bus/caller_tx.c": ["store/pg", "store/sqlite"],
    "cli/cmd/bench.c": ["bench"],
    "cli/cmd/serve.c": ["gateway"],
}
# Drivers, and the folders or files that may speak to them.
DRIVERS = {
    "libpq-fe.h": ["store/pg", "bench"],
    "howdah/howdah_pg.h": ["store/pg", "bus/caller_tx.c"],
    "sqlite3.h": ["store/sqlite", "bench"],
    "howdah/howdah_sqlite.h": ["store/sqlite", "bus/caller_tx.c"],
}
IMPURE_HEADERS = re.compile(
    r"^(time|unistd|fcntl|poll|pthread|signal|threads|sys/.*|netdb|arpa/.*|openssl/.*)\.h$")
IMPURE_OURS = {"base/random.h", "base/fault.h", "base/log_hook.h"}
IMPURE_CALLS = re.compile(
    r"\b(time|clock|clock_gettime|gettimeofday|rand|random|srand|rand_r|drand48|getrandom|getenv|"
    r"fopen|fclose|fread|fwrite|fprintf|printf|puts|fputs|open|read|write|nanosleep|usleep|sleep|"
    r"hw_clock_\w+|hw_random_\w+)\s*\(")
PRINTING = re.compile(
    r"\b(stdout|stderr|printf|vprintf|puts|putchar|putc|fputc|fputs|fprintf|vfprintf|dprintf|fwrite|perror|psignal)\b")
PRINTS = "cli/out/out.c"


def folder_of(path):
    """The longest folder of MAY that holds path (relative to src/)."""
    best = None
    for folder in MAY:
        if path.startswith(folder + "/") and (best is None or len(folder) > len(best)):
            best = folder
    return best


def resolve(name, including):
    """A quoted include as a path below src/, or None."""
    beside = os.path.normpath(os.path.join(os.path.dirname(including), name))
    for candidate in (beside, name):
        if os.path.isfile(os.path.join(sources.ROOT, "src", candidate)):
            return candidate
    return None


def check_include(path, folder, kind, name):
    """What is wrong with one include, or None."""
    if name in DRIVERS and not {folder, path} & set(DRIVERS[name]):
        return "only %s may include <%s>" % (" and ".join(DRIVERS[name]), name)
    if folder == "engine" and kind == "<" and IMPURE_HEADERS.match(name):
        return "the engine is pure: no <%s>" % name
    if kind == "<":
        return None
    target = resolve(name, path)
    if target is None:
        return 'no such file: "%s"' % name
    if folder == "engine" and target in IMPURE_OURS:
        return "the engine is pure: no \"%s\"" % name
    allowed = MAY[folder] + MAY_ALSO.get(path, [])
    if folder_of(target) not in allowed:
        return "%s may not include \"%s\" (only %s)" % (folder, target, ", ".join(allowed))
    return None


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def blank(match):
    """Keeps line numbers right."""
    return re.sub(r"[^\n]", " ", match.group(0))


def check_file(path):
    folder = folder_of(path)
    if folder is None:
        return ["src/%s: belongs to no layer" % path]
    text = sources.read("src/" + path)
    bare = COMMENT.sub(blank, text)
    problems = []
    for match in INCLUDE.finditer(bare):
        problem = check_include(path, folder, match.group(1), match.group(2))
        if problem:
            problems.append("src/%s:%d: %s" % (path, line_of(bare, match.start()), problem))
    if folder == "engine":
        for match in IMPURE_CALLS.finditer(STRING.sub(blank, bare)):
            problems.append("src/%s:%d: the engine is pure: no %s()"
                            % (path, line_of(bare, match.start()), match.group(1)))
    if folder in ("face", "cli", "gateway", "bench") and path != PRINTS:
        for match in PRINTING.finditer(STRING.sub(blank, bare)):
            problems.append("src/%s:%d: only %s prints: no %s"
                            % (path, line_of(bare, match.start()), PRINTS, match.group(1)))
    return problems


def main():
    names = [n[len("src/"):] for n in sources.files(".c", ".h") if n.startswith("src/")]
    problems = [p for name in names for p in check_file(name)]
    for problem in problems:
        print(problem)
    print("%d files, %d include edges that point the wrong way" % (len(names), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
