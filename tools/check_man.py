#!/usr/bin/env python3
"""Lets mandoc read the manual pages and complain."""
import re
import subprocess
import sys

import sources


def main():
    pages = [n for n in sources.files() if re.match(r"man/.*\.[1-8]$", n)]
    if not pages:
        print("no manual page below man/")
        return 1
    code = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"] + pages,
                          cwd=sources.ROOT).returncode
    print("%d pages" % len(pages))
    return code


if __name__ == "__main__":
    sys.exit(main())
