#!/usr/bin/env python3
"""Groups that one process has reserved: ranges, and how they become lots for others."""
import random
import sys

from bus import run
from group_steps import ack, append, bus, drain, expire, fetch, fresh, holes, in_order, nack, subscribe
from session import sessions, until


class Reserved:
    """What a process does that has reserved a group, one step at a time."""

    def __init__(self, name, session=None):
        self.name, self.session = name, session or bus
        token = random.randrange(1, 2 ** 48)
        held = self.session.one("SELECT {}.group_reserve('%s', 'holder', 7, %d, 30000)" % (name, token))
        self.token = token if held == "t" else None
        self.got, self.acked = [], 0

    def take(self, numbers=10):
        """(state, lot, lo, hi, gaps); acks what was handled before."""
        fresh = random.randrange(1, 2 ** 48)
        state, lot, lo, hi, gaps = self.session.sql(
            "SELECT state, lot, lo, hi, gaps FROM {}.group_take_range('%s', %s, %d, %d, %d, 30000)"
            % (self.name, self.token, fresh, self.acked, numbers))[0]
        self.token = fresh if state == "range" else self.token
        return (state, int(lot), int(lo), int(hi), gaps or "") if state == "range" else (state, 0, 0, 0, "")

    def read(self, taken):
        """The events of a range as the library reads them: number, stream, version."""
        _, _, lo, hi, gaps = taken
        numbers = [int(n) for n in gaps.strip("{}").split(",") if n]
        rows = self.session.sql("SELECT global_sequence, split_part(stream, ':', 2), version FROM {}.events WHERE type = '%s.made'"
                                " AND global_sequence BETWEEN %d AND %d ORDER BY 1" % (self.name, lo, hi))
        return [(int(n), stream, int(version)) for n, stream, version in rows
                if not any(first <= int(n) <= last for first, last in zip(numbers[::2], numbers[1::2]))]

    def handle(self, taken):
        self.got += [(stream, version) for _, stream, version in self.read(taken)]
        self.acked = taken[1]

    def drain(self):
        while (taken := self.take())[0] == "range":
            self.handle(taken)
        return taken[0]

    def end(self, upto=0, done=(), busy=(), fresh=0, process=7):
        """The tokens of those that are busy; None: it is lost."""
        rows = self.session.sql(
            "SELECT sequence, batch_token FROM {}.group_end_ranges('%s', %s, %d, %d, %d, %d, '{%s}', '{%s}', 30000)"
            % (self.name, self.token, fresh, process, self.acked, upto, ",".join(map(str, done)), ",".join(map(str, busy))))
        return None if rows and rows[0][0] is None else {int(sequence): token for sequence, token in rows}


def lots(name):
    return int(bus.one("SELECT count(*) FROM {}.group_lots JOIN {}.groups USING (group_id) WHERE subscriber_id = '%s'" % name))


def who_has_reserved_a_group_takes_ranges_and_everything_comes_once():
    name = fresh()
    subscribe(name, ", start => 'end'")
    append(name, "abcde", 20)
    alone = Reserved(name)
    assert alone.drain() == "none"
    assert in_order(alone.got) == 100
    assert lots(name) == 0
    append(name, "az")
    assert alone.drain() == "none"
    assert alone.got[-2:] == [("a", 21), ("z", 1)]
    assert alone.end() == {} and fetch(name) == []


def an_event_that_commits_late_comes_in_a_range_of_its_own():
    name = fresh()
    subscribe(name, ", start => 'end'")
    alone = Reserved(name)
    with sessions(bus.url, 2) as (late, never):
        late.sql("BEGIN; SELECT {}.append('%s:a', '%s.made')" % (name, name))
        never.sql("BEGIN; SELECT {}.append('%s:never', '%s.made')" % (name, name))
        append(name, "b", 3)
        taken = alone.take()
        assert [(stream, version) for _, stream, version in alone.read(taken)] == [("b", 1), ("b", 2), ("b", 3)], taken
        late.sql("COMMIT")
        never.sql("ROLLBACK")
        append(name, "a")  # after the one that was late, in the same stream
        alone.handle(taken)  # which was read before, but not its gaps
        until(lambda: alone.drain() == "none" and len(alone.got) == 5, "all of it")
    assert alone.got[3:] == [("a", 1), ("a", 2)]
    until(lambda: alone.drain() == "none" and holes() == 0, "no hole is left")
    assert in_order(alone.got) == 5


def several_that_commit_late_and_apart_from_each_other_all_come():
    name = fresh()
    subscribe(name, ", start => 'end'")
    alone = Reserved(name)
    with sessions(bus.url, 3) as late:
        for stream, session in zip("abc", late):
            session.sql("BEGIN; SELECT {}.append('%s:%s', '%s.made')" % (name, stream, name))
            append(name, "x")
        alone.drain()
        assert alone.got == [("x", 1), ("x", 2), ("x", 3)]
        for session in late:
            session.sql("COMMIT")
    # Nobody is left who could fill a hole, which the next look tells, and none of them is empty.
    bus.sql("UPDATE {}.looks SET looked_at = '-infinity'")
    until(lambda: alone.drain() == "none" and len(alone.got) == 6, "all of it")
    assert sorted(alone.got) == [("a", 1), ("b", 1), ("c", 1), ("x", 1), ("x", 2), ("x", 3)]
    until(lambda: alone.drain() == "none" and holes() == 0, "no hole is left")
    assert alone.end() == {} and fetch(name) == []


