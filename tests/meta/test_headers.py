#!/usr/bin/env python3
"""Every public header stands alone and is clean in strict C99, C11 and C++17, with gcc and clang."""
import os
import shutil
import subprocess
import sys

import tap

INCLUDE = os.path.join(tap.ROOT, "include")
STRICT = ["-Wall", "-Wextra", "-pedantic-errors", "-Wundef", "-Wshadow", "-Werror", "-fsyntax-only"]
DIALECTS = [("gcc", "c", "c99"), ("gcc", "c", "c11"), ("g++", "c++", "c++17"),
            ("clang", "c", "c99"), ("clang++", "c++", "c++17")]


def flags():
    """The drivers' headers are not ours: their warnings do not count."""
    out = subprocess.run(["pkg-config", "--cflags-only-I", "libpq", "sqlite3"], check=True,
                         capture_output=True, text=True).stdout.split()
    return [part.replace("-I", "-isystem", 1) for part in out]


def case(header, compiler, language, standard):
    def check():
        if not shutil.which(compiler):
            raise tap.Skip("no %s" % compiler)
        program = "#include <howdah/%s>\nint main(void) { return 0; }\n" % header
        if language == "c":
            program += "howdah_error howdah_test_error = HOWDAH_ERROR_INIT;\n"
        done = subprocess.run(
            [compiler, "-x", language, "-std=" + standard, "-I", INCLUDE, *STRICT, *flags(), "-"],
            input=program, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return "%s in %s with %s" % (header, standard, compiler), check


if __name__ == "__main__":
    HEADERS = sorted(os.listdir(os.path.join(INCLUDE, "howdah")))
    sys.exit(tap.run([case(header, *dialect) for header in HEADERS for dialect in DIALECTS]))
