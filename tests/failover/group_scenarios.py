"""What happens to members of groups whose server is replaced, or dies and comes back.

All of a group's state is in the database, and members know only tokens.  So whatever a server has forgotten,
every event of the log that is there is handled, each stream in order, and effects in the transaction of an ack
happen once; nobody has to halt.
"""
from members import group, share, until_prompt
from scenarios import EARLY, KEPT, LOST, NEW
from session import Refused, Session
from stage import PgStage


def everyone(stage):
    """Groups with members of every kind; the first one is slow, so that it has events in hand."""
    return [*share(stage, "exec", "exec", concurrency=3, batch=10),
            *share(stage, "handlers", "handler", {}, concurrency=3, batch=10),
            *share(stage, "tx", "tx", {}, concurrency=2, batch=10, slow_ms=2),
            *share(stage, "pull", "pull", {}, max=5),
            *share(stage, "sql", "sql", {}, max=5, slow_ms=5)]


# ---------------------------------------------------------------- the server is replaced

class Tokens:
    """A session that takes batches, and what it may do with their tokens after the change."""

    STATE = ("SELECT x.row FROM howdah.groups AS k, LATERAL ("
             " SELECT l::text FROM howdah.group_lots AS l WHERE l.group_id = k.group_id"
             " UNION ALL SELECT r::text FROM howdah.group_retries AS r WHERE r.group_id = k.group_id"
             " UNION ALL SELECT p::text FROM howdah.group_places AS p WHERE p.group_id = k.group_id) AS x(row)"
             " WHERE k.subscriber_id = 'tokens' ORDER BY 1")

    def __init__(self, stage):
        self.stage = stage
        self.sub = group(stage, "tokens")

    def fetch(self):
        """A token, and its events."""
        session = Session(self.stage.direct())
        rows = session.sql("SELECT token, id, global_sequence FROM howdah.fetch('tokens', 5, lease => '1 minute')")
        session.close()
        assert rows, "there is nothing to fetch"
        return rows[0][0], [(event_id, int(sequence)) for _, event_id, sequence in rows]

    def finish(self, batch):
        """With one that the server knows."""
        token, events = batch
        session = Session(self.stage.direct())
        assert session.one("SELECT howdah.extend_lease('tokens', '%s', '1 minute')" % token) == "t"
        assert session.one("SELECT howdah.ack('tokens', '%s')" % token) == "t"
        session.close()
        for event in events:
            self.sub.saw(*event)

    def expect_stale(self, batch):
        """It changes nothing, and says so; also where the lot has the same number as the one that is lost."""
        token, events = batch
        session = Session(self.stage.direct())
        session.sql("SELECT howdah.fetch('tokens', 5, lease => '1ms')")  # there are lots, if there are events
        before = session.sql(self.STATE)
        for call in ("ack('tokens', '%s')", "ack('tokens', '%%s', %d)" % events[0][1],
                     "nack('tokens', '%%s', %d, 'no', '1 second')" % events[0][1],
                     "extend_lease('tokens', '%s', '1 minute')", "release_batch('tokens', '%s')",
                     "shorten_batch('tokens', '%%s', %d)" % events[0][1]):
            assert session.one("SELECT howdah." + call % token) == "f", call
        try:
            session.sql("SELECT token FROM howdah.fetch('tokens', 5, acked => '%s')" % token)
            raise AssertionError("a stale token was accepted")
        except Refused as refused:
            assert "UH007" in str(refused), refused
        assert session.sql(self.STATE) == before
        session.close()


