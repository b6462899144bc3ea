#!/usr/bin/env python3
"""The library that is shipped has none of the mistakes that the simulator plants.

  test_shipped.py LIBRARY... PLANTED   PLANTED has the switch, so it would be seen in the others
"""
import subprocess
import sys

SWITCH = "planted_now"


def has_switch(library):
    out = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    return any(line.split()[-1:] == [SWITCH] for line in out.splitlines())


def main(libraries):
    failed = 0
    print("1..%d" % len(libraries))
    for number, library in enumerate(libraries, 1):
        planted = number == len(libraries)
        ok = has_switch(library) == planted
        failed += not ok
        print("%sok %d - %s has %s planted" % ("" if ok else "not ", number,
                                               library.rsplit("/", 1)[-1],
                                               "something" if planted else "nothing"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
