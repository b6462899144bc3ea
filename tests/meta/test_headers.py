#!/usr/bin/env python3
"""Every public header stands alone and is clean in strict C99, C11 and C++17, with gcc and clang."""
import os
import re
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


DRIVERS = {"libpq-fe.h": "howdah_pg.h", "sqlite3.h": "howdah_sqlite.h"}


def needs(header):
    """Which header of a driver comes with one of ours: only what the user asked for."""
    def check():
        out = subprocess.run(["gcc", "-x", "c", "-M", "-I", INCLUDE, *flags(), "-"], check=True,
                             input="#include <howdah/%s>\n" % header, capture_output=True,
                             text=True).stdout
        included = {os.path.basename(part) for part in out.split()} & set(DRIVERS)
        assert included == {name for name, ours in DRIVERS.items() if ours == header}, included
    return "%s needs no driver's header that it is not about" % header, check


def initialisers():
    """Each _INIT macro sets every member, of one struct and of the first of an array."""
    text = ""
    for header in HEADERS:
        with open(os.path.join(INCLUDE, "howdah", header), encoding="utf-8") as file:
            text += file.read()
    names = re.findall(r"#define (HOWDAH_\w+)_INIT\b", text)
    structs = set(re.findall(r"typedef struct (\w+) \{\n    size_t size;", text))
    assert len(names) > 20 and {name.lower() for name in names} <= structs, names
    return "#include <howdah/howdah.h>\n" + "".join(
        "extern {0} {0}_one, {0}_many[3];\n{0} {0}_one = {1}_INIT;\n{0} {0}_many[3] = {{{1}_INIT}};\n"
        .format(name.lower(), name) for name in names)


def initialise(compiler, language, standard):
    def check():
        if not shutil.which(compiler):
            raise tap.Skip("no %s" % compiler)
        done = subprocess.run(
            [compiler, "-x", language, "-std=" + standard, "-I", INCLUDE, *STRICT, "-"],
            input=initialisers(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return "structs and arrays of them are initialised in %s with %s" % (standard, compiler), check


if __name__ == "__main__":
    HEADERS = sorted(os.listdir(os.path.join(INCLUDE, "howdah")))
    sys.exit(tap.run([case(header, *dialect) for header in HEADERS for dialect in DIALECTS] +
                     [needs(header) for header in HEADERS] +
                     [initialise(*dialect) for dialect in DIALECTS]))