def a_member_that_comes_ends_a_reservation_and_gets_what_is_left():
    name = fresh()
    subscribe(name, ", start => 'end'")
    append(name, "abcd", 5)
    alone = Reserved(name)
    alone.handle(alone.take(4))
    first, second = alone.take(6), alone.take(100)
    assert fetch(name) == []  # the process is asked to end it
    assert alone.take()[0] == "end"
    assert bus.one("SELECT {}.group_reserve_extend('%s', %s, 1000)" % (name, alone.token)) == "end"
    events = alone.read(first) + alone.read(second)
    done, busy = events[:7], events[7]
    alone.got += [event[1:] for event in done]
    tokens = alone.end(upto=done[0][0], done=[n for n, _, _ in done[1:]], busy=[busy[0]])
    assert list(tokens) == [busy[0]]
    assert alone.take()[0] == "lost"
    others = []
    while batch := fetch(name):
        others += [(e.stream, e.version) for e in batch]
        assert ack(name, batch[0].token)
    assert busy[1:] not in others
    # Events of its stream wait for the one that is being handled.
    assert not any(stream == busy[1] for stream, _ in others)
    assert ack(name, tokens[busy[0]])
    assert in_order(alone.got + [busy[1:]] + others + drain(name)) == 20
    assert Reserved(name).token is None, "others took part a moment ago"


def events_of_a_process_that_vanished_are_tried_one_by_one():
    name = fresh()
    subscribe(name, ", start => 'end'")
    append(name, "a", 5)
    alone = Reserved(name)
    alone.take(3)
    alone.take(3)
    bus.sql("UPDATE {}.groups SET reserved_until = clock_timestamp() - interval '1 second' WHERE subscriber_id = '%s'" % name)
    for version in range(1, 6):
        batch = fetch(name)
        assert [(e.attempt, e.stream, e.version) for e in batch] == [(1, "a", version)], batch
        assert ack(name, batch[0].token)
    assert fetch(name) == []
    assert alone.take()[0] == "lost"
    bus.refuses("SELECT {}.group_end_ranges('%s', NULL, 0, 0, 0, 0, '{}', '{}', 1)" % "nobody", "UH004", "no subscription")
    assert alone.end() is None


def state_of(name):
    return bus.sql("SELECT k::text, l::text FROM {}.groups AS k LEFT JOIN {}.group_lots AS l USING (group_id)"
                   " WHERE k.subscriber_id = '%s' ORDER BY l.lot" % name)


def a_server_that_has_forgotten_a_range_believes_nothing_that_it_is_told_of_it():
    name = fresh()
    subscribe(name, ", start => 'end'")
    append(name, "ab", 10)
    alone = Reserved(name)
    alone.handle(alone.take(5))
    known = alone.token
    taken = alone.take(5)
    has = "SELECT {}.group_has_range('%s', %d, %d)"
    assert bus.one(has % (name, taken[1], alone.token)) == "t"
    bus.refuses(has % (name, taken[1], known), "UH007", "does not know the range")
    bus.refuses(has % (name, taken[1] + 16, alone.token), "UH007", "does not know the range")
    # As if it had lost the last range: the token of before is in place again.
    bus.sql("DELETE FROM {}.group_lots USING {}.groups AS k WHERE group_lots.group_id = k.group_id"
            " AND k.subscriber_id = '%s' AND group_lots.lot = %d" % (name, taken[1]))
    bus.sql("UPDATE {}.groups SET reserved = %d WHERE subscriber_id = '%s'" % (known, name))
    before = state_of(name)
    alone.acked = taken[1]
    assert alone.take(100)[0] == "lost" and alone.end(process=8) is None
    assert bus.one("SELECT {}.group_reserve_extend('%s', %d, 1000)" % (name, alone.token)) == "lost"
    assert state_of(name) == before
    assert alone.end(done=range(taken[2], taken[3] + 1)) is None  # it is free at once, and nothing of it is acked
    assert bus.one("SELECT reserved FROM {}.groups WHERE subscriber_id = '%s'" % name) == "0"


def the_end_of_a_range_whose_answer_was_lost_acks_what_was_known_before():
    name = fresh()
    subscribe(name, ", start => 'end'")
    append(name, "ab", 10)
    alone = Reserved(name)
    alone.handle(alone.take(4))
    known = alone.token
    lost = alone.take(6)
    unheard, alone.token = alone.token, known
    assert alone.end(fresh=unheard) == {}
    assert lost[0] == "range" and in_order(alone.got + drain(name)) == 20


