#!/bin/sh
# test_migrate.sh - howdah init and migrate.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

setup() {
    fresh_store
}

init_can_be_run_again() {
    run 0 init
    equals "$(lines out)" 1
    steps=$(field steps)
    [ "$steps" -ge 1 ]
    run 0 append a a.b
    run 0 init
    equals "$(field steps)" "$steps"
    run 0 read
    equals "$(lines out)" 1
}

without_a_schema_every_command_exits_8_and_says_what_to_do() {
    run 8 read
    has err init
    run 8 append a a.b
    run 8 append --batch <<'END'
{"stream":"a","type":"b"}
END
    run 8 status
    run 8 follow --timeout 1s
    run 8 trace 0198a1b2-0000-7000-8000-0000000000aa
}

status_tells_pending_from_applied() {
    run 0 migrate status
    has out '"state":"pending"'
    has_not out '"state":"applied"'
    run 0 migrate up
    run 0 migrate status
    has out '"state":"applied"'
    has_not out '"state":"pending"'
    equals "$(field number | head -n 1)" 1
}

two_starters_at_once_both_succeed() {
    for n in 1 2 3 4; do
        "$HOWDAH" init >"out.$n" 2>"err.$n" &
        eval "pid$n=\$!"
    done
    # shellcheck disable=SC2154
    for pid in "$pid1" "$pid2" "$pid3" "$pid4"; do
        wait "$pid" || fail "one of them failed: $(cat err.*)"
    done
    run 0 migrate status
    has_not out '"state":"pending"'
    run 0 append a a.b
}

print_needs_no_connection_and_gives_sql() {
    run 0 migrate print --store "postgres://nobody@nowhere.invalid/none" --schema my_bus
    has out 'CREATE TABLE'
    has out 'my_bus'
    run 0 migrate print --store sqlite:nothing.db
    has out 'CREATE TABLE'
    if [ -e nothing.db ]; then
        fail "print created the file"
    fi
}

the_printed_sql_makes_a_bus_that_the_command_accepts() {
    "$HOWDAH" migrate print >schema.sql
    if on_sqlite; then
        sqlite3 -bail "${HOWDAH_STORE#sqlite:}" <schema.sql >/dev/null
    else
        psql -X -q -v ON_ERROR_STOP=1 "$HOWDAH_STORE" <schema.sql >/dev/null
    fi
    run 0 append a a.b
    run 0 init
}

an_unknown_verb_is_wrong_usage() {
    run 2 migrate sideways
    run 2 migrate
    run 2 init now
}

a_failed_read_does_not_create_the_file() {
    if on_sqlite; then
        run 8 read
        if [ -e "${HOWDAH_STORE#sqlite:}" ]; then
            fail "read created the file"
        fi
    fi
}

run_tests "$@"
