#!/bin/sh
# test_snapshot.sh - howdah snapshot: the state of a stream at one of its versions.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_stable() {
    sed 's/"taken_at":"[^"]*"/"taken_at":"T"/' "${1:-out}"
}

a_snapshot_comes_back_to_the_dead_letter() {
    events 5
    run 0 snapshot put s 3 '{"b": 1.50, "a":2}' --schema-version 4
    equals "$(cat out)" '{"stream":"s","version":3,"bytes":18,"schema_version":4}'
    run 0 snapshot get s
    equals "$(_stable)" '{"stream":"s","version":3,"data":{"b": 1.50, "a":2},"bytes":18,"schema_version":4,"taken_at":"T"}'
    printf 'abc' | "$HOWDAH" snapshot put s 4 - --bytes text/plain >out
    equals "$(cat out)" '{"stream":"s","version":4,"content_type":"text/plain","bytes":3,"schema_version":1}'
    run 0 snapshot get s
    equals "$(_stable)" '{"stream":"s","version":4,"data":null,"content_type":"text/plain","data_base64":"YWJj","bytes":3,"schema_version":1,"taken_at":"T"}'
    echo '{"from":"file"}' >state.json
    run 0 snapshot put s 4 @state.json
    run 0 snapshot get s --version 4
    has out '"data":{"from":"file"},'
}

the_nearest_one_at_or_below_a_version_is_found() {
    events 9
    for n in 3 6 9; do
        run 0 snapshot put s $n "{\"n\":$n}"
    done
    run 0 snapshot get s --version 8
    equals "$(field version)" 6
    run 0 snapshot get s --version 3
    equals "$(field version)" 3
    run 4 snapshot get s --version 2
    has err "no snapshot at or below this version"
    run 4 snapshot get other
    run 0 snapshot ls
    equals "$(_stable)" '{"stream":"s","version":3,"bytes":7,"schema_version":1,"taken_at":"T"}
{"stream":"s","version":6,"bytes":7,"schema_version":1,"taken_at":"T"}
{"stream":"s","version":9,"bytes":7,"schema_version":1,"taken_at":"T"}'
    run 0 snapshot ls other
    empty out
}

the_newest_ones_can_be_kept() {
    events 9
    for n in 3 6 9; do
        run 0 snapshot put s $n "{\"n\":$n}" --keep 2
    done
    run 0 snapshot ls s
    equals "$(field version | tr '\n' ' ')" "6 9 "
}

state_is_the_snapshot_and_the_events_behind_it() {
    events 5
    run 0 snapshot state s
    equals "$(head -1 out)" '{"snapshot":null}'
    equals "$(lines out)" 6
    run 0 snapshot put s 3 '{"n":3}'
    run 0 snapshot state s
    equals "$(head -1 out | _stable -)" '{"snapshot":{"stream":"s","version":3,"data":{"n":3},"bytes":7,"schema_version":1,"taken_at":"T"}}'
    equals "$(sed 1d out | field version - | tr '\n' ' ')" "4 5 "
    run 0 snapshot state s --version 4
    equals "$(sed 1d out | field version - | tr '\n' ' ')" "4 "
    run 0 snapshot state s --version 3
    equals "$(lines out)" 1
    run 0 snapshot state s --version 2
    equals "$(sed 1d out | field version - | tr '\n' ' ')" "1 2 "
}

snapshots_are_removed_only_with_yes() {
    events 9
    for n in 3 6 9; do
        run 0 snapshot put s $n '{}'
    done
    run 2 snapshot rm s
    has err "snapshot rm needs --yes"
    run 0 snapshot rm s --upto 6 --yes
    equals "$(cat out)" '{"stream":"s","removed":2}'
    run 0 snapshot rm s --yes
    equals "$(cat out)" '{"stream":"s","removed":1}'
    run 0 snapshot rm s --yes
    equals "$(cat out)" '{"stream":"s","removed":0}'
}

a_version_that_the_stream_does_not_have_exits_4() {
    events 2
    run 4 snapshot put s 3 '{}'
    run 4 snapshot put other 1 '{}'
    run 0 snapshot ls
    empty out
}

bad_input_exits_6_and_wrong_usage_2() {
    events 2
    run 6 snapshot put s 0 '{}'
    run 6 snapshot put s x '{}'
    run 6 snapshot put s 1 '{"a":'
    run 6 snapshot put s 1 '{}' --keep 0
    run 6 snapshot put s 1 '{}' --schema-version 0
    run 6 snapshot get s --version 0
    run 2 snapshot
    run 2 snapshot put s 1
    run 2 snapshot get
    run 2 snapshot get s --yes
    has err "snapshot get does not take --yes"
    run 2 snapshot lst
    has err "did you mean snapshot"
    run 2 snapshot get s --version
}

the_version_of_the_command_is_asked_for_before_it() {
    run 0 --version snapshot
    grep -q '^howdah [0-9]' out
}

a_terminal_shows_a_list_and_the_state() {
    events 3
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' snapshot ls"
    has out "no snapshots"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' snapshot put s 2 '{\"n\":2}'"
    has out "s: snapshot at version 2, 7 bytes"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' snapshot ls"
    equals "$(sed -n 1p out | tr -s ' ')" "stream version bytes schema taken at (UTC)"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' snapshot state s"
    grep -q '^version  *2$' out || fail "no version"
    grep -q '^data  *{"n":2}$' out || fail "no data"
    grep -q '{"n":3}$' out || fail "no event behind it"
}

run_tests "$@"
