#!/bin/sh
# test_verify.sh - what verify sees, and what it leaves to those who tidy up.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# wrong CHECK MESSAGE: verify finds this one thing and no other.
_wrong() {
    run 1 verify
    equals "$(grep -c '"severity":"bad"' out)" 1
    has out "{\"severity\":\"bad\",\"check\":\"$1\",\"message\":\"$2\""
}

_table() {
    if on_sqlite; then
        echo "howdah_$1"
    else
        echo "$HOWDAH_SCHEMA.$1"
    fi
}

# One event of every kind, a job, a batch that goes in many at a time.
_every_kind() {
    run 0 append a order.created '{"n":1}' --header 'h=x' --correlation c --actor eve --valid-time 2026-01-05T00:00:00Z
    id=$(field id)
    run 0 append --correct "$id" --reason typo '{"n":2}'
    run 0 append --correct "$id" --reason never --retract
    run 0 append b order.paid 'any bytes' --bytes text/plain --causation "$id"
    run 0 append c none '' --bytes text/plain
    run 0 append 'é' utf.8 '"漢字"'
    run 0 append gone erased '{"secret":1}'
    run 0 purge --stream gone --reason asked --yes
    events 100
}

every_kind_of_event_is_as_it_was_stored() {
    _every_kind
    run 0 verify
    has_not out '"bad"'
}

a_changed_event_is_found() {
    on_sqlite || return 0
    _every_kind
    for change in "data = '{\"n\":3}' WHERE global_sequence = 1" "headers = '{\"h\":\"y\"}' WHERE global_sequence = 1" \
        "actor = NULL WHERE global_sequence = 1" "bytes = x'00' WHERE global_sequence = 5" \
        "recorded_at = recorded_at - 1 WHERE global_sequence = 8" "data = ' ' || data WHERE global_sequence = 107"; do
        cp "${HOWDAH_STORE#sqlite:}" before.db
        sql "UPDATE howdah_events SET $change"
        _wrong log "1 events are not as they were stored"
        cp before.db "${HOWDAH_STORE#sqlite:}"
    done
    run 0 verify
}

an_event_that_has_nothing_to_be_compared_with_is_taken_as_it_is() {
    on_sqlite || return 0
    events 3
    sql "UPDATE howdah_events SET digest = NULL, data = '{}' WHERE global_sequence = 2"
    sql "INSERT INTO howdah_events (stream, version, type, data) VALUES ('plain', 1, 'sql', '1')"
    run 0 verify
}

a_removed_event_is_found() {
    on_sqlite || return 0
    for n in 1 2 3; do
        run 0 append "s-$n" t '{}'
    done
    cp "${HOWDAH_STORE#sqlite:}" before.db
    sql "DELETE FROM howdah_events WHERE global_sequence = 3"
    _wrong log "1 events are missing: their numbers were given out"
    cp before.db "${HOWDAH_STORE#sqlite:}"
    sql "DELETE FROM howdah_events WHERE global_sequence = 2"
    _wrong log "1 events are missing: their numbers were given out"
    cp before.db "${HOWDAH_STORE#sqlite:}"
    sql "DELETE FROM howdah_events"
    _wrong log "3 events are missing: their numbers were given out"
}

a_sequence_behind_the_log_is_found() {
    on_sqlite && return 0
    events 3
    sql "SELECT setval('$HOWDAH_SCHEMA.events_global_sequence_seq', 1)" >/dev/null
    run 0 verify
    has out '"severity":"warning","check":"numbers","message":"number 3 is in use, and the log'
}

a_job_under_way_that_does_not_hold_its_key_is_found() {
    run 0 push q --key k
    if on_sqlite; then
        sql "UPDATE howdah_jobs SET token = 1, lease_until = 9e15, lease_ms = 1, started_at = 1"
        run 0 verify
        sql "INSERT INTO howdah_key_holds SELECT queue_id, key, 99 FROM howdah_jobs"
        _wrong jobs "queue q: 1 jobs do not wait although their key is held"
    else
        sql "SELECT $HOWDAH_SCHEMA.claim('q')" >/dev/null
        run 0 verify
        sql "DELETE FROM $HOWDAH_SCHEMA.key_holders"
        _wrong jobs "queue q: 1 jobs under way do not hold their key"
    fi
}

what_a_worker_is_about_to_put_right_is_not_wrong() {
    run 0 push q --key k
    run 0 push q --key k
    if on_sqlite; then
        sql "UPDATE howdah_jobs SET token = 1, lease_until = 1, lease_ms = 1, started_at = 1 WHERE id = 1"
        run 0 verify
        return
    fi
    # Who ends the first job has an old snapshot, in which the second one was not set aside yet.
    sql "SELECT id || ' ' || token FROM $HOWDAH_SCHEMA.claim('q')" >claimed
    read -r id token <claimed
    psql -X -q -At -v ON_ERROR_STOP=1 "$HOWDAH_STORE" >/dev/null <<END
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM $HOWDAH_SCHEMA.jobs;
\! psql -X -q -At -c "SELECT count(*) FROM $HOWDAH_SCHEMA.claim('q')" "$HOWDAH_STORE"
SELECT $HOWDAH_SCHEMA.complete($id, $token);
COMMIT;
END
    run 0 verify
    # A lease that has run out, and history that is too old.
    run 0 push other
    sql "SELECT $HOWDAH_SCHEMA.claim('other', 1, lease => '1 ms')" >/dev/null
    sql "SELECT $HOWDAH_SCHEMA.queue_set('q', history_ms => 1)" >/dev/null
    run 0 verify
}

run_tests "$@"
