#!/usr/bin/env python3
"""Checks that clang-format would change nothing; with --fix it changes what is to be changed."""
import subprocess
import sys

import sources


def main(arguments):
    mode = ["-i"] if arguments == ["--fix"] else ["--dry-run", "-Werror"]
    names = sources.files(".c", ".h")
    code = subprocess.run(["clang-format", "--style=file"] + mode + names, cwd=sources.ROOT).returncode
    print("%d files %s" % (len(names), "formatted" if mode == ["-i"] else
                           "are formatted" if code == 0 else "looked at: run ./dev format"))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
