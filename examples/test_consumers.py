#!/usr/bin/env python3
"""Consumers in other languages, killed again and again: 10,000 events are in the table once, each account in order.

  test_consumers.py HOWDAH       the server is taken from HOWDAH_TEST_PG_TCP; output: TAP
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
HOWDAH = os.path.abspath(sys.argv[1])
URL = os.environ["HOWDAH_TEST_PG_TCP"]
EVENTS, ACCOUNTS, MEMBERS, KILLS, PATIENCE_S = 10000, 200, 3, 12, 120


def psql(text):
    done = subprocess.run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", URL, "-c", text],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def prepare():
    psql("DROP SCHEMA IF EXISTS howdah CASCADE; DROP TABLE IF EXISTS transfers")
    subprocess.run([HOWDAH, "--store", URL, "init", "--quiet"], check=True, timeout=60, stdout=subprocess.DEVNULL)
    # No key: what is stored twice is seen, not refused.
    psql("CREATE TABLE transfers (id bigint GENERATED ALWAYS AS IDENTITY, global_sequence bigint, account text,"
         " amount integer)")
    # Kills are the test's, not the events': no event is to be given up because of them.
    psql("SELECT howdah.subscribe('transfers', pattern => 'account.*', max_retries => 1000)")


def append(first, last):
    psql("SELECT count(*) FROM generate_series(%d, %d) AS i, howdah.append('account-' || i %% %d, 'account.moved',"
         " json_build_object('amount', i))" % (first, last, ACCOUNTS))


def transferred():
    return int(psql("SELECT count(*) FROM transfers"))


def transfer_under_kills(words, environment):
    """Some events are there from the start, others come meanwhile."""
    prepare()
    append(1, EVENTS // 2)
    start = lambda: subprocess.Popen([*words, URL], env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
    members = [start() for _ in range(MEMBERS)]
    dice = random.Random(1)
    end = time.monotonic() + PATIENCE_S
    try:
        for kill in range(KILLS):
            before = transferred()
            while transferred() == before and before < EVENTS // 2:
                assert time.monotonic() < end, "nothing moves"
            victim = dice.randrange(MEMBERS)
            assert members[victim].poll() is None, members[victim].communicate()[1]
            members[victim].send_signal(signal.SIGKILL)
            members[victim].communicate()
            members[victim] = start()
            append(EVENTS // 2 + kill * EVENTS // 2 // KILLS + 1, EVENTS // 2 + (kill + 1) * EVENTS // 2 // KILLS)
        while transferred() < EVENTS:
            assert time.monotonic() < end, "%d of %d" % (transferred(), EVENTS)
            time.sleep(0.05)
    finally:
        for member in members:
            member.kill()
            member.communicate()
    assert psql("SELECT count(*), count(DISTINCT global_sequence), sum(amount) FROM transfers") == "%d|%d|%d" % (
        EVENTS, EVENTS, EVENTS * (EVENTS + 1) // 2)
    assert psql("SELECT count(*) FROM (SELECT global_sequence < lag(global_sequence) OVER (PARTITION BY account ORDER BY id)"
                " AS back FROM transfers) AS t WHERE back") == "0"
    assert psql("SELECT count(*) FROM howdah.dead_letters") == "0"


def a_consumer_in_python_transfers_each_event_once():
    # Debian's own python3 is the one that has Debian's packages.
    transfer_under_kills(["/usr/bin/python3", os.path.join(HERE, "consumer.py")], {})


def a_consumer_in_node_transfers_each_event_once():
    with tempfile.TemporaryDirectory() as modules:
        done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", modules, "pg@8"],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        transfer_under_kills(["node", os.path.join(HERE, "consumer.js")],
                             {"NODE_PATH": os.path.join(modules, "node_modules")})


def main():
    cases = [a_consumer_in_python_transfers_each_event_once, a_consumer_in_node_transfers_each_event_once]
    print("1..%d" % len(cases), flush=True)
    failed = 0
    for number, case in enumerate(cases, 1):
        try:
            case()
            print("ok %d - %s" % (number, case.__name__), flush=True)
        except Exception:  # whatever it was, it is this case's failure
            failed += 1
            print("not ok %d - %s" % (number, case.__name__), flush=True)
            print("".join("# %s\n" % line for line in traceback.format_exc().splitlines()), end="", flush=True)
    return 1 if failed else 0


sys.exit(main())
