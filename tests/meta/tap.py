"""A test is a function whose name is a sentence; run() runs them and prints TAP."""
import os
import sys
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))


class Skip(Exception):
    """Raised by a case that cannot run here; its text says why."""


def comment(text):
    print("".join("# %s\n" % line for line in str(text).rstrip().split("\n")), end="", flush=True)


def run(cases):
    """cases: functions, or pairs of a title and a function.  Returns the exit code."""
    named = [case if isinstance(case, tuple) else (case.__name__.replace("_", " "), case)
             for case in cases]
    failures = 0
    print("1..%d" % len(named), flush=True)
    for number, (title, case) in enumerate(named, 1):
        title = title.replace("#", "")
        try:
            case()
            print("ok %d - %s" % (number, title), flush=True)
        except Skip as reason:
            print("ok %d - %s # SKIP %s" % (number, title, reason), flush=True)
        except Exception:  # whatever it was, it is this case's failure
            failures += 1
            print("not ok %d - %s" % (number, title), flush=True)
            print("%s:\n%s" % (title, traceback.format_exc()), file=sys.stderr, flush=True)
    return 1 if failures else 0