def one_that_kills_a_process_ends_as_a_dead_letter_and_costs_no_other():
    name = fresh()
    subscribe(name, ", max_retries => 0, start => 'end'")
    append(name, "ab", 3)
    alone = Reserved(name)
    alone.take(100)
    bus.sql("UPDATE {}.groups SET reserved_until = clock_timestamp() - interval '1 second' WHERE subscriber_id = '%s'" % name)
    got = []
    while batch := fetch(name):
        assert len(batch) == 1, batch
        if batch[0][3:] == ("a", 2):  # its member dies of it
            assert batch[0].attempt == 1
            expire(name)
            continue
        got += [(e.stream, e.version) for e in batch]
        assert ack(name, batch[0].token)
    assert sorted(got) == [("a", 1), ("a", 3), ("b", 1), ("b", 2), ("b", 3)]
    assert bus.one("SELECT string_agg(split_part(stream, ':', 2) || version, ',') FROM {}.dead_letters"
                   " WHERE subscriber_id = '%s'" % name) == "a2"


def events_that_are_busy_at_the_end_may_end_in_any_order():
    for left in (0, 4):  # events after those that are busy
        name = fresh()
        subscribe(name, ", lanes => 1, start => 'end'")
        append(name, "ab", 1)
        if left:
            append(name, "ab", left // 2)
        alone = Reserved(name)
        events = alone.read(alone.take(100))
        tokens = alone.end(busy=[events[0][0], events[1][0]])
        append(name, "ab")  # dealt after them
        assert fetch(name) == []
        assert ack(name, tokens[events[1][0]])
        assert fetch(name) == [], "the first of stream a is not done"
        assert ack(name, tokens[events[0][0]])
        assert in_order([event[1:] for event in events[:2]] + drain(name)) == 4 + left


def whoever_resets_pauses_or_unshares_a_group_ends_its_reservation():
    name = fresh()
    subscribe(name, ", start => 'end'")
    append(name, "ab", 5)
    alone = Reserved(name)
    alone.take(3)
    bus.refuses("SELECT {}.unshare('%s')" % name, "UH003", "members have batches")
    bus.sql("SELECT {}.subscription_pause('%s')" % name)
    assert alone.take()[0] == "end"
    bus.sql("SELECT {}.subscription_resume('%s')" % name)
    bus.sql("SELECT {}.subscription_reset('%s', 'start')" % name)
    assert alone.take()[0] == "lost"
    assert in_order(drain(name)) == 10
    bus.sql("SELECT {}.subscription_reset('%s', 'start')" % name)
    bus.sql("UPDATE {}.groups SET shared_at = '-infinity' WHERE subscriber_id = '%s'" % name)
    Reserved(name).take(100000)
    bus.sql("UPDATE {}.groups SET reserved_until = clock_timestamp() - interval '1 second' WHERE subscriber_id = '%s'" % name)
    bus.sql("SELECT {}.unshare('%s')" % name)
    assert bus.one("SELECT high > 0 AND cardinality(outstanding) > 0 FROM {}.subscriptions WHERE subscriber_id = '%s'" % name) == "t"


def a_group_is_not_reserved_while_others_have_batches_or_events_have_failed():
    name = fresh()
    subscribe(name, ", start => 'end'")
    append(name, "ab")
    batch = fetch(name, arguments=", 'other'")
    assert Reserved(name).token is None
    assert nack(name, batch[0], after="60000") == "retry"
    assert ack(name, batch[0].token)
    drain(name)
    assert Reserved(name).token is None
    bus.sql("DELETE FROM {}.group_retries")
    alone = Reserved(name)
    assert alone.token is not None
    assert Reserved(name).token is None
    assert alone.end() == {}


def a_dead_letter_that_is_redriven_ends_a_reservation():
    name = fresh()
    subscribe(name, ", max_retries => 0, start => 'end'")
    append(name, "a")
    batch = fetch(name)
    assert nack(name, batch[0]) == "dead" and ack(name, batch[0].token)
    alone = Reserved(name)
    assert alone.take()[0] == "none"
    bus.sql("UPDATE {}.dead_letters SET state = 'redrive' WHERE subscriber_id = '%s'" % name)
    assert alone.take()[0] == "end"
    alone.end()
    assert drain(name) == [("a", 1)]


if __name__ == "__main__":
    sys.exit(run([
        who_has_reserved_a_group_takes_ranges_and_everything_comes_once,
        an_event_that_commits_late_comes_in_a_range_of_its_own,
        several_that_commit_late_and_apart_from_each_other_all_come,
        a_member_that_comes_ends_a_reservation_and_gets_what_is_left,
        events_of_a_process_that_vanished_are_tried_one_by_one,
        a_server_that_has_forgotten_a_range_believes_nothing_that_it_is_told_of_it,
        the_end_of_a_range_whose_answer_was_lost_acks_what_was_known_before,
        one_that_kills_a_process_ends_as_a_dead_letter_and_costs_no_other,
        events_that_are_busy_at_the_end_may_end_in_any_order,
        whoever_resets_pauses_or_unshares_a_group_ends_its_reservation,
        a_group_is_not_reserved_while_others_have_batches_or_events_have_failed,
        a_dead_letter_that_is_redriven_ends_a_reservation]))
