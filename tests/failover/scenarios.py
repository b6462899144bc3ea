"""What happens to clients whose server is replaced by one that knows less.

A scenario is a function of a Run; its name is a sentence that is true when it passes.  Most have a twin
in which nothing is lost, or the client starts anew after the change: that one shows that it is the change
under a running client that the other one is about.
"""
from stage import RARE, TYPES, PgStage, SqliteStage

# A server draws numbers from its sequence 32 at a time as far as its standbys know: so many must be lost, and
# more, before the new ones are those of the old ones again.
KEPT, LOST, NEW = 30, 80, 60
EARLY = 100  # appended by others before our clients come back: the old places are not ahead of the new log


# ---------------------------------------------------------------- subscribers

def subscribers(stage):
    """Every kind of place that the command has."""
    return [stage.subscribe("plain"),
            stage.subscribe("some", "--checkpoint", "batched", "--batch-size", "10", "--max-delay", "100ms",
                            pattern="order.*"),
            stage.subscribe("exact", "--instance", "lease", pattern="order.paid"),
            stage.subscribe("alone", "--instance", "single", pattern="*.created", begin="end"),
            stage.subscribe("rare", pattern="rare.*"),
            stage.subscribe("rare-batched", "--checkpoint", "batched", "--max-delay", "100ms", pattern="rare.*")]


def change_under_subscribers(run, name, pooled, lag=True, restart=False, crash=False, promote=True, early=0):
    """Nobody has anything in hand when the server changes."""
    with PgStage(run, name, pooled) as stage:
        stage.append(5)
        hands = subscribers(stage)
        stage.append(KEPT)
        stage.until_stored(*hands)
        if lag:
            stage.cut()
        stage.lose(LOST)
        stage.until_stored(*hands)
        if restart:
            for hand in hands:
                assert hand.process.end() == 0, hand.process.last_words()
        stage.replace(crash=crash, promote=promote, early=early)
        if restart:
            for hand in hands:
                hand.start()
        stage.append(NEW)


def behind_a_pooler_a_standby_that_lagged_is_noticed_and_all_its_events_are_delivered(run):
    change_under_subscribers(run, "pooler", pooled=True)


def behind_a_pooler_a_crash_and_a_standby_that_lagged_lose_no_delivery(run):
    change_under_subscribers(run, "pooler crash", pooled=True, crash=True)


def behind_a_pooler_an_older_copy_of_the_same_timeline_is_noticed(run):
    change_under_subscribers(run, "pooler restore", pooled=True, promote=False)


def behind_a_pooler_a_standby_that_lagged_and_went_on_is_noticed(run):
    change_under_subscribers(run, "pooler early", pooled=True, early=EARLY)


def behind_a_pooler_a_standby_that_lacks_nothing_changes_nothing(run):
    change_under_subscribers(run, "pooler whole", pooled=True, lag=False)


def behind_a_pooler_who_starts_after_the_change_gets_everything(run):
    change_under_subscribers(run, "pooler restart", pooled=True, restart=True)


