#!/usr/bin/env python3
"""What "meson install" gives a user: headers, libraries, pkg-config, a command and its manual.

  test_installed.py BUILD_DIRECTORY

Builds the examples against the installed tree, with the shared and with the static library, and
runs them.
"""
import os
import subprocess
import sys
import tempfile

import tap
import prefix as tree
import check_exports

EXAMPLES = ["append", "read", "follow", "subscribe", "worker", "two_times", "transaction_pg", "transaction_sqlite",
            "exactly_once_pg"]
STRICT = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O1"]


class Installed:
    def __init__(self, build, scratch):
        self.scratch = scratch
        self.prefix = tree.install(build, os.path.join(scratch, "root"))
        self.environment = self.prefix.environment()

    def run(self, *command):
        done = subprocess.run(command, env=self.environment, cwd=self.scratch, capture_output=True,
                              text=True, timeout=120)
        assert done.returncode == 0, "%s\n%s%s" % (" ".join(command), done.stdout, done.stderr)
        return done.stdout

    def pkg_config(self, *arguments):
        return self.run("pkg-config", *arguments).split()

    def everything_is_where_it_belongs(self):
        wanted = ["bin/howdah", "include/howdah/howdah.h", "include/howdah/howdah_pg.h",
                  "include/howdah/howdah_sqlite.h", "share/man/man1/howdah.1"]
        missing = [name for name in wanted
                   if not os.path.exists(os.path.join(self.prefix.prefix, name))]
        missing += [name for name in ("libhowdah.so", "libhowdah.so.0", "libhowdah.a")
                    if not os.path.exists(os.path.join(self.prefix.libdir, name))]
        assert not missing, missing

    def versions_agree(self):
        version = self.pkg_config("--modversion", "howdah")[0]
        assert version in self.run("howdah", "--version"), version
        with open(os.path.join(self.prefix.prefix, "include/howdah/howdah.h"),
                  encoding="utf-8") as f:
            assert '#define HOWDAH_VERSION_STRING "%s"' % version in f.read()

    def the_library_has_its_soname_and_only_its_exports(self):
        library = os.path.join(self.prefix.libdir, "libhowdah.so")
        assert check_exports.soname(library) == check_exports.SONAME
        assert check_exports.built(library) == set(check_exports.listed())

    def examples(self, kind, compile_one):
        directory = os.path.join(self.scratch, kind)
        os.makedirs(directory)
        for name in EXAMPLES:
            compile_one(os.path.join(tap.ROOT, "examples", name + ".c"),
                        os.path.join(directory, name))
        linked = self.run("ldd", os.path.join(directory, "append"))
        assert ("libhowdah.so.0" in linked) == (kind == "shared"), linked
        report = self.run(sys.executable, os.path.join(tap.ROOT, "examples", "test.py"), directory)
        tap.comment(report)

    def examples_work_with_the_shared_library(self):
        flags = self.pkg_config("--cflags", "--libs", "howdah", "libpq", "sqlite3")
        self.examples("shared", lambda source, program: self.run(
            "cc", *STRICT, source, "-o", program, *flags))

    def examples_work_with_the_static_library(self):
        needed = self.pkg_config("--print-requires-private", "howdah")
        assert needed, "howdah.pc names no private requirement"
        flags = self.pkg_config("--cflags", "howdah")
        flags.append(os.path.join(self.prefix.libdir, "libhowdah.a"))
        flags += self.pkg_config("--libs", *needed) + ["-pthread"]
        self.examples("static", lambda source, program: self.run(
            "cc", *STRICT, source, "-o", program, *flags))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        installed = Installed(os.path.abspath(sys.argv[1]), scratch)
        return tap.run([
            (name.replace("_", " "), getattr(installed, name)) for name in (
                "everything_is_where_it_belongs", "versions_agree",
                "the_library_has_its_soname_and_only_its_exports",
                "examples_work_with_the_shared_library",
                "examples_work_with_the_static_library")])


if __name__ == "__main__":
    sys.exit(main())
