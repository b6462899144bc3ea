#!/usr/bin/env python3
"""Runs shellcheck over every shell script, found by its first line."""
import subprocess
import sys

import sources


def is_script(name):
    first = sources.read(name)[:80].split("\n")[0]
    return first.startswith("#!") and first.split("/")[-1].split(" ")[-1] in ("sh", "bash", "dash")


def main():
    names = [n for n in sources.files() if "." not in n.split("/")[-1] or n.endswith(".sh")]
    scripts = [n for n in names if is_script(n)]
    code = subprocess.run(["shellcheck"] + scripts, cwd=sources.ROOT).returncode
    print("%d scripts" % len(scripts))
    return code


if __name__ == "__main__":
    sys.exit(main())