def change_with_events_in_hand(run, name, pooled, lag=True, early=0):
    """The page that the handler works through was read from the server that goes."""
    with PgStage(run, name, pooled) as stage:
        slow = stage.subscribe("slow", exec_line="sleep 0.03")
        batched = stage.subscribe("late", "--checkpoint", "batched", "--batch-size", "7", exec_line="sleep 0.02")
        stage.append(KEPT)
        stage.until_stored(slow, batched)
        if lag:
            stage.cut()
        stage.lose(LOST)
        stage.until_calls(slow, KEPT + LOST // 3)
        stage.replace(early=early)
        stage.append(NEW)


def behind_a_pooler_events_in_hand_of_the_old_server_hide_none_of_the_new_one(run):
    change_with_events_in_hand(run, "pooler hand", pooled=True)


def behind_a_pooler_events_in_hand_of_the_old_server_hide_none_that_came_before_they_were_done(run):
    change_with_events_in_hand(run, "pooler hand early", pooled=True, early=EARLY)


def at_one_address_events_in_hand_of_the_old_server_hide_none_that_came_before_they_were_done(run):
    change_with_events_in_hand(run, "address hand early", pooled=False, early=EARLY)


def behind_a_pooler_events_in_hand_survive_a_standby_that_lacks_nothing(run):
    change_with_events_in_hand(run, "pooler hand whole", pooled=True, lag=False)


# ---------------------------------------------------------------- without a pooler, in a retry

# rare.never fails; when "hold" is there the next try waits for "released", and then ends as $1 says.  With
# $2 it is that try that waits.
NEVER = """
[ "$HOWDAH_EVENT_TYPE" = rare.never ] || exit 0
if [ -e released ]; then exit "$1"; fi
if [ -e hold ] || [ "$HOWDAH_ATTEMPT" = "$2" ]; then
    : >"held.$HOWDAH_SUBSCRIBER"
    while [ ! -e released ]; do sleep 0.02; done
    exit "$1"
fi
exit 1
"""


def change_in_a_retry(run, name, hosts, lag=True, restart=False, early=0):
    """A handler has failed, goes on while the server changes, and ends with the next one.

    So the first that the new server hears of the client is where its subscription stands, or a dead letter.
    The event is one that both servers have.
    """
    with PgStage(run, name) as stage:
        url = stage.site.hosts() if hosts else None
        stage.write_file("never", NEVER)
        line = 'cd "%s" && sh ./never' % stage.dir
        hands = [
            stage.subscribe("retries", exec_line=line + " 0", url=url),
            stage.subscribe("batched", "--checkpoint", "batched", "--batch-size", "10", exec_line=line + " 0", url=url),
            stage.subscribe("rare", exec_line=line + " 0", url=url, pattern="rare.*"),
            stage.subscribe("dies", exec_line=line + " 1 4", url=url, pattern="rare.*", retries=("3", "600ms"))]
        stage.append(KEPT)
        stage.until_stored(*hands)
        calls = [len(hand.subscription.deliveries) for hand in hands]
        stage.append(1, types=("rare.never",), streams=("own",))
        for hand, n in zip(hands, calls):
            stage.until_calls(hand, n + 1)
        if lag:
            stage.cut()
        stage.lose(LOST)
        for hand, n in zip(hands[:2], calls):
            stage.until_calls(hand, n + LOST)
        if restart:
            for hand in hands:
                hand.process.term()
        stage.write_file("hold")
        if restart:
            stage.write_file("released")
            for hand in hands:
                assert hand.process.wait() == 0, hand.process.last_words()
        else:
            stage.until_files("held." + hand.subscription.name for hand in hands)
        stage.replace(early=early)
        stage.write_file("released")
        if restart:
            for hand in hands:
                hand.start()
        stage.append(NEW)


def with_two_hosts_a_retry_across_the_change_stores_no_place_of_the_old_server(run):
    change_in_a_retry(run, "hosts", hosts=True, early=EARLY)


def at_one_address_a_retry_across_the_change_stores_no_place_of_the_old_server(run):
    change_in_a_retry(run, "address", hosts=False)


def at_one_address_a_retry_across_the_change_to_a_server_that_went_on_stores_no_old_place(run):
    change_in_a_retry(run, "address early", hosts=False, early=EARLY)


def at_one_address_a_standby_that_lagged_and_went_on_is_noticed(run):
    change_under_subscribers(run, "address idle early", pooled=False, early=EARLY)


def at_one_address_a_retry_survives_a_standby_that_lacks_nothing(run):
    change_in_a_retry(run, "address whole", hosts=False, lag=False)


def at_one_address_who_was_in_a_retry_and_starts_after_the_change_gets_everything(run):
    change_in_a_retry(run, "address restart", hosts=False, restart=True)


def at_one_address_a_standby_that_lagged_is_noticed_and_all_its_events_are_delivered(run):
    change_under_subscribers(run, "address idle", pooled=False)


def at_one_address_an_older_copy_of_the_same_timeline_is_noticed(run):
    change_under_subscribers(run, "address restore", pooled=False, promote=False)


# ---------------------------------------------------------------- told to end while there is no server

def end_without_a_server(run, name, pooled, lag=True, early=0):
    """It ends while there is no server, or cannot before there is one; both are its right."""
    with PgStage(run, name, pooled) as stage:
        hands = [stage.subscribe("plain"),
                 stage.subscribe("batched", "--checkpoint", "batched", "--batch-size", "1000", "--max-delay", "10s"),
                 stage.subscribe("rare", "--checkpoint", "batched", "--max-delay", "10s", pattern="rare.*"),
                 stage.subscribe("slow", exec_line="sleep 0.02")]
        stage.append(KEPT)
        stage.until_handled(*hands)
        if lag:
            stage.cut()
        stage.lose(LOST)
        stage.until_handled(*hands[:3])
        stage.stop_primary(crash=True)
        for hand in hands:
            hand.process.term()
        stage.start_next(early=early)
        for hand in hands:
            code = hand.process.wait()
            stage.run.comment("%s ended with %d" % (hand.subscription.name, code))
        stage.append(NEW)
        for hand in hands:
            hand.start()


def told_to_end_without_a_server_it_gets_everything_after_the_next_start(run):
    end_without_a_server(run, "term", pooled=False)


def told_to_end_behind_a_pooler_without_a_server_it_gets_everything_after_the_next_start(run):
    end_without_a_server(run, "term pooled", pooled=True)


def told_to_end_before_a_server_that_went_on_it_gets_everything_after_the_next_start(run):
    end_without_a_server(run, "term early", pooled=False, early=EARLY)


def told_to_end_behind_a_pooler_before_a_server_that_went_on_it_gets_everything(run):
    end_without_a_server(run, "term pooled early", pooled=True, early=EARLY)


def told_to_end_without_a_server_that_lost_nothing_it_gets_everything_after_the_next_start(run):
    end_without_a_server(run, "term whole", pooled=False, lag=False)


# ---------------------------------------------------------------- transactions

def effects_across(run, name, pooled, lag=True, restart=False, crash=False, early=0):
    with PgStage(run, name, pooled) as stage:
        hands = [stage.transact("all", "slow_ms=15"),
                 stage.transact("orders", "slow_ms=5", pattern="order.*"),
                 stage.transact("leased", "instance=lease", pattern="order.paid", begin="end"),
                 stage.transact("rare", pattern="rare.*")]
        stage.append(KEPT)
        stage.until_stored(*hands)
        if lag:
            stage.cut()
        stage.lose(LOST)
        stage.until_calls(hands[0], KEPT + LOST // 3)
        if restart:
            for hand in hands:
                assert hand.process.end() == 0, hand.process.last_words()
        stage.replace(crash=crash, early=early)
        if restart:
            for hand in hands:
                hand.start()
        stage.append(NEW)


def behind_a_pooler_each_event_of_the_log_has_one_effect_and_no_other_has_any(run):
    effects_across(run, "tx pooler", pooled=True)


def behind_a_pooler_and_after_a_crash_each_event_has_one_effect_and_no_other_has_any(run):
    effects_across(run, "tx pooler crash", pooled=True, crash=True)


def behind_a_pooler_before_a_server_that_went_on_each_event_has_one_effect_and_no_other_has_any(run):
    effects_across(run, "tx pooler early", pooled=True, early=EARLY)


def at_one_address_before_a_server_that_went_on_each_event_has_one_effect_and_no_other_has_any(run):
    effects_across(run, "tx address early", pooled=False, early=EARLY)


def at_one_address_each_event_of_the_log_has_one_effect_and_no_other_has_any(run):
    effects_across(run, "tx address", pooled=False)


def effects_are_there_once_when_the_standby_lacks_nothing(run):
    effects_across(run, "tx whole", pooled=True, lag=False)


def effects_are_there_once_when_the_client_starts_after_the_change(run):
    effects_across(run, "tx restart", pooled=True, restart=True)


# ---------------------------------------------------------------- followers

def follow_across(run, name, pooled, lag=True, early=0):
    with PgStage(run, name, pooled) as stage:
        hands = [stage.follow("follow"), stage.follow("orders", pattern="order.*")]
        stage.append(KEPT)
        stage.until_handled(*hands)
        if lag:
            stage.cut()
        stage.lose(LOST)
        stage.until_handled(*hands)
        stage.replace(early=early)
        stage.append(NEW)


def behind_a_pooler_a_follower_prints_everything_or_says_that_the_log_is_another(run):
    follow_across(run, "follow pooler", pooled=True)


def at_one_address_a_follower_prints_everything_or_says_that_the_log_is_another(run):
    follow_across(run, "follow address", pooled=False)


def at_one_address_a_follower_of_a_server_that_went_on_prints_everything_or_says_so(run):
    follow_across(run, "follow address early", pooled=False, early=EARLY)


def a_follower_of_a_standby_that_lacks_nothing_prints_everything(run):
    follow_across(run, "follow whole", pooled=True, lag=False)


def go_on_from_a_place(run, name, lag=True, early=0):
    """The place was taken on the server that goes, and a process of its own goes on with it on the next."""
    with PgStage(run, name) as stage:
        hands = [stage.follow("follow", "--places"), stage.follow("orders", "--places", pattern="order.*"),
                 stage.follow("rare", "--places", pattern="rare.*")]
        stage.append(KEPT)
        stage.until_handled(*hands)
        if lag:
            stage.cut()
        stage.lose(LOST)
        stage.until_handled(*hands)
        for hand in hands:
            hand.process.end()
        stage.replace(early=early)
        for hand in hands:
            hand.start()
        stage.append(NEW)
        stage.until_handled(*hands)


def a_place_goes_on_with_all_events_of_a_standby_that_lagged(run):
    go_on_from_a_place(run, "place")


def a_place_goes_on_with_all_events_of_a_standby_that_lagged_and_went_on(run):
    go_on_from_a_place(run, "place early", early=EARLY)


def a_place_goes_on_with_all_events_of_a_standby_that_lacks_nothing(run):
    go_on_from_a_place(run, "place whole", lag=False)


def a_place_goes_on_at_a_standby_with_what_its_primary_has_open(run):
    with PgStage(run, "place standby") as stage:
        follower = stage.follow("follow", "--places", "--set", "read_only=true")
        stage.append(KEPT)
        commit = stage.hold(2, "held")
        stage.append(5)
        stage.until_handled(follower)
        follower.process.end()
        stage.site.sync()
        follower.words[2] = stage.site.standby.url()
        follower.start()
        stage.append(5)
        stage.until_handled(follower)
        commit()
        stage.append(5, streams=("held",))
        stage.until_handled(follower)


def behind_a_pooler_that_leads_to_a_standby_a_follower_prints_what_its_primary_had_open(run):
    """Nobody holds numbers there: what is missing need not be dead."""
    with PgStage(run, "follow standby", pooled=True) as stage:
        follower = stage.follow("follow", "--set", "read_only=true")
        stage.append(KEPT)
        commit = stage.hold(2, "held")
        stage.append(5)
        stage.until_handled(follower)
        stage.site.sync()
        stage.site.lead(stage.site.standby)
        stage.append(5)
        stage.site.sync()
        stage.until_handled(follower)
        commit()
        stage.append(5, streams=("held",))
        stage.until_handled(follower)
        stage.site.lead(stage.site.primary)
        stage.append(5)
        stage.until_handled(follower)


def a_follower_of_a_standby_that_is_promoted_prints_everything(run):
    with PgStage(run, "follow promoted") as stage:
        follower = stage.follow("follow", "--set", "read_only=true", url=stage.site.standby.url())
        stage.append(KEPT)
        commit = stage.hold(2, "held")
        stage.append(5)
        stage.until_handled(follower)
        commit()
        stage.append(5, streams=("held",))
        stage.until_handled(follower)
        stage.site.promote()
        commit = stage.hold(1, "held again")
        stage.append(NEW)
        stage.until_handled(follower)
        commit()


# ---------------------------------------------------------------- queues

def jobs_across(run, name, pooled, lag=True, restart=False, early=0):
    with PgStage(run, name, pooled) as stage:
        stage.bind("mail", "order.*")
        stage.bind("audit", ">")
        stage.bind("few", "rare.*")

        def start():
            stage.work("few")
            stage.work("mail", "--concurrency", "2", "--batch", "8")
            stage.work("audit", "--concurrency", "2", "--batch", "8")
        start()
        stage.append(KEPT)
        stage.wait_until_quiet()
        if lag:
            stage.cut()
        stage.lose(LOST)
        stage.until_run("audit", KEPT + LOST // 2)
        if restart:
            for worker in stage.workers:
                assert worker.end() == 0, worker.last_words()
                stage.let_go.append(worker)
        stage.replace(early=early)
        if restart:
            start()
        stage.append(NEW)


def behind_a_pooler_each_event_becomes_one_job_that_runs(run):
    jobs_across(run, "queue pooler", pooled=True)


def at_one_address_each_event_becomes_one_job_that_runs(run):
    jobs_across(run, "queue address", pooled=False)


def behind_a_pooler_before_a_server_that_went_on_each_event_becomes_one_job_that_runs(run):
    jobs_across(run, "queue pooler early", pooled=True, early=EARLY)


def at_one_address_before_a_server_that_went_on_each_event_becomes_one_job_that_runs(run):
    jobs_across(run, "queue address early", pooled=False, early=EARLY)


def each_event_becomes_one_job_when_the_standby_lacks_nothing(run):
    jobs_across(run, "queue whole", pooled=True, lag=False)


def each_event_becomes_one_job_when_the_workers_start_after_the_change(run):
    jobs_across(run, "queue restart", pooled=True, restart=True)


# ---------------------------------------------------------------- writers

def versions_across(run, name, pooled, lag=True, crash=False):
    """One process appends before and after; with and without expectations, and as lines of a batch."""
    with PgStage(run, name, pooled) as stage:
        writers = [stage.write(("w0", "w1", "w2")), stage.write(("x0", "x1"), expecting=True)]
        lines = stage.write_lines(("l0", "l1"))

        def all_write(n):
            for writer in writers:
                writer.many(n)
            lines.many(n)
        all_write(12)
        if lag:
            stage.cut()
        all_write(15)
        stage.replace(crash=crash)
        all_write(20)
        for writer in writers:
            run.comment("%d refused" % writer.refused)
        if not lag:
            assert not any(writer.refused for writer in writers)


def behind_a_pooler_what_long_lived_writers_append_has_no_hole(run):
    versions_across(run, "append pooler", pooled=True)


def behind_a_pooler_and_after_a_crash_what_long_lived_writers_append_has_no_hole(run):
    versions_across(run, "append pooler crash", pooled=True, crash=True)


def at_one_address_what_long_lived_writers_append_has_no_hole(run):
    versions_across(run, "append address", pooled=False)


def writers_before_a_standby_that_lacks_nothing_are_not_refused(run):
    versions_across(run, "append whole", pooled=True, lag=False)


# ---------------------------------------------------------------- SQLite

def file_replaced(run, name, restart=False, in_hand=False, **how):
    with SqliteStage(run, name) as stage:
        pause = "sleep 0.02" if in_hand else None
        hands = [stage.subscribe("plain", exec_line=pause),
                 stage.subscribe("orders", "--checkpoint", "batched", pattern="order.*", exec_line=pause),
                 stage.subscribe("rare", pattern="rare.*"),
                 stage.transact("effects", "slow_ms=20" if in_hand else "slow_ms=0")]
        follower = stage.follow("follow")
        stage.append(KEPT)
        stage.until_stored(*hands)
        stage.until_handled(follower)
        stage.back_up()
        stage.lose(LOST)
        if in_hand:
            stage.until_calls(hands[0], KEPT + LOST // 3)
        else:
            stage.until_stored(*hands)
            stage.until_handled(follower)
        if restart:
            for hand in hands + [follower]:
                hand.process.end()
        stage.restore(**how)
        if restart:
            for hand in hands + [follower]:
                hand.start()
        stage.append(100)


def under_a_backup_that_is_moved_into_place_every_event_of_the_file_is_delivered(run):
    file_replaced(run, "sqlite")


def under_a_backup_that_went_on_elsewhere_every_event_of_the_file_is_delivered(run):
    file_replaced(run, "sqlite early", early=EARLY)


def under_a_backup_that_is_copied_into_the_file_every_event_of_it_is_delivered(run):
    file_replaced(run, "sqlite copied", move=False)


def under_a_backup_events_in_hand_hide_none_of_the_file(run):
    file_replaced(run, "sqlite hand", in_hand=True, early=EARLY)


def who_starts_after_a_backup_was_moved_into_place_gets_every_event(run):
    file_replaced(run, "sqlite restart", restart=True)


# ---------------------------------------------------------------- everything at once

def random_changes(run, name, losses):
    """Places of every kind, writers that never stop, servers that come and go."""
    with PgStage(run, name, pooled=True) as stage:
        at, dice = stage.site.url_at(stage.site.address), stage.dice
        stage.types = TYPES * 10 + (RARE,)
        stage.append(10)
        hands = [
            stage.subscribe("sync"), stage.subscribe("rare", pattern="rare.*"), stage.subscribe("sync-direct", url=at),
            stage.subscribe("batched", "--checkpoint", "batched", "--batch-size", "20", pattern="order.*"),
            stage.subscribe("batched-direct", "--checkpoint", "batched", "--instance", "single", pattern="*.created",
                            url=at, begin="end"),
            stage.subscribe("leased", "--instance", "lease", pattern="order.paid"),
            stage.transact("effects", "slow_ms=2"),
            stage.transact("effects-direct", "instance=lease", url=at, pattern="order.>"),
            stage.follow("follow", url=at)]
        stage.bind("mail", "ship.*")
        stage.work("mail", "--concurrency", "3", "--batch", "10")
        stage.work("mail", "--concurrency", "3", "--batch", "10", url=at)
        writers = [stage.write(("w0", "w1"), pause_s=0.01),
                   stage.write(("x0", "x1"), expecting=True, pause_s=0.01),
                   stage.write(("y0",), url=at, pause_s=0.01)]
        for writer in writers:
            writer.start()
        for number in range(run.rounds):
            lag, crash, restore, restart = (dice.random() < p for p in (0.7, 0.5, 0.15, 0.4))
            change_at_random(stage, number, lag and losses, crash and losses, restore and losses, restart)
        for writer in writers:
            writer.stop()
        stage.append(NEW)


def change_at_random(stage, number, lag, crash, restore, restart):
    stage.run.comment("round %d:%s%s%s%s" % (
        number + 1, " lag" if lag else "", " crash" if crash else " in order", " restore" if restore else "",
        " restart" if restart else ""))
    stage.until_written(10)
    if lag or restore:
        stage.cut()
        stage.until_written(stage.dice.randrange(80))
    chosen = stage.dice.choice([hand for hand in stage.hands if hand.durable])
    if restart and stage.dice.random() < 0.5:
        chosen.process.kill()
    elif restart:
        chosen.process.term()
    stage.replace(crash=crash, promote=not restore, again=True)
    if restart:
        chosen.process.wait()
        chosen.start()


def again_and_again_at_random_no_event_is_lost_in_silence(run):
    random_changes(run, "random", losses=True)


def again_and_again_without_a_loss_everything_is_delivered(run):
    random_changes(run, "random whole", losses=False)


# Key, and what it stands for.
GROUPS = {
    "pooler": [behind_a_pooler_a_standby_that_lagged_is_noticed_and_all_its_events_are_delivered,
               behind_a_pooler_a_crash_and_a_standby_that_lagged_lose_no_delivery,
               behind_a_pooler_an_older_copy_of_the_same_timeline_is_noticed,
               behind_a_pooler_events_in_hand_of_the_old_server_hide_none_of_the_new_one,
               behind_a_pooler_a_standby_that_lagged_and_went_on_is_noticed,
               behind_a_pooler_events_in_hand_of_the_old_server_hide_none_that_came_before_they_were_done,
               behind_a_pooler_events_in_hand_survive_a_standby_that_lacks_nothing,
               behind_a_pooler_a_standby_that_lacks_nothing_changes_nothing,
               behind_a_pooler_who_starts_after_the_change_gets_everything],
    "direct": [with_two_hosts_a_retry_across_the_change_stores_no_place_of_the_old_server,
               at_one_address_a_retry_across_the_change_stores_no_place_of_the_old_server,
               at_one_address_a_standby_that_lagged_is_noticed_and_all_its_events_are_delivered,
               at_one_address_an_older_copy_of_the_same_timeline_is_noticed,
               at_one_address_a_retry_across_the_change_to_a_server_that_went_on_stores_no_old_place,
               at_one_address_a_standby_that_lagged_and_went_on_is_noticed,
               at_one_address_events_in_hand_of_the_old_server_hide_none_that_came_before_they_were_done,
               at_one_address_a_retry_survives_a_standby_that_lacks_nothing,
               at_one_address_who_was_in_a_retry_and_starts_after_the_change_gets_everything],
    "end": [told_to_end_without_a_server_it_gets_everything_after_the_next_start,
            told_to_end_behind_a_pooler_without_a_server_it_gets_everything_after_the_next_start,
            told_to_end_before_a_server_that_went_on_it_gets_everything_after_the_next_start,
            told_to_end_behind_a_pooler_before_a_server_that_went_on_it_gets_everything,
            told_to_end_without_a_server_that_lost_nothing_it_gets_everything_after_the_next_start],
    "effects": [behind_a_pooler_each_event_of_the_log_has_one_effect_and_no_other_has_any,
                behind_a_pooler_and_after_a_crash_each_event_has_one_effect_and_no_other_has_any,
                at_one_address_each_event_of_the_log_has_one_effect_and_no_other_has_any,
                behind_a_pooler_before_a_server_that_went_on_each_event_has_one_effect_and_no_other_has_any,
                at_one_address_before_a_server_that_went_on_each_event_has_one_effect_and_no_other_has_any,
                effects_are_there_once_when_the_standby_lacks_nothing,
                effects_are_there_once_when_the_client_starts_after_the_change],
    "follow": [behind_a_pooler_a_follower_prints_everything_or_says_that_the_log_is_another,
               at_one_address_a_follower_prints_everything_or_says_that_the_log_is_another,
               at_one_address_a_follower_of_a_server_that_went_on_prints_everything_or_says_so,
               a_follower_of_a_standby_that_lacks_nothing_prints_everything,
               a_place_goes_on_with_all_events_of_a_standby_that_lagged,
               a_place_goes_on_with_all_events_of_a_standby_that_lagged_and_went_on,
               a_place_goes_on_with_all_events_of_a_standby_that_lacks_nothing,
               a_place_goes_on_at_a_standby_with_what_its_primary_has_open,
               behind_a_pooler_that_leads_to_a_standby_a_follower_prints_what_its_primary_had_open,
               a_follower_of_a_standby_that_is_promoted_prints_everything],
    "jobs": [behind_a_pooler_each_event_becomes_one_job_that_runs,
             at_one_address_each_event_becomes_one_job_that_runs,
             behind_a_pooler_before_a_server_that_went_on_each_event_becomes_one_job_that_runs,
             at_one_address_before_a_server_that_went_on_each_event_becomes_one_job_that_runs,
             each_event_becomes_one_job_when_the_standby_lacks_nothing,
             each_event_becomes_one_job_when_the_workers_start_after_the_change],
    "append": [behind_a_pooler_what_long_lived_writers_append_has_no_hole,
               behind_a_pooler_and_after_a_crash_what_long_lived_writers_append_has_no_hole,
               at_one_address_what_long_lived_writers_append_has_no_hole,
               writers_before_a_standby_that_lacks_nothing_are_not_refused],
    "sqlite": [under_a_backup_that_is_moved_into_place_every_event_of_the_file_is_delivered,
               under_a_backup_that_went_on_elsewhere_every_event_of_the_file_is_delivered,
               under_a_backup_that_is_copied_into_the_file_every_event_of_it_is_delivered,
               under_a_backup_events_in_hand_hide_none_of_the_file,
               who_starts_after_a_backup_was_moved_into_place_gets_every_event],
    "random": [again_and_again_at_random_no_event_is_lost_in_silence,
               again_and_again_without_a_loss_everything_is_delivered],
}
