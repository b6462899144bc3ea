#!/bin/sh
# test_purge.sh - howdah purge: payloads are gone, who, when and why stay.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

A=0198a1b2-0000-7000-8000-0000000000aa
B=0198a1b2-0000-7000-8000-0000000000bb
C=0198a1b2-0000-7000-8000-0000000000cc
NOBODY=0198a1b2-0000-7000-8000-0000000000ff

_fill() {
    "$HOWDAH" append customer-7 customer.moved '{"street":"SECRET"}' --id $A --header ip=SECRET >/dev/null
    "$HOWDAH" append --correct $A --reason r '{"street":"SECRET 2"}' --id $B >/dev/null
    "$HOWDAH" append customer-8 customer.moved '{"street":"kept"}' --id $C >/dev/null
}

_stable() {
    sed 's/"purged_at":"[^"]*"/"purged_at":"T"/' out
}

without_yes_it_says_what_it_would_erase_and_exits_2() {
    _fill
    run 2 purge --stream customer-7 --reason r
    has err "purge needs --yes: it would erase payload and headers of 2 events"
    run 2 purge $A --reason r
    has err "of 1 event"
    run 2 purge $A $B $C --families --reason r
    has err "of 3 events"
    run 2 purge $A $A --reason r
    has err "of 1 event"
    has err "dead letters, snapshots and waiting jobs made of them go too"
    run 0 read
    has out SECRET
    run 0 purge ls
    empty out
}

what_is_purged_already_is_not_counted_again() {
    _fill
    run 0 purge $A --reason r --yes
    run 2 purge --stream customer-7 --reason r
    has err "of 1 event"
    run 2 purge $A $C --reason r
    has err "of 1 event"
    run 2 purge $B --families --reason r
    has err "of 1 event"
    run 2 purge $A --reason r
    has err "it would erase nothing, because all of it was purged before"
}

a_stream_is_purged_whole() {
    _fill
    run 0 snapshot put customer-7 2 '{"street":"SECRET"}'
    run 0 purge --stream customer-7 --reason 'request 4711' --actor ann --yes
    equals "$(_stable)" '{"id":1,"purged_at":"T","actor":"ann","reason":"request 4711","stream":"customer-7","events":2,"dead_letters":0,"snapshots":1,"jobs":0,"left":0}'
    if on_sqlite; then
        has err "it is overwritten in the file"
        has_not err vacuum
    else
        has err "the next vacuum removes it from the database's files; backups"
    fi
    run 0 read
    has_not out SECRET
    equals "$(grep -c '"data":null,"headers":{},.*"purged":true}$' out)" 2
    has out '"street":"kept"'
    run 0 snapshot ls
    empty out
    run 0 purge ls
    equals "$(_stable)" '{"id":1,"purged_at":"T","actor":"ann","reason":"request 4711","stream":"customer-7","events":2,"dead_letters":0,"snapshots":1,"jobs":0,"left":0}'
}

an_event_alone_leaves_its_other_revisions_and_says_so() {
    _fill
    run 0 purge $A --reason r --actor ann --yes
    equals "$(_stable)" '{"id":1,"purged_at":"T","actor":"ann","reason":"r","stream":null,"events":1,"dead_letters":0,"snapshots":0,"jobs":0,"left":1}'
    has err "1 revision of the same event still has a payload; --families erases those too"
    run 0 purge $A --families --reason r --actor ann --yes
    equals "$(field events) $(field left)" "1 0"
    has_not err "--families"
    run 0 read --stream customer-7
    has_not out SECRET
}

purging_again_is_no_error_and_keeps_no_record() {
    _fill
    run 0 purge $A --families --reason r --yes
    run 0 purge $A --reason 'again' --yes --actor ann
    equals "$(cat out)" '{"id":null,"purged_at":null,"actor":"ann","reason":"again","stream":null,"events":0,"dead_letters":0,"snapshots":0,"jobs":0,"left":0}'
    has err "purged before"
    run 0 purge ls
    equals "$(lines out)" 1
    [ -n "$(field actor)" ] || fail "nobody is named"
}

nothing_is_erased_when_one_of_them_is_not_there() {
    _fill
    run 4 purge $A $NOBODY --reason r --yes
    run 4 purge $A $NOBODY --reason r
    run 4 purge --stream nobody --reason r --yes
    run 4 purge --stream nobody --reason r
    run 6 purge nonsense --reason r --yes
    run 6 purge $A --reason '' --yes
    run 0 read
    has out SECRET
    run 0 purge ls
    empty out
}

wrong_usage_exits_2() {
    run 2 purge
    has err "purge needs --stream or the ids of events"
    run 2 purge $A --stream s --reason r --yes
    run 2 purge --stream s --families --reason r --yes
    run 2 purge $A --yes
    has err "purge needs --reason"
    run 2 purge ls --yes
    run 2 purge ls more
}

a_purged_event_needs_data_to_be_corrected_and_is_not_copied() {
    _fill
    run 0 purge --stream customer-7 --reason r --yes --quiet
    empty err
    run 6 append --correct $A --reason r --valid-time 2020-01-01T00:00:00Z
    has err "the event is purged"
    "$HOWDAH" read --originals >lines
    run 6 append --batch <lines
    has err "purged: the payload of this event was erased"
    run 0 append --correct $A --reason r '{"street":"new"}'
    run 0 read --current --stream customer-7
    has out '"data":{"street":"new"}'
}

dead_letters_and_jobs_are_erased_as_well() {
    _fill
    run 0 subscribe mail --until-caught-up --exec 'echo SECRET >&2; false' --max-retries 0
    equals "$("$HOWDAH" dlq ls | grep -c SECRET)" 3
    run 0 purge --stream customer-7 --reason r --yes
    equals "$(field dead_letters)" 2
    run 0 dlq ls --all-states
    has out kept
    equals "$(grep -v kept out | grep -c SECRET || :)" 0
}

a_terminal_shows_the_record_and_the_list() {
    _fill
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' purge $A --reason 'request 4711' --actor ann --yes"
    grep -q '^reason  *request 4711$' out || fail "no reason"
    grep -q '^events erased *1$' out || fail "no count"
    grep -q '^revisions left *1$' out || fail "nothing left"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' purge ls"
    equals "$(sed -n 1p out | tr -s ' ' | sed 's/^ //')" "id purged at (UTC) by stream events left reason"
    grep -q '^ *1  2.*  ann  (by id)  *1  *1  request 4711$' out || fail "no row"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read --versions $A"
    has out "revision 1  PURGED"
    has out "data       (purged)"
    has out 'changed    data: (purged) → {"street":"SECRET 2"}'
    has_not out header
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read"
    has out "(purged)"
}

run_tests "$@"
