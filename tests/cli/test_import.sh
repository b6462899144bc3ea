#!/bin/sh
# test_import.sh - howdah import.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# A table with N rows; on PostgreSQL in a schema of its own, since the database is shared.
_table() {
    if on_sqlite; then
        TABLE=old_events
        sql "CREATE TABLE old_events (id TEXT PRIMARY KEY, aggregate TEXT, type TEXT, data TEXT, created_at TEXT);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
            INSERT INTO old_events SELECT printf('0198a1b2-0000-7000-8000-%012d', i), 'acc-' || (i % 5),
                'account.moved', '{\"n\":' || i || '}', strftime('%Y-%m-%dT%H:%M:%SZ', 1600000000 - i, 'unixepoch') FROM n;"
    else
        TABLE=old_$HOWDAH_SCHEMA.old_events
        sql "CREATE SCHEMA old_$HOWDAH_SCHEMA" && sql "CREATE TABLE $TABLE (id uuid PRIMARY KEY,
            aggregate text, type text, data json, created_at timestamptz)"
        sql "INSERT INTO $TABLE SELECT ('0198a1b2-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 'acc-' || (i % 5),
            'account.moved', ('{\"n\":' || i || '}')::json, to_timestamp(1600000000 - i) FROM generate_series(1, $1) i"
    fi
}

rows_come_in_order_of_their_time() {
    _table 20
    run 0 import --table "$TABLE" --map stream=aggregate --batch 7
    equals "$(cat out)" '{"imported":20}'
    run 0 read --limit 2
    has out '"data":{"n":20}'
    has out '"valid_time":"2020-09-13T12:26:20.000000Z"'
    run 0 read --backward --limit 1
    has out '"data":{"n":1}'
}

running_it_again_takes_nothing_twice() {
    _table 20
    run 0 import --table "$TABLE" --map stream=aggregate
    run 0 import --table "$TABLE" --map stream=aggregate
    equals "$(cat out)" '{"imported":0}'
    run 0 read
    equals "$(lines out)" 20
}

# Killed once right behind the commit of a batch, and once at a moment that nobody chose.
an_import_that_is_killed_goes_on_where_it_was() {
    _table 50
    code=0
    HOWDAH_FAILPOINT=import.batch_committed:kill@2 "$HOWDAH" import --table "$TABLE" \
        --map stream=aggregate --batch 10 >out 2>err || code=$?
    equals "$code" 137
    run 0 read
    equals "$(lines out)" 20
    "$HOWDAH" import --table "$TABLE" --map stream=aggregate --batch 1 >out 2>err &
    importer=$!
    sleep 0.05
    kill -9 "$importer" 2>/dev/null || :
    wait "$importer" || :
    run 0 import --table "$TABLE" --map stream=aggregate --batch 10
    run 0 read
    equals "$(lines out)" 50
    # Every row once, oldest first: n falls from 50 to 1.
    equals "$(sed 's/.*"data":{"n":\([0-9]*\)}.*/\1/' out)" "$(seq 50 -1 1)"
}

a_constant_can_stand_for_a_column() {
    _table 3
    run 0 import --table "$TABLE" --map stream=aggregate --map type:=account.imported
    run 0 read --type account.imported
    equals "$(lines out)" 3
}

what_cannot_be_imported_is_refused() {
    _table 3
    run 2 import
    run 6 import --table "$TABLE" --map stream=no_such_column
    run 6 import --table "$TABLE" --map nonsense=aggregate
    run 6 import --table "$TABLE" --batch 0
    code=0
    "$HOWDAH" import --table no_such_table >out 2>err || code=$?
    [ "$code" -eq 4 ] || [ "$code" -eq 6 ] || fail "exit code $code"
    run 0 read
    empty out
}

a_terminal_shows_the_result_in_words() {
    _table 3
    in_terminal 80 "'$HOWDAH' import --table $TABLE --map stream=aggregate"
    has out "3 events imported"
}

run_tests "$@"
