#!/usr/bin/env python3
"""Runs clang-tidy over the sources of a build directory, and only over what changed.

  tidy.py BUILD_DIRECTORY [--jobs N] [--deep]

Without --deep, for the test run, the analyzer follows calls less far (a twentieth of the time) and
leaves the tests out: those the sanitizers watch.  All other checks are the same.

A file that several programs are made of is looked at once for each set of -D options.

A file that was found clean is remembered in BUILD_DIRECTORY/tidy-cache under the hash of all that
could change the verdict: its own text, every header of ours that it includes, its compile command,
the configuration and the version of clang-tidy.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys

import sources

TOOL = "clang-tidy"
AT_ONCE = 5  # files for one process, which takes a fifth of its time to start


def commands(build, database):
    """File → its compile entries, those that differ in what they define; the same as a
    compile_commands.json in the directory "database"."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        entries = json.load(f)
    found, kept, seen = {}, [], set()
    for entry in entries:
        path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        inside = os.path.relpath(path, sources.ROOT)
        key = (path, *sorted(a for a in shlex.split(entry["command"]) if a.startswith(("-D", "-U"))))
        if key in seen or inside.startswith(("..", os.path.relpath(build, sources.ROOT))):
            continue
        seen.add(key)
        kept.append(entry)
        found.setdefault(path, []).append(entry)
    with open(os.path.join(database, "compile_commands.json"), "w", encoding="utf-8") as f:
        json.dump(kept, f)
    return found


def dependencies(build):
    """Object → the files of ours that it was made of, as the build has recorded them."""
    out = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    found, names = {}, []
    for line in out.splitlines():
        if line.startswith("    "):
            if not os.path.isabs(line[4:]):
                names.append(os.path.normpath(os.path.join(build, line[4:])))
        elif line:
            names = found[line.split(":", 1)[0]] = []
    return found


def fingerprint(entries, made_of, common, extra):
    """None: not built yet, or a header is gone, so nobody knows what the verdict depends on."""
    digest = hashlib.sha256(common)
    digest.update(json.dumps([entry["command"] for entry in entries] + extra).encode())
    for entry in entries:
        if entry["output"] not in made_of or not all(map(os.path.exists, made_of[entry["output"]])):
            return None
        for name in sorted(made_of[entry["output"]]):
            with open(name, "rb") as f:
                digest.update(name.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return digest.hexdigest()


SHALLOW = ["-Xclang", "-analyzer-config", "-Xclang", "mode=shallow,max-nodes=10000"]


def how(path, deep):
    """The options that make it quick."""
    if deep:
        return []
    if os.path.relpath(path, sources.ROOT).startswith("tests" + os.sep):
        return ["--checks=-clang-analyzer-*"]
    return ["--extra-arg=" + argument for argument in SHALLOW]


def common_part():
    """What the verdict on every file depends on."""
    parts = [subprocess.run([TOOL, "--version"], capture_output=True, check=True).stdout]
    for name in sources.files(".clang-tidy"):
        parts.append(sources.read(name).encode())
    return hashlib.sha256(b"\0".join(parts)).digest()


def check(marks, cache, extra):
    """What is wrong with these files, or ""; marks: path → where it is remembered, or None."""
    done = subprocess.run(
        [TOOL, "--quiet", "-p", cache, "--extra-arg=-Wno-error",
         "--extra-arg=-Wno-unknown-warning-option",
         "--extra-arg=-Wno-ignored-optimization-argument"]
        + extra + sorted(marks),
        capture_output=True, text=True)
    if done.returncode != 0 or "warning:" in done.stdout:
        return done.stdout or done.stderr
    for mark in filter(None, marks.values()):
        with open(mark, "w", encoding="utf-8"):
            pass
    return ""


def to_check(build, cache, deep):
    """(how many files there are, what is to be checked: a few files at a time, with their options)."""
    common = common_part()
    made_of = dependencies(build)
    todo = {}
    files = commands(build, cache)
    for path, entries in sorted(files.items()):
        extra = how(path, deep)
        digest = fingerprint(entries, made_of, common, extra)
        mark = digest and os.path.join(cache, digest)
        if not mark or not os.path.exists(mark):
            todo.setdefault(tuple(extra), []).append((path, mark))
    return len(files), [(dict(found[i:i + AT_ONCE]), list(extra))
                        for extra, found in todo.items() for i in range(0, len(found), AT_ONCE)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 2))
    parser.add_argument("--deep", action="store_true")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    cache = os.path.join(build, "tidy-cache")
    os.makedirs(cache, exist_ok=True)
    files, todo = to_check(build, cache, arguments.deep)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(lambda part: check(part[0], cache, part[1]), todo))
    bad = [output for output in found if output]
    for output in bad:
        print(output)
    print("clang-tidy: %d files, %d of them unchanged%s"
          % (files, files - sum(len(marks) for marks, _ in todo), "; findings above" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