def change_under_members(run, name, pooled, lag=True, restart=False, crash=False, promote=True, early=0):
    with PgStage(run, name, pooled) as stage:
        hands = everyone(stage)
        tokens = Tokens(stage)
        stage.append(KEPT)
        stage.until_handled(*hands)
        kept = tokens.fetch()
        if lag:
            stage.cut()
        stage.lose(LOST)
        lost = tokens.fetch()
        stage.until_calls(hands[0], KEPT + LOST // 3)
        if restart:
            for hand in hands:
                assert hand.process.end() == 0, hand.process.last_words()
        stage.replace(crash=crash, promote=promote, early=early)
        tokens.finish(kept)
        if lag:
            tokens.expect_stale(lost)
        elif not crash:
            tokens.finish(lost)
        if restart:
            for hand in hands:
                hand.start()
        stage.append(NEW)
        hands += share_more(stage, tokens.sub)
        until_prompt(stage, hands)


def share_more(stage, sub):
    """Members for a group that had none."""
    return share(stage, sub.name, "pull", max=20, sub=sub)


def behind_a_pooler_members_handle_every_event_of_a_standby_that_lagged(run):
    change_under_members(run, "group pooler", pooled=True, early=EARLY)


def behind_a_pooler_members_handle_every_event_of_an_older_copy_of_the_same_timeline(run):
    change_under_members(run, "group pooler restore", pooled=True, promote=False)


def at_one_address_members_handle_every_event_of_a_standby_after_a_crash(run):
    change_under_members(run, "group crash", pooled=False, crash=True, early=EARLY)


def behind_a_pooler_a_standby_that_lacks_nothing_is_nothing_to_members(run):
    change_under_members(run, "group whole", pooled=True, lag=False)


def at_one_address_members_that_start_after_the_change_get_every_event(run):
    change_under_members(run, "group restart", pooled=False, restart=True)


# ---------------------------------------------------------------- a process that has the group for itself

BEFORE, GONE, FRESH = 7000, 5000, 5000
THREADS = 3


def reservation(stage):
    return stage.site.primary.one("SELECT reserved FROM howdah.groups WHERE subscriber_id = 'quick'")


def change_under_a_reservation(run, name, pooled, held, lag=True, **how):
    """The process has ranges in hand when the server changes: some that both servers know, and later ones.

    Handlers wait in the middle of the later ones: all of them, so that some pages are not read yet, or one, and the
    others have handled all the rest.
    """
    with PgStage(run, name, pooled) as stage:
        stage.append(BEFORE, tx_size=1000)
        stage.append(8, types=("hold.a",), streams=["a%d" % i for i in range(8)])
        stage.append(1500, tx_size=1000)
        hands = share(stage, "quick", "handler", concurrency=THREADS, batch=100, lease_ms=20000)
        stage.until_files(["quick.hold.a"])
        run.comment("reserved" if reservation(stage) != "0" else "not reserved: handlers were not quick enough")
        if lag:
            stage.cut()
        stage.lose(1500, tx_size=1000)
        stage.append(held, types=("hold.b",), streams=["b%d" % i for i in range(held)])
        stage.lose(GONE, tx_size=1000)
        stage.write_file("quick.hold.a.go")
        stage.until_files(["quick.hold.b"])
        if held == 1:
            stage.until_calls(hands[0], BEFORE + 3000 + GONE // 2)
        stage.replace(early=FRESH if lag else 0, **how)
        if held == 1:
            stage.until_calls(hands[0], BEFORE + 3000 + GONE // 2 + 1000)  # of the new server
        stage.write_file("quick.hold.b.go")
        stage.append(NEW)
        until_prompt(stage, hands)


def behind_a_pooler_pages_that_are_not_read_yet_are_no_pages_of_another_log(run):
    change_under_a_reservation(run, "reserved pooler pages", pooled=True, held=8)


def at_one_address_pages_that_are_not_read_yet_are_no_pages_of_another_log(run):
    change_under_a_reservation(run, "reserved address pages", pooled=False, held=8)


def behind_a_pooler_what_was_done_in_a_range_hides_no_event_of_another_log(run):
    change_under_a_reservation(run, "reserved pooler done", pooled=True, held=1)


def at_one_address_what_was_done_in_a_range_hides_no_event_of_another_log(run):
    change_under_a_reservation(run, "reserved address done", pooled=False, held=1, crash=True)


def behind_a_pooler_ranges_are_not_lost_with_a_standby_that_lacks_nothing(run):
    change_under_a_reservation(run, "reserved whole", pooled=True, held=8, lag=False)


SHARED = {
    "members": [behind_a_pooler_members_handle_every_event_of_a_standby_that_lagged,
                behind_a_pooler_members_handle_every_event_of_an_older_copy_of_the_same_timeline,
                at_one_address_members_handle_every_event_of_a_standby_after_a_crash,
                behind_a_pooler_a_standby_that_lacks_nothing_is_nothing_to_members,
                at_one_address_members_that_start_after_the_change_get_every_event],
    "reserved": [behind_a_pooler_pages_that_are_not_read_yet_are_no_pages_of_another_log,
                 at_one_address_pages_that_are_not_read_yet_are_no_pages_of_another_log,
                 behind_a_pooler_what_was_done_in_a_range_hides_no_event_of_another_log,
                 at_one_address_what_was_done_in_a_range_hides_no_event_of_another_log,
                 behind_a_pooler_ranges_are_not_lost_with_a_standby_that_lacks_nothing],
}
