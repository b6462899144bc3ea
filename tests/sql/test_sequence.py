#!/usr/bin/env python3
"""A logical copy of the tables without their sequences: told loudly, and repaired by migrating."""
import json
import os
import subprocess
import sys

from bus import Bus, HOWDAH, command, run

EVENTS = 40
BEHIND = "the log's sequence is lower than the numbers in use"


def try_command(*words, url):
    return subprocess.run([HOWDAH, "--store", url, *words], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ))


def subscribe(url):
    text = command("subscribe", "projection", "--json", "--until-caught-up", url=url)
    return [json.loads(line)["global_sequence"] for line in text.splitlines()]


def handle(bus, numbers):
    """All of them, until the numbers in between are known to be nobody's."""
    seen = []
    for _ in range(100):
        seen += subscribe(bus.url)
        if bus.one("SELECT high || outstanding::text FROM {}.subscriptions") == "%d{}" % numbers[-1]:
            break
    assert seen == numbers, seen


def copy_in(url, table, rows):
    subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", "SET session_replication_role = replica",
                    "-c", "DELETE FROM %s" % table, "-c", "COPY %s FROM STDIN" % table],
                   input=rows, capture_output=True, text=True, timeout=60, check=True)


def copy_without_sequences(original, name):
    """As logical replication does it: the schema is made there, the tables' rows come; sequences are new."""
    copy = Bus(name)
    for table in original.column("SELECT c.oid::regclass FROM pg_class AS c WHERE c.relkind = 'r'"
                                 " AND c.relnamespace = 'howdah'::regnamespace"):
        rows = subprocess.run(["psql", "-X", "-q", "-d", original.url, "-c", "COPY %s TO STDOUT" % table],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        copy_in(copy.url, table, rows)
    return copy


def make_original():
    """Events 1, 2 and 3, and 24 after twenty-odd that were rolled back, all of them handled."""
    bus = Bus("sequence")
    for _ in range(3):
        command("append", "--quiet", "s", "a.b", url=bus.url)
    bus.sql("".join("BEGIN; SELECT FROM {}.append('gone', 'x'); ROLLBACK;" for _ in range(20)))
    command("append", "--quiet", "s", "a.b", url=bus.url)
    handle(bus, [1, 2, 3, 24])
    return bus


def forty_appends_to_a_copy_exit_with_8_and_after_migrate_up_all_are_delivered():
    copy = copy_without_sequences(make_original(), "sequence_copy")
    assert copy.one("SELECT is_called FROM {}.events_global_sequence_seq") == "f"
    for _ in range(2):
        done = try_command("append", "s", "a.b", url=copy.url)
        assert done.returncode == 8 and BEHIND in done.stderr and "howdah migrate up" in done.stderr, done
    lines = "".join('{"stream":"s","type":"a.b"}\n' for _ in range(EVENTS))
    done = subprocess.run([HOWDAH, "--store", copy.url, "append", "--batch"], input=lines, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 8 and BEHIND in done.stderr, done
    copy.refuses("SELECT {}.append('s', 'a.b')", "UH008", BEHIND)
    assert copy.one("SELECT count(*) FROM {}.events") == "4"

    assert '"name":"sequence"' in command("migrate", "status", "--json", url=copy.url)
    for word in ("doctor", "verify"):
        done = try_command(word, "--json", url=copy.url)
        assert done.returncode != 0 and '"severity":"bad","check":"numbers"' in done.stdout, done
    assert "sequence raised from 0 to 24" in command("migrate", "up", "--json", url=copy.url)
    assert "sequence raised" not in command("init", "--json", url=copy.url)
    assert '"name":"sequence"' not in command("migrate", "status", "--json", url=copy.url)
    assert try_command("verify", url=copy.url).returncode == 0
    for _ in range(EVENTS // 2):
        copy.sql("SELECT {}.append('sql', 'a.b')")
    half = "".join('{"stream":"s","type":"a.b"}\n' for _ in range(EVENTS // 2))
    command("append", "--quiet", "--batch", url=copy.url, text=half)
    assert subscribe(copy.url) == list(range(25, 25 + EVENTS))


def append_in_every_isolation_level_is_refused():
    copy = copy_without_sequences(make_again(), "sequence_levels")
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        copy.refuses("BEGIN ISOLATION LEVEL %s; SELECT 1; SELECT {}.append('s', 'a.b'); COMMIT" % level, "UH008")


def make_again():
    """A log with one number drawn in vain, and a subscription that is past it."""
    bus = Bus("sequence_again")
    bus.sql("BEGIN; SELECT FROM {}.append('gone', 'x'); ROLLBACK; SELECT {}.append('s', 'a.b')")
    handle(bus, [2])
    return bus


if __name__ == "__main__":
    sys.exit(run([forty_appends_to_a_copy_exit_with_8_and_after_migrate_up_all_are_delivered,
                  append_in_every_isolation_level_is_refused]))
