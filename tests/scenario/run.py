#!/usr/bin/env python3
"""Runs every scenario of this folder through one face, on one store.

  run.py c|command|http|sql sqlite|postgresql [PART OF A NAME]

HOWDAH is the command, DRIVE the program that speaks for the C library, HOWDAH_TEST_PG the server.
"""
import glob
import importlib
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "gateway"))
import gateway  # noqa: E402  (its place is known only now)
import scenario  # noqa: E402

LONG_S = 20  # "eventually"
KNOWN = {"do", "with", "verdict", "field", "actual_version", "actual_revision", "event_index", "answer", "eventually"}

unsaid = {}  # why: how many steps


def load():
    """(file, scenario) of all files, in order."""
    found = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.json"))):
        with open(path, encoding="utf-8") as file:
            for one in json.load(file):
                assert set(one) == {"name", "steps"}, one.keys()
                found.append(one)
    names = [one["name"] for one in found]
    assert len(set(names)) == len(names), "two scenarios have the same name"
    return found


def judge(step, face, arguments, variables):
    """None, or what is wrong with what the face says."""
    wanted = step.get("verdict", "ok")
    try:
        own = {"handle": scenario.handle, "work": scenario.work}.get(step["do"])
        if own and not hasattr(face, "do_" + step["do"]):
            answer = own(face, arguments)
        else:
            answer = face.run(step["do"], arguments)
    except scenario.Refusal as refusal:
        if wanted not in refusal.codes:
            return "%s instead of %s: %s" % ("/".join(refusal.codes), wanted, refusal)
        for member in ("field", "actual_version", "actual_revision", "event_index"):
            if member in step and member in refusal.members:
                why = scenario.differs(step[member], refusal.members[member], variables, member)
                if why:
                    return "%s (%s)" % (why, refusal)
        return None
    if wanted != "ok":
        return "not refused, but %s was expected: %.600r" % (wanted, answer)
    return scenario.differs(step.get("answer", {}), answer, variables)


def run_step(step, face, variables):
    unknown = set(step) - KNOWN
    assert not unknown, "a step has no %s" % unknown
    arguments = scenario.fill(step.get("with", {}), variables)
    end = time.monotonic() + (LONG_S if step.get("eventually") else 0)
    while True:
        tried = dict(variables)
        why = judge(step, face, arguments, tried)
        if not why:
            variables.update(tried)
            return None
        if time.monotonic() >= end:
            return why
        time.sleep(0.02)


def run_scenario(one, number, face):
    variables = {"n": str(number)}
    for i, step in enumerate(one["steps"], 1):
        try:
            why = run_step(step, face, variables)
        except scenario.Unsayable as reason:
            unsaid[str(reason)] = unsaid.get(str(reason), 0) + len(one["steps"]) - i + 1
            if i == 1:
                raise gateway.Skip("not through this face: %s" % reason) from None
            return  # what follows needs what this step would have done
        assert not why, "step %d, %s %.300s: %s" % (i, step["do"], scenario.compact(step.get("with", {})), why)


def main():
    kind, store = sys.argv[1], sys.argv[2]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    face = importlib.import_module("face_" + kind).Face(gateway.make_store(store, "scenario_" + kind))
    cases = []
    for number, one in enumerate(load(), 1):
        if part in one["name"]:
            cases.append((one["name"], lambda one=one, number=number: run_scenario(one, number, face)))
    code = gateway.run(cases)
    for why, n in sorted(unsaid.items()):
        print("# %d steps not through this face: %s" % (n, why))
    face.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
