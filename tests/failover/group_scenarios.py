"""What happens to members of groups whose server is replaced, or dies and comes back.

All of a group's state is in the database, and members know only tokens.  So whatever a server has forgotten,
every event of the log that is there is handled, each stream in order, and effects in the transaction of an ack
happen once; nobody has to halt.
"""
import signal
import time

from members import group, said, share, until_prompt
from scenarios import EARLY, KEPT, LOST, NEW, change_at_random
from session import Refused, Session
from stage import PgStage, SqliteStage

# Of the members of one group, after the first, which is READ COMMITTED.
LEVELS = tuple({"isolation": level} for level in ("REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE"))
POLL_S = 0.25  # the longest pause of whoever cannot hear the bell
SLACK_S = 3.0  # for a machine with much else to do


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


def batch_across(stage, before, change):
    """Some effects of a batch are committed with their acks, and lost; the batch itself is known to both."""
    for types, n in (("hold.a", 1), ("order.paid", 8), ("hold.b", 1), ("order.paid", 5)):
        stage.append(n, types=(types,), streams=("one",))
    hands = share(stage, "tx", "tx", concurrency=2, batch=20, lease_ms=5000)
    stage.until_files(["tx.hold.a"])
    before()
    stage.write_file("tx.hold.a.go")
    stage.until_files(["tx.hold.b"])
    change()
    stage.write_file("tx.hold.b.go")
    stage.append(5, types=("order.paid",), streams=("one",))
    until_prompt(stage, hands)


def behind_a_pooler_effects_of_a_batch_that_are_lost_happen_again(run):
    with PgStage(run, "group batch", pooled=True) as stage:
        batch_across(stage, stage.cut, lambda: stage.replace(crash=True))


def at_one_address_effects_of_a_batch_that_are_lost_happen_again(run):
    with PgStage(run, "group batch address") as stage:
        batch_across(stage, stage.cut, lambda: stage.replace(crash=True))


def under_a_backup_effects_of_a_batch_that_are_lost_happen_again(run):
    with SqliteStage(run, "group batch sqlite") as stage:
        batch_across(stage, stage.back_up, stage.restore)


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
        hands = share(stage, "quick", "handler", concurrency=THREADS, batch=100, lease_ms=6000)
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


def crash_under_a_reservation(run, name, pooled):
    """The same server again.  It may have forgotten acks and ranges of its last moments, but no event."""
    with PgStage(run, name, pooled) as stage:
        stage.append(BEFORE, tx_size=1000)
        stage.append(1, types=("hold.a",))
        stage.append(3000, tx_size=1000)
        stage.append(1, types=("hold.b",))
        # A batch whose answer the server took with it waits for its lease.
        hands = share(stage, "quick", "handler", concurrency=THREADS, batch=100, lease_ms=2000)
        stage.until_files(["quick.hold.a"])
        run.comment("reserved" if reservation(stage) != "0" else "not reserved: handlers were not quick enough")
        stage.site.restart(signal.SIGQUIT)
        stage.write_file("quick.hold.a.go")
        stage.append(3000, tx_size=1000)
        stage.until_files(["quick.hold.b"])
        stage.site.kill_backends()
        stage.write_file("quick.hold.b.go")
        stage.append(3000, tx_size=1000)
        until_prompt(stage, hands)


def a_process_that_has_reserved_the_group_loses_nothing_when_its_server_dies(run):
    crash_under_a_reservation(run, "reserved crash", pooled=False)


# ---------------------------------------------------------------- the same server again

def trouble(stage, hands):
    """Each kind that there is, in any order; then a process is killed, too."""
    site = stage.site
    steps = [("at once", lambda: site.restart(signal.SIGQUIT)), ("in order", lambda: site.restart(signal.SIGINT)),
             ("backends", site.kill_backends), ("at once", lambda: site.restart(signal.SIGQUIT))]
    stage.dice.shuffle(steps)
    for name, step in steps:
        stage.until_written(15)
        victims = stage.dice.sample(hands, 3)
        stage.run.comment("%s; killed: %s" % (name, ", ".join(hand.subscription.name for hand in victims)))
        for hand in victims:
            hand.process.kill()
        step()
        for hand in victims:
            hand.start()
    stage.until_written(15)


