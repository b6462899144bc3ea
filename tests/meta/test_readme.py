#!/usr/bin/env python3
"""Runs the commands of README.md, so that what it says stays true.

  test_readme.py BUILD_DIRECTORY

Every block that starts with ```sh, ```sql or ```c is a test, in the order of the page and in one
scratch directory, with the installed command first in the PATH:

  sh     a script, stopped at the first command that fails.  Lines that start with "./dev", "git " or
         "apt-get " are left out.  "howdah follow" ends by Ctrl-C after two seconds.  "$ " before a
         command is taken away, and then lines without it are its output, not commands.
  sql    given to psql, on the same database
  c      compiled; linked and run when it has a main()

Any postgres:// URL on the page stands for the test's own server.  A comment <!-- not run: WHY -->
on the line before a block leaves it out.
"""
import os
import re
import subprocess
import sys
import tempfile

import tap
import prefix as tree

BLOCK = re.compile(r"(?:^<!--\s*not run:\s*(?P<why>.*?)\s*-->\s*\n)?^```(?P<kind>sh|sql|c)\b[^\n]*\n"
                   r"(?P<text>.*?)^```\s*$", re.M | re.S)
LEFT_OUT = re.compile(r"^\s*(\./dev\b|git |(sudo )?apt-get |cd howdah\b)")
URL = re.compile(r"postgres(?:ql)?://[^\s'\"`]+")
FOLLOW = re.compile(r"^(\s*)(howdah\s+(?:--\S+\s+)*follow\b)")
PRELUDE = """\
set -e
follow_for_a_moment() {
    code=0
    timeout -s INT 2 "$@" || code=$?
    [ $code -eq 0 ] || [ $code -eq 124 ] || [ $code -eq 130 ]
}
"""


def commands(text):
    """The lines of a sh block that are to be run."""
    lines = text.split("\n")
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith(("$ ", "> "))]
    kept = [line for line in lines if not LEFT_OUT.match(line)]
    return "\n".join(FOLLOW.sub(r"\1follow_for_a_moment \2", line) for line in kept)


class Readme:
    def __init__(self, build, scratch):
        self.scratch = os.path.join(scratch, "work")
        os.makedirs(self.scratch)
        self.server = os.environ["HOWDAH_TEST_PG"]
        self.prefix = tree.install(build, os.path.join(scratch, "root"))
        self.environment = self.prefix.environment(NO_COLOR="1")
        for name in list(self.environment):
            if name in ("HOWDAH_STORE", "HOWDAH_SCHEMA"):
                del self.environment[name]

    def run(self, command, text=""):
        done = subprocess.run(command, input=text, env=self.environment, cwd=self.scratch, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        assert done.returncode == 0, "exit code %d of\n%s\n%s" % (done.returncode, text, done.stdout)
        return done.stdout

    def quoted_server(self, match):
        return "'%s'" % self.server

    def sh(self, text):
        script = re.sub(r"(['\"]?)" + URL.pattern + r"\1", self.quoted_server, commands(text))
        tap.comment(self.run(["sh", "-c", PRELUDE + script]))

    def sql(self, text):
        tap.comment(self.run(["psql", "-X", "-v", "ON_ERROR_STOP=1", self.server], text))

    def c(self, text):
        source = os.path.join(self.scratch, "readme.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        program = os.path.join(self.scratch, "readme")
        whole = re.search(r"\bint\s+main\b", text)
        flags = self.run(["pkg-config", "--cflags", "--libs", "howdah", "libpq", "sqlite3"]).split()
        output = ["-o", program] if whole else ["-fsyntax-only"]
        self.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", source, *output, *flags])
        if whole:
            tap.comment(self.run([program]))


def case(readme, kind, text, why, line):
    def check():
        if why:
            raise tap.Skip(why)
        getattr(readme, kind)(text)
    first = next((part.strip() for part in text.split("\n") if part.strip()), "")
    return "README.md:%d: %s" % (line, first[:60]), check


def main():
    with open(os.path.join(tap.ROOT, "README.md"), encoding="utf-8") as f:
        page = f.read()
    with tempfile.TemporaryDirectory() as scratch:
        readme = Readme(os.path.abspath(sys.argv[1]), scratch)
        return tap.run([
            case(readme, m.group("kind"), m.group("text"), m.group("why"),
                 page.count("\n", 0, m.start("kind")) + 1)
            for m in BLOCK.finditer(page)
            if m.group("kind") != "sh" or commands(m.group("text")).strip()])


if __name__ == "__main__":
    sys.exit(main())
