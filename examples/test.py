#!/usr/bin/env python3
"""Runs the examples on both stores and looks at what they print.  Output: TAP.

The server is taken from HOWDAH_TEST_PG, and the schema "howdah" of that database is made anew.

  test.py DIRECTORY [PREFIX]     the programs are DIRECTORY/PREFIXappend, ...
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback

DIRECTORY = os.path.abspath(sys.argv[1])
PREFIX = sys.argv[2] if len(sys.argv) > 2 else ""
PG = os.environ.get("HOWDAH_TEST_PG")
following = []  # processes that end by themselves


def command(name, *arguments):
    return [os.path.join(DIRECTORY, PREFIX + name), *arguments]


def run(name, *arguments, code=0):
    """Standard output; the exit code must be the one expected."""
    done = subprocess.run(command(name, *arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == code, "%s ended with %d: %s" % (name, done.returncode, done.stderr)
    return done.stdout + done.stderr


def append_is_refused_the_second_time(store):
    assert "version 1 of order-7" in run("append", store, "order-7")
    assert "the stream is at version 1" in run("append", store, "order-7", code=3)


def read_finds_what_matches_the_pattern(store):
    run("append", store, "order-20")
    lines = run("read", store, "order.*").splitlines()
    assert [line for line in lines if " order-20 1 order.created " in line], lines
    assert run("read", store, "invoice.*") == ""


def follow_prints_what_is_there_and_what_comes(store):
    run("append", store, "order-30")
    tail = subprocess.Popen(command("follow", store, "6000"), stdout=subprocess.PIPE, text=True)
    try:
        seen = json.loads(tail.stdout.readline())
        while seen["stream"] != "order-30":
            seen = json.loads(tail.stdout.readline())
        run("append", store, "order-31")
        assert json.loads(tail.stdout.readline())["stream"] == "order-31"
    except Exception:
        tail.kill()
        raise
    finally:
        following.append(tail)


def what_follows_ends_when_its_time_is_over(_):
    """The others ran meanwhile."""
    for tail in following:
        tail.stdout.read()
        tail.stdout.close()
        assert tail.wait(timeout=30) in (0, -signal.SIGKILL)
    following.clear()


def a_subscription_goes_on_where_it_was(store):
    run("append", store, "order-40")
    assert "order-40 version 1: " in run("subscribe", store, "once")
    run("append", store, "order-41")
    printed = run("subscribe", store, "once")
    assert "order-41 version 1: " in printed and "order-40" not in printed, printed


def the_transaction_stores_row_and_event(store):
    if store.startswith("sqlite:"):
        printed = run("transaction_sqlite", store[len("sqlite:"):])
    else:
        printed = run("transaction_pg", store)
    assert "is version 1" in printed, printed
    assert " order-8 1 order.created " in run("read", store)


def a_worker_keeps_the_order_of_a_key_across_retries(store):
    printed = run("worker", store, "once").splitlines()
    assert [line for line in printed if line.startswith("to ann")] == [
        'to ann: "one", attempt 2', 'to ann: "two", attempt 1', 'to ann: "three", attempt 1'], printed
    assert printed[0] == 'to bob: "hello", attempt 1', "bob waited for ann"


def a_worker_ends_at_a_signal(store):
    worker = subprocess.Popen(command("worker", store), stdout=subprocess.PIPE, text=True)
    try:
        assert len([worker.stdout.readline() for _ in range(4)]) == 4
        worker.terminate()
        assert worker.wait(timeout=30) == 0
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()


def a_correction_leaves_what_was_known_before(store):
    printed = run("two_times", store, "account-7").splitlines()
    assert printed[0].startswith("revision 2 is number "), printed
    assert printed[1:] == ['then: {"amount":100}, revision 1, for ever', 'now: {"amount":90}, revision 2',
                           'corrected in revision 2: typing error in the invoice'], printed


def a_payment_is_booked_once_although_a_worker_died(store):
    if store.startswith("sqlite:"):
        return  # the same on SQLite: howdah_sqlite_job_complete()
    run("exactly_once_pg", store, "push", "100")
    run("exactly_once_pg", store, "push", "7")
    run("exactly_once_pg", store, "crash", code=1)
    printed = run("exactly_once_pg", store)
    assert "booked 100 in attempt 2" in printed, printed
    booked = subprocess.run(["psql", "-qXAtc", "SELECT amount FROM example_bookings ORDER BY amount", PG],
                            check=True, capture_output=True, text=True).stdout.split()
    assert booked == ["7", "100"], booked


CASES = [append_is_refused_the_second_time, read_finds_what_matches_the_pattern,
         follow_prints_what_is_there_and_what_comes, a_subscription_goes_on_where_it_was,
         the_transaction_stores_row_and_event, a_worker_keeps_the_order_of_a_key_across_retries,
         a_worker_ends_at_a_signal, a_correction_leaves_what_was_known_before,
         a_payment_is_booked_once_although_a_worker_died]


def judge(title, case, store):
    """True: it passed."""
    try:
        case(store)
        print("ok %s" % title, flush=True)
        return True
    except Exception:  # whatever it was, it is this case's failure
        print("not ok %s" % title, flush=True)
        traceback.print_exc()
        return False


def main():
    failures = 0
    if PG:  # whoever ran before us on this server
        subprocess.run(["psql", "-qXc", "SET client_min_messages = warning",
                        "-c", "DROP SCHEMA IF EXISTS howdah CASCADE",
                        "-c", "DROP TABLE IF EXISTS example_bookings", PG], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        stores = [("sqlite", "sqlite:" + os.path.join(scratch, "orders.db")), ("postgres", PG)]
        plan = [(case, name, store) for name, store in stores for case in CASES]
        plan.append((what_follows_ends_when_its_time_is_over, "both", "both"))
        print("1..%d" % len(plan), flush=True)
        for number, (case, name, store) in enumerate(plan, 1):
            title = "%d - %s on %s" % (number, case.__name__.replace("_", " "), name)
            if store:
                failures += not judge(title, case, store)
            else:
                print("ok %s # SKIP no server" % title)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