def servers_restart_under_members(run, name, pooled):
    """Events are appended all the time; effects go into a table, in the transaction of the ack."""
    with PgStage(run, name, pooled) as stage:
        hands = everyone(stage) + share(stage, "levels", "sql", *LEVELS, max=5)
        writers = [stage.write(("w%d" % i, "x%d" % i), pause_s=0.005) for i in range(2)]
        for writer in writers:
            writer.start()
        trouble(stage, hands)
        for writer in writers:
            writer.stop()
        until_prompt(stage, hands)
        run.comment("%d events, %d leases lost" % (len(stage.history.log), said(hands, "lost")))


def servers_that_restart_and_members_that_are_killed_lose_nothing_and_repeat_no_effect(run):
    servers_restart_under_members(run, "group again", pooled=False)


def behind_a_pooler_servers_that_restart_and_members_that_are_killed_lose_nothing(run):
    servers_restart_under_members(run, "group again pooled", pooled=True)


# ---------------------------------------------------------------- nothing happens to the server

def members_of_every_isolation_level_share_a_group_and_each_event_comes_once(run):
    """They get 40001, or what is true: no lease is lost, so nothing comes again."""
    with PgStage(run, "group levels") as stage:
        stage.append(30)
        hands = share(stage, "levels", "sql", *LEVELS, max=3, lease_ms=60000)
        for _ in range(6):
            stage.append(25)
        until_prompt(stage, hands)
        assert said(hands, "lost") == 0
        assert len(hands[0].subscription.deliveries) == len(stage.history.log)
        run.comment("%d times 40001" % said(hands, "again"))


def behind_a_pooler_no_member_waits_longer_than_the_poll_interval(run):
    """Nobody can LISTEN there, statements of a session go to other connections, and none is prepared."""
    with PgStage(run, "group pooled", pooled=True) as stage:
        hands = everyone(stage)
        stage.append(KEPT)
        stage.until_handled(*hands)
        longest = 0.0
        for _ in range(4):
            stage.append(1)
            start = time.monotonic()
            stage.until_handled(*hands)
            longest = max(longest, time.monotonic() - start)
        run.comment("at most %.1f s" % longest)
        assert longest < POLL_S + SLACK_S, longest


# ---------------------------------------------------------------- at random

