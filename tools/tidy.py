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


def commands(build, database):
    """File → its directory and compile commands (lists) for our own files, those that differ in what
    they define; the same as a compile_commands.json in the directory "database"."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        entries = json.load(f)
    found, kept, seen = {}, [], set()
    for entry in entries:
        path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        inside = os.path.relpath(path, sources.ROOT)
        command = shlex.split(entry["command"])
        key = (path, *sorted(a for a in command if a.startswith(("-D", "-U"))))
        if key in seen or inside.startswith(("..", os.path.relpath(build, sources.ROOT))):
            continue
        seen.add(key)
        kept.append(entry)
        found.setdefault(path, (entry["directory"], []))[1].append(command)
    with open(os.path.join(database, "compile_commands.json"), "w", encoding="utf-8") as f:
        json.dump(kept, f)
    return found


def without_outputs(command):
    """The compile command without -o, -c and the dependency options."""
    kept, skip = [], False
    for argument in command:
        if skip:
            skip = False
        elif argument in ("-o", "-MF", "-MQ", "-MT"):
            skip = True
        elif argument not in ("-c", "-MD", "-MMD"):
            kept.append(argument)
    return kept


def own_files(directory, command):
    """The source and the headers of ours it includes."""
    out = subprocess.run(without_outputs(command) + ["-MM"], cwd=directory, capture_output=True,
                         text=True, check=True).stdout
    names = out.replace("\\\n", " ").split(":", 1)[1].split()
    return sorted(os.path.normpath(os.path.join(directory, n)) for n in names)


def fingerprint(directory, variants, common, extra):
    digest = hashlib.sha256(common)
    digest.update(json.dumps([variants, extra]).encode())
    for command in variants:
        for name in own_files(directory, command):
            with open(name, "rb") as f:
                digest.update(name.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return digest.hexdigest()


SHALLOW = ["-Xclang", "-analyzer-config", "-Xclang", "mode=shallow"]


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


def check(path, cache, directory, variants, common, extra):
    """(path, output, was it cached); output is empty when all is well."""
    try:
        mark = os.path.join(cache, fingerprint(directory, variants, common, extra))
    except (OSError, subprocess.CalledProcessError, IndexError) as e:
        return path, "%s: cannot be compiled: %s" % (path, e), False
    if os.path.exists(mark):
        return path, "", True
    done = subprocess.run(
        [TOOL, "--quiet", "-p", cache, "--extra-arg=-Wno-error",
         "--extra-arg=-Wno-unknown-warning-option",
         "--extra-arg=-Wno-ignored-optimization-argument"]
        + extra + [path],
        capture_output=True, text=True)
    if done.returncode == 0 and "warning:" not in done.stdout:
        with open(mark, "w", encoding="utf-8"):
            pass
        return path, "", False
    return path, done.stdout or done.stderr, False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 2))
    parser.add_argument("--deep", action="store_true")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    cache = os.path.join(build, "tidy-cache")
    os.makedirs(cache, exist_ok=True)
    common = common_part()
    todo = commands(build, cache)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda item: check(item[0], cache, *item[1], common,
                                                   how(item[0], arguments.deep)),
                                sorted(todo.items())))
    bad = [output for _, output, _ in results if output]
    for output in bad:
        print(output)
    print("clang-tidy: %d files, %d of them unchanged, %d with findings"
          % (len(results), sum(cached for _, _, cached in results), len(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
