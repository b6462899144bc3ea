#!/usr/bin/env python3
"""A mistake is planted where its piece of code is, or not at all.

  test_plant.py [MODULE]     one beside this file whose edits are meant, such as groups/plant_groups
"""
import importlib
import os
import re
import sys

sys.dont_write_bytecode = True
import plant

HERE = os.path.dirname(os.path.abspath(plant.__file__))
NAMES = os.path.join(HERE, os.path.dirname(sys.argv[1]) if sys.argv[1:] else "", "planted.h")
if sys.argv[1:]:
    sys.path.insert(0, os.path.join(HERE, os.path.dirname(sys.argv[1])))
    plant.EDITS[:] = importlib.import_module(os.path.basename(sys.argv[1])).EDITS


def ends(texts):
    try:
        plant.plant(texts)
    except SystemExit:
        return True
    return False


def a_piece_is_found_however_its_lines_are_broken():
    find = plant.finder("if (s >= 0) s = look(bus, reterr);")
    return (find.search("if (s >= 0)\n        s = look(bus,\n   reterr);")
            and not find.search("if (s >= 0) s = looks(bus, reterr);"))


def a_name_is_not_found_inside_a_longer_one():
    return not plant.finder("looked && more").search("unlooked && more")


def a_piece_that_is_missing_ends_the_build():
    return ends([piece for piece, _ in plant.EDITS[1:]])


def a_piece_that_is_there_twice_ends_the_build():
    return ends([piece for piece, _ in plant.EDITS + plant.EDITS[:1]])


def every_mistake_that_has_a_name_is_planted():
    with open(NAMES, encoding="utf-8") as f:
        names = set(re.findall(r"^    PLANTED_(\w+),", f.read(), re.M)) - {"NONE"}
    texts = [piece for piece, _ in plant.EDITS]
    plant.plant(texts)
    return names == set(re.findall(r"PLANTED\((\w+)\)", "".join(texts)))


CASES = [a_piece_is_found_however_its_lines_are_broken, a_name_is_not_found_inside_a_longer_one,
         a_piece_that_is_missing_ends_the_build, a_piece_that_is_there_twice_ends_the_build,
         every_mistake_that_has_a_name_is_planted]


def main():
    failed = 0
    print("1..%d" % len(CASES))
    for number, case in enumerate(CASES, 1):
        ok = bool(case())
        failed += not ok
        print("%sok %d - %s" % ("" if ok else "not ", number, case.__name__.replace("_", " ")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
