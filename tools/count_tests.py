#!/usr/bin/env python3
"""Adds up the results of test runs, case by case, and prints what failed and, as the last line,
"N passed, N failed".

  count_tests.py TESTLOG.json...     → exit code 1 when anything failed, or when nothing ran

A program that reports its cases (TAP, or cmocka's own output) counts with each of them, any other
program as one.  A program that fails although all its cases passed (a crash, a leak, a time-out)
counts as one failure more.
"""
import json
import re
import sys

TAP = re.compile(r"^(not )?ok\b[ \t]*\d*([^#\n]*)(#[ \t]*(skip|todo)\b)?", re.I | re.M)
TAP_PLAN = re.compile(r"^1\.\.\d+", re.M)
CMOCKA = re.compile(r"^\[ *(OK|FAILED|SKIPPED|ERROR) *\] *\S", re.M)
CMOCKA_RUN = re.compile(r"^\[ RUN +\]", re.M)
SANITIZER = re.compile(r"ERROR: \w+Sanitizer|runtime error:")
SKIPPED = {"SKIP"}
PASSED = {"OK", "EXPECTEDFAIL"}
REMARKS_MAX = 20
LAST_WORDS = 12


def cases(text):
    """(passed, failed, skipped) as the program itself reported them, None if it did not."""
    if TAP_PLAN.search(text):
        passed = failed = skipped = 0
        for match in TAP.finditer(text):
            directive = (match.group(4) or "").lower()
            if directive == "skip":
                skipped += 1
            elif match.group(1) and directive != "todo":
                failed += 1
            else:
                passed += 1
        return passed, failed, skipped
    if CMOCKA_RUN.search(text):
        verdicts = CMOCKA.findall(text)
        ran = len(CMOCKA_RUN.findall(text))
        passed = min(verdicts.count("OK"), ran)
        skipped = min(verdicts.count("SKIPPED"), ran - passed)
        failed = ran - passed - skipped
        return passed, failed, skipped
    return None


def failures(entry):
    """What failed in one program, for people: each case with the remarks behind it."""
    shown = []
    remarks = 0
    for line in (entry.get("stdout") or "").split("\n"):
        match = TAP.match(line)
        if match:
            bad = match.group(1) and not match.group(4)
            remarks = REMARKS_MAX if bad else 0
            if bad:
                shown.append("FAILED %s: %s" % (entry["name"], match.group(2).strip(" -")))
        elif remarks and line.startswith("#"):
            remarks -= 1
            shown.append("    " + line)
    return shown or ["FAILED %s (%s)" % (entry["name"], entry["result"].lower())] + last_words(entry)


def last_words(entry):
    """What a program without a failed case said at its end: a crash, a leak, a time-out."""
    shown = ["    exit code %s" % entry["returncode"]] if "returncode" in entry else []
    for stream in "stdout", "stderr":
        lines = [line for line in (entry.get(stream) or "").split("\n") if line.strip()]
        where = next((i for i, line in enumerate(lines) if SANITIZER.search(line)), None)
        told = lines[-LAST_WORDS:] if where is None else lines[where : where + 2 * LAST_WORDS]
        shown += ["    %s: %s" % (stream, line[:300]) for line in told]
    return shown


def count(entry):
    """(passed, failed, skipped) of one program."""
    result = entry["result"]
    text = (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or "")
    reported = cases(text)
    if result in SKIPPED and (reported is None or sum(reported) == 0):
        return 0, 0, 1
    if reported is None or sum(reported) == 0:
        return (1, 0, 0) if result in PASSED else (0, 1, 0)
    passed, failed, skipped = reported
    if result not in PASSED | SKIPPED and failed == 0:
        failed = 1
    return passed, failed, skipped


def entries(path):
    """The programs of one run; a run that left no results is a failed one."""
    try:
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f]
    except (OSError, ValueError) as e:
        return [{"name": "%s: %s" % (path, e), "result": "ERROR"}]


def main(paths):
    totals = [0, 0, 0]
    for path in paths:
        for entry in entries(path):
            counted = count(entry)
            totals = [a + b for a, b in zip(totals, counted)]
            if counted[1]:
                print("\n".join(failures(entry)))
    passed, failed, skipped = totals
    print("%d passed, %d failed%s" % (passed, failed, ", %d skipped" % skipped if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
