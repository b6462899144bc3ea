#!/usr/bin/env python3
"""A member of the group "transfers": brings events of accounts into a table, each exactly once.

  consumer.py URL     start as many as you like; needs psycopg2 (Debian: python3-psycopg2)
"""
import os
import select
import sys

import psycopg2

GROUP = "transfers"
MEMBER = "python-%d" % os.getpid()


def fetch(connection, cursor):
    """The next batch: rows of (token, number, stream, payload)."""
    cursor.execute("SELECT token, global_sequence, stream, data FROM howdah.fetch(%s, 100, member => %s,"
                   " lease => '2 seconds')", (GROUP, MEMBER))
    batch = cursor.fetchall()
    connection.commit()  # now it is leased to us, and the attempt is counted
    return batch


def handle(connection, cursor, batch):
    """What the events cause, and the ack, in one transaction."""
    for _, number, stream, payload in batch:
        cursor.execute("INSERT INTO transfers (global_sequence, account, amount) VALUES (%s, %s, %s)",
                       (number, stream, payload["amount"]))
    cursor.execute("SELECT howdah.ack(%s, %s)", (GROUP, batch[0][0]))
    if cursor.fetchone()[0]:
        connection.commit()
    else:
        connection.rollback()  # the lease ran out: another member has these events


def main():
    connection = psycopg2.connect(sys.argv[1])
    cursor = connection.cursor()
    cursor.execute("SELECT howdah.subscribe(%s, pattern => 'account.*')", (GROUP,))
    cursor.execute("SELECT quote_ident(howdah.subscription_arm(%s))", (GROUP,))
    cursor.execute("LISTEN " + cursor.fetchone()[0])
    connection.commit()
    while True:
        batch = fetch(connection, cursor)
        if not batch:  # ask for a notification, look once more, and only then sleep
            cursor.execute("SELECT howdah.subscription_arm(%s)", (GROUP,))
            batch = fetch(connection, cursor)
        if batch:
            handle(connection, cursor, batch)
        else:
            select.select([connection], [], [], 1)
            connection.poll()


main()
