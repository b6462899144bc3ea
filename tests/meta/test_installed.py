#!/usr/bin/env python3
"""What "meson install" gives a user: headers, libraries, pkg-config, a command and its manual.

  test_installed.py BUILD_DIRECTORY

Builds the examples against the installed tree, with the shared and with the static library, and
runs them; a tree without what only tests need can be configured.
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
        """-lhowdah would take the shared one, which stands beside it."""
        flags = self.pkg_config("--cflags", "--static", "--libs", "howdah")
        assert "-lhowdah" in flags and "-lpq" in flags, flags
        flags[flags.index("-lhowdah")] = "-l:libhowdah.a"
        drivers = self.pkg_config("--cflags", "libpq", "sqlite3")
        self.examples("static", lambda source, program: self.run(
            "cc", *STRICT, source, "-o", program, *drivers, *flags))

    def pkg_config_asks_for_nothing_but_howdah(self):
        """Where no other library is known to it."""
        only = dict(self.environment, PKG_CONFIG_LIBDIR=self.prefix.pkgconfig)
        for arguments in (["--cflags"], ["--libs"], ["--static", "--libs"]):
            done = subprocess.run(["pkg-config", *arguments, "howdah"], env=only,
                                  capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        libraries = [flag for flag in self.pkg_config("--libs", "howdah") if flag.startswith("-l")]
        assert libraries == ["-lhowdah"], libraries
        include = os.path.join(self.prefix.prefix, "include")
        assert self.pkg_config("--cflags", "howdah") == ["-I" + include]

    def the_headers_include_no_driver_unless_asked(self):
        """gcc and clang; what they read is what -M lists."""
        flags = self.pkg_config("--cflags", "howdah")
        for compiler in "gcc", "clang":
            for example, drivers in (("worker", []), ("transaction_sqlite", ["sqlite3.h"]),
                                     ("transaction_pg", ["libpq-fe.h"])):
                more = self.pkg_config("--cflags", "libpq") if drivers == ["libpq-fe.h"] else []
                source = os.path.join(tap.ROOT, "examples", example + ".c")
                self.run(compiler, *STRICT, "-fsyntax-only", *flags, *more, source)
                read = self.run(compiler, "-M", *flags, *more, source).split()
                found = {os.path.basename(name) for name in read} & {"sqlite3.h", "libpq-fe.h"}
                assert found == set(drivers), "%s, %s: %s" % (compiler, example, found)

    def a_tree_without_cmocka_configures_with_clang(self):
        """As on a machine of a user: no tests, and a warning is no error."""
        build = os.path.join(self.scratch, "build")
        done = subprocess.run(["meson", "setup", build, tap.ROOT, "--buildtype=plain",
                               "-Dtests=disabled"], env=dict(os.environ, CC="clang"),
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        with open(os.path.join(build, "build.ninja"), encoding="utf-8") as f:
            ninja = f.read()
        assert "libhowdah.a" in ninja and "src/cli/howdah" in ninja
        assert "tests/unit" not in ninja, "there are tests"
        assert "-Werror" not in ninja, "a warning is an error"


def main():
    with tempfile.TemporaryDirectory() as scratch:
        installed = Installed(os.path.abspath(sys.argv[1]), scratch)
        return tap.run([
            (name.replace("_", " "), getattr(installed, name)) for name in (
                "everything_is_where_it_belongs", "versions_agree",
                "the_library_has_its_soname_and_only_its_exports",
                "examples_work_with_the_shared_library",
                "examples_work_with_the_static_library",
                "pkg_config_asks_for_nothing_but_howdah",
                "the_headers_include_no_driver_unless_asked",
                "a_tree_without_cmocka_configures_with_clang")])


if __name__ == "__main__":
    sys.exit(main())