def again_and_again_at_random_members_handle_every_event(run):
    with PgStage(run, "group random", pooled=True) as stage:
        at = stage.site.url_at(stage.site.address)
        hands = everyone(stage) + share(stage, "tx-direct", "tx", {}, concurrency=2, url=at) + \
            share(stage, "levels-direct", "sql", *LEVELS, url=at)
        writers = [stage.write(("w0", "w1"), pause_s=0.005), stage.write(("x0",), url=at, pause_s=0.005)]
        for writer in writers:
            writer.start()
        for number in range(run.rounds // 2):
            lag, crash, restore, restart = (stage.dice.random() < p for p in (0.7, 0.5, 0.15, 0.5))
            change_at_random(stage, number, lag, crash, restore, restart)
        for writer in writers:
            writer.stop()
        until_prompt(stage, hands)


def again_and_again_at_random_processes_that_reserve_groups_handle_every_event(run):
    with PgStage(run, "reserved random", pooled=True) as stage:
        hands = share(stage, "quick", "handler", concurrency=THREADS) + share(
            stage, "direct", "handler", concurrency=THREADS, url=stage.site.url_at(stage.site.address))
        for number in range(run.rounds // 2):
            lag, crash, restore = (stage.dice.random() < p for p in (0.8, 0.5, 0.2))
            calls = len(hands[0].subscription.deliveries)
            stage.append(3000, tx_size=500)
            if lag:
                stage.cut()
            stage.lose(3000, tx_size=500)
            stage.until_calls(hands[0], calls + stage.dice.randrange(500, 5500))
            run.comment("round %d:%s%s%s" % (
                number + 1, " lag" if lag else "", " crash" if crash else " in order", " restore" if restore else ""))
            stage.replace(crash=crash, promote=not restore, again=True, early=stage.dice.choice((0, 2000)))
        stage.append(NEW)
        until_prompt(stage, hands)


# ---------------------------------------------------------------- SQLite

def file_replaced_under_members(run, name, restart=False, **how):
    with SqliteStage(run, name) as stage:
        hands = [*share(stage, "exec", "exec", concurrency=2, batch=10),
                 *share(stage, "handlers", "handler", {}, concurrency=2, batch=10, slow_ms=2),
                 *share(stage, "tx", "tx", {}, concurrency=2, batch=10, slow_ms=2),
                 *share(stage, "pull", "pull", {}, max=5, slow_ms=2)]
        stage.append(KEPT)
        stage.until_handled(*hands)
        stage.back_up()
        stage.lose(LOST)
        stage.until_calls(hands[0], KEPT + LOST // 3)
        if restart:
            for hand in hands:
                assert hand.process.end() == 0, hand.process.last_words()
        stage.restore(**how)
        if restart:
            for hand in hands:
                hand.start()
        stage.append(NEW)
        until_prompt(stage, hands)


def under_a_backup_that_is_moved_into_place_members_handle_every_event_of_the_file(run):
    file_replaced_under_members(run, "group sqlite", early=EARLY)


def under_a_backup_that_is_copied_into_the_file_members_handle_every_event_of_it(run):
    file_replaced_under_members(run, "group sqlite copied", move=False)


def members_that_start_after_a_backup_was_moved_into_place_get_every_event(run):
    file_replaced_under_members(run, "group sqlite restart", restart=True)


SHARED = {
    "members": [behind_a_pooler_members_handle_every_event_of_a_standby_that_lagged,
                behind_a_pooler_members_handle_every_event_of_an_older_copy_of_the_same_timeline,
                at_one_address_members_handle_every_event_of_a_standby_after_a_crash,
                behind_a_pooler_a_standby_that_lacks_nothing_is_nothing_to_members,
                at_one_address_members_that_start_after_the_change_get_every_event,
                behind_a_pooler_effects_of_a_batch_that_are_lost_happen_again,
                at_one_address_effects_of_a_batch_that_are_lost_happen_again],
    "reserved": [behind_a_pooler_pages_that_are_not_read_yet_are_no_pages_of_another_log,
                 at_one_address_pages_that_are_not_read_yet_are_no_pages_of_another_log,
                 behind_a_pooler_what_was_done_in_a_range_hides_no_event_of_another_log,
                 at_one_address_what_was_done_in_a_range_hides_no_event_of_another_log,
                 behind_a_pooler_ranges_are_not_lost_with_a_standby_that_lacks_nothing,
                 a_process_that_has_reserved_the_group_loses_nothing_when_its_server_dies],
    "restarts": [servers_that_restart_and_members_that_are_killed_lose_nothing_and_repeat_no_effect,
                 behind_a_pooler_servers_that_restart_and_members_that_are_killed_lose_nothing,
                 members_of_every_isolation_level_share_a_group_and_each_event_comes_once,
                 behind_a_pooler_no_member_waits_longer_than_the_poll_interval],
    "random members": [again_and_again_at_random_members_handle_every_event,
                       again_and_again_at_random_processes_that_reserve_groups_handle_every_event],
    "sqlite members": [under_a_backup_that_is_moved_into_place_members_handle_every_event_of_the_file,
                       under_a_backup_that_is_copied_into_the_file_members_handle_every_event_of_it,
                       members_that_start_after_a_backup_was_moved_into_place_get_every_event,
                       under_a_backup_effects_of_a_batch_that_are_lost_happen_again],
}
