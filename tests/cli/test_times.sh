#!/bin/sh
# test_times.sh - two times: corrections, as-of, revisions, diff, subscriptions to originals.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

A=0198a1b2-0000-7000-8000-0000000000aa
B=0198a1b2-0000-7000-8000-0000000000bb
C=0198a1b2-0000-7000-8000-0000000000cc
NOBODY=0198a1b2-0000-7000-8000-0000000000ff
ESC=$(printf '\033')

# Now, behind everything that was recorded and before all that will be.
_now() {
    sleep 0.01
    date -u +%Y-%m-%dT%H:%M:%S.%6NZ
    sleep 0.01
}

# An account: a payment of 100, corrected to 90 between EARLY and LATE.
_account() {
    "$HOWDAH" append account-7 payment.made '{"amount":100,"to":"bob"}' --id $A --actor ann \
        --valid-time 2026-01-05T00:00:00Z --correlation c-1 >/dev/null
    EARLY=$(_now)
    "$HOWDAH" append --correct $A --id $B --reason 'typing error' --actor eve \
        '{"amount":90,"to":"bob"}' >/dev/null
    LATE=$(_now)
}

# The lines without what differs from run to run.
_stable() {
    sed 's/"recorded_at":"[^"]*"/"recorded_at":"R"/g' "${1:-out}"
}

_data() {
    sed -n 's/.*"data":\(.*\),"headers".*/\1/p' out | tr '\n' ' '
}

# Of each line of a diff: what, which family, the payloads, whether it is final.
_changes() {
    python3 -c 'import json, sys
for line in sys.stdin:
    d = json.loads(line)
    print(d["change"], d["family"], [e["data"] for e in (d["before"], d["after"]) if e], d["final"])' <out
}

_plain() {
    sed "s/$ESC\\[[0-9;]*[mK]//g" out
}

# Holds a transaction open that has stored an event, until _let_go.
_hold() {
    mkfifo pipe
    if on_sqlite; then
        sqlite3 "${HOWDAH_STORE#sqlite:}" <pipe >/dev/null &
        exec 9>pipe
        printf 'BEGIN IMMEDIATE;\n.shell touch held\n' >&9
    else
        psql -X -q "$HOWDAH_STORE" <pipe >/dev/null &
        exec 9>pipe
        # shellcheck disable=SC2016
        printf 'BEGIN;\nSELECT %s.append($$s$$, $$t$$, $${}$$);\n\\! touch held\n' "$HOWDAH_SCHEMA" >&9
    fi
    HOLDER=$!
    wait_until test -e held
}

_let_go() {
    printf 'COMMIT;\n' >&9
    exec 9>&-
    wait "$HOLDER"
}

# ---------------------------------------------------------------- corrections

a_correction_is_the_next_revision_of_its_family() {
    run 0 append account-7 payment.made '{"amount":100}' --id $A --correlation c-1 --actor ann
    run 0 append --correct $A --reason 'typing error' '{"amount":90}' --id $B
    equals "$(cat out)" '{"global_sequence":2,"id":"'$B'","stream":"account-7","version":2,"revision":2}'
    empty err
    run 0 append account-7 payment.made '{"amount":80}' --correct $B --reason 'again' --actor eve
    equals "$(field revision)" 3
    run 0 read --id $B
    equals "$(_stable | sed 's/"valid_time":"[^"]*"/"valid_time":"V"/')" '{"global_sequence":2,"id":"'$B'","stream":"account-7","version":2,"type":"payment.made","data":{"amount":90},"headers":{},"correlation_id":"c-1","causation_id":null,"valid_time":"V","recorded_at":"R","family":"'$A'","revision":2,"corrects":"'$A'","reason":"typing error","actor":null,"schema_version":1}'
}

what_a_correction_leaves_out_stays_as_it_was() {
    run 0 append s t '{"a":1}' --id $A --valid-time 2020-01-01T00:00:00Z --header k=v --schema-version 2
    run 0 append --correct $A --reason r --valid-time 2021-01-01T00:00:00+01:00
    run 0 append --correct $A --reason r --header x=y --header z=
    run 0 append --correct $A --reason r '{"a":2}'
    run 0 read --versions $A
    equals "$(_data)" '{"a":1} {"a":1} {"a":1} {"a":2} '
    equals "$(field valid_time | tr '\n' ' ')" "2020-01-01T00:00:00.000000Z 2020-12-31T23:00:00.000000Z 2020-12-31T23:00:00.000000Z 2020-12-31T23:00:00.000000Z "
    equals "$(sed -n 's/.*"headers":\({[^}]*}\).*/\1/p' out | tr '\n' ' ')" '{"k":"v"} {"k":"v"} {"x":"y","z":""} {"x":"y","z":""} '
    equals "$(field schema_version | tr '\n' ' ')" "2 2 2 2 "
}

the_payload_of_a_correction_may_come_from_stdin_or_be_bytes() {
    run 0 append s t '{"a":1}' --id $A
    echo '{"a":2}' | "$HOWDAH" append --correct $A --reason r - >/dev/null
    printf 'abc' >payload
    run 0 append --correct $A --reason r s t @payload --bytes text/plain
    run 0 read --versions $A
    has out '"data":{"a":2},'
    has out '"content_type":"text/plain","data_base64":"YWJj"'
    run 2 append --correct $A --reason r --bytes text/plain
}

a_retraction_and_taking_it_up_again() {
    run 0 append s t '{"a":1}' --id $A
    run 0 append --correct $A --retract --reason 'never happened' --expect-revision 1
    equals "$(field revision)" 2
    run 0 read --current
    empty out
    run 0 read --versions $A
    has out '"data":null,'
    has out '"reason":"never happened","actor":null,"schema_version":1,"retraction":true}'
    run 6 append --correct $A --reason r --valid-time 2020-01-01T00:00:00Z
    has err "data: is required: the event is retracted"
    run 6 append --correct $A --reason r --retract '{}'
    has err "data: "
    run 0 append --correct $A --reason 'it did' '{"a":3}'
    run 0 read --current
    equals "$(_data)" '{"a":3} '
}

a_revision_that_is_not_the_expected_one_exits_3_and_names_the_newest() {
    _account
    run 3 append --correct $A --reason r --expect-revision 1 '{}'
    has err "the event is at revision 2, expected 1"
    run 0 append --correct $A --reason r --expect-revision 2 '{}'
    equals "$(field revision)" 3
    run 0 read --versions $A --count
    equals "$(cat out)" '{"count":3}'
}

of_corrections_at_once_each_revision_exists_once() {
    run 0 append s t '{}' --id $A
    for n in 1 2 3 4 5 6; do
        "$HOWDAH" append --correct $A --reason r --expect-revision 1 "{\"n\":$n}" >"out$n" 2>"err$n" &
    done
    wait
    equals "$(cat out? | wc -l | tr -d ' ')" 1
    equals "$(cat err? | grep -c 'revision 2')" 5
    run 0 read --versions $A --count
    equals "$(cat out)" '{"count":2}'
}

a_correction_with_its_id_can_be_repeated() {
    run 0 append s t '{}' --id $A
    run 0 append --correct $A --reason r '{"n":2}' --id $B
    cp out first
    run 0 append --correct $A --reason r '{"n":2}' --id $B
    equals "$(cat out)" "$(cat first)"
    has err "stored before"
    run 3 append --correct $A --reason r '{"n":3}' --id $B
    run 0 read --count
    equals "$(cat out)" '{"count":2}'
}

a_correction_that_cannot_be_made_stores_nothing() {
    run 0 append s t '{}' --id $A
    run 4 append --correct $NOBODY --reason r '{}'
    has err "no event has this id"
    run 6 append --correct nonsense --reason r '{}'
    run 6 append --correct $A --reason '' '{}'
    has err "reason: "
    run 6 append --correct $A --reason r
    has err "nothing to correct"
    run 6 append --correct $A --reason r '{"a":'
    run 6 append other t '{}' --correct $A --reason r
    has err "stream: differs from that of the event"
    run 6 append s other '{}' --correct $A --reason r
    has err "type: differs from that of the event"
    run 6 append --correct $A --reason r '{}' --valid-time 2026-01-05
    has err "valid-time: a date alone is not a moment; write 2026-01-05T00:00:00Z"
    run 6 append --correct $A --reason r '{}' --expect-revision 0
    run 0 read --count
    equals "$(cat out)" '{"count":1}'
}

flags_that_do_not_belong_together_are_wrong_usage() {
    run 2 append s t '{}' --reason r
    has err "--reason needs --correct"
    run 2 append s t '{}' --retract
    run 2 append s t '{}' --expect-revision 1
    run 2 append --correct $A '{}'
    has err "--correct needs --reason"
    for flags in "--expect any" "--correlation c" "--causation $B" --batch; do
        # shellcheck disable=SC2086
        run 2 append --correct $A --reason r '{}' $flags
        has err "exclude each other"
    done
    run 2 append --correct $A --reason r s t '{}' more
    has err "one argument too many: more"
    run 2 append --correct $A --reason r '{"n":3}' extra
    has err "one argument too many: extra"
    has err "usage: howdah append --correct"
    run 2 append --correct $A --reason r '{}' --header nonsense
}

a_batch_takes_no_corrections() {
    _account
    "$HOWDAH" read >lines
    run 6 append --batch <lines
    has err "line 2"
    has err "corrects: a correction cannot be part of a batch"
}

# ---------------------------------------------------------------- as-of

as_of_shows_what_was_known_then() {
    _account
    run 0 read --known-at "$EARLY"
    equals "$(_stable)" '{"global_sequence":1,"id":"'$A'","stream":"account-7","version":1,"type":"payment.made","data":{"amount":100,"to":"bob"},"headers":{},"correlation_id":"c-1","causation_id":null,"valid_time":"2026-01-05T00:00:00.000000Z","recorded_at":"R","family":"'$A'","revision":1,"corrects":null,"reason":null,"actor":"ann","schema_version":1,"final":true}'
    empty err
    run 0 read --known-at "$LATE"
    equals "$(_stable)" '{"global_sequence":2,"id":"'$B'","stream":"account-7","version":2,"type":"payment.made","data":{"amount":90,"to":"bob"},"headers":{},"correlation_id":"c-1","causation_id":null,"valid_time":"2026-01-05T00:00:00.000000Z","recorded_at":"R","family":"'$A'","revision":2,"corrects":"'$A'","reason":"typing error","actor":"eve","schema_version":1,"final":true}'
    run 0 read --known-at 2020-01-01T00:00:00Z
    empty out
    empty err
    run 0 read --current
    equals "$(_data)" '{"amount":90,"to":"bob"} '
    has_not out '"final"'
}

valid_at_leaves_out_what_was_true_later() {
    _account
    run 0 append account-7 payment.made '{"amount":5}' --valid-time 2026-02-01T00:00:00Z
    run 0 append --correct $A --reason 'wrong day' --valid-time 2026-03-01T00:00:00Z
    run 0 read --valid-at 2026-02-15T00:00:00Z
    equals "$(_data)" '{"amount":5} '
    run 0 read --valid-at 2026-02-15T00:00:00Z --known-at "$LATE"
    equals "$(_data)" '{"amount":90,"to":"bob"} '
    run 0 read --valid-at 2026-01-04T23:59:59.999999Z --known-at "$LATE"
    empty out
    run 0 read --valid-at 2026-01-05T00:00:00Z --known-at "$EARLY" --count
    equals "$(cat out)" '{"count":1,"final":true}'
}

an_answer_that_can_still_grow_says_so_and_whom_it_waits_for() {
    _account
    _hold
    k=$(_now)
    run 0 read --known-at "$k"
    has out '"final":false}'
    has err "not final: what was known at $k can still grow; it waits for "
    if on_sqlite; then
        has err "another connection, which is writing"
    else
        grep -q 'waits for pid [0-9]* of .*, open for [0-9.]* s' err || fail "not who"
    fi
    run 0 read --known-at "$k" --count --quiet
    equals "$(cat out)" '{"count":1,"final":false}'
    empty err
    run 0 read --known-at "$k" --streams
    equals "$(cat out)" '{"stream":"account-7","final":false}'
    has err "not final"
    run 0 diff --known-at "$EARLY" --to "$k"
    has out '"final":false}'
    has err "not final"
    _let_go
    run 0 read --known-at "$k" --type payment.made
    has out '"final":true}'
    empty err
    run 0 diff --known-at "$EARLY" --to "$k" --type payment.made
    has out '"final":true}'
    empty err
}

times_are_rfc_3339_and_not_in_the_future() {
    _account
    run 6 read --known-at 2999-01-01T00:00:00Z
    has err "known-at: is in the future"
    has err "leave it out to ask for what is known now"
    for option in known-at valid-at valid-from valid-before recorded-from recorded-before; do
        run 6 read --$option 2026-01-05
        has err "$option: a date alone is not a moment; write 2026-01-05T00:00:00Z"
        run 6 read --$option now
        has err "$option: expected RFC 3339 with an offset"
        run 6 read --$option 2026-01-05T00:00:00
    done
    run 6 read --valid-from 2026-01-05T00:00:00Z --valid-before 2026-01-04T00:00:00Z
    run 0 read --valid-at 2999-01-01T00:00:00Z
    equals "$(lines out)" 1
}

# ---------------------------------------------------------------- other questions

versions_prints_every_revision_from_any_id_of_the_family() {
    _account
    run 0 append account-7 payment.made '{}' --id $C
    run 0 read --versions $A
    equals "$(field revision | tr '\n' ' ')" "1 2 "
    cp out from_first
    run 0 read --versions $B
    cmp out from_first
    run 0 read --versions $B --backward --limit 1
    equals "$(field revision)" 2
    run 0 read --versions $C
    equals "$(lines out)" 1
    run 4 read --versions $NOBODY
    run 6 read --versions nonsense
}

originals_are_first_revisions() {
    _account
    run 0 append account-7 payment.made '{}' --id $C
    run 0 read --originals
    equals "$(field id | tr '\n' ' ')" "$A $C "
}

filters_look_at_the_revision_that_was_chosen() {
    run 0 append a t.x '{"n":1}' --id $A --header region=eu --header kind=big --valid-time 2026-01-01T00:00:00Z
    run 0 append b t.y '{"n":2}' --id $B --causation $A --header region=us --valid-time 2025-01-01T00:00:00Z
    k=$(_now)
    run 0 append --correct $A --reason r --header region=us
    run 0 read --header region=eu
    equals "$(_data)" '{"n":1} '
    run 0 read --header region=eu --current
    empty out
    run 0 read --header region=eu --header kind=big --known-at "$k"
    equals "$(lines out)" 1
    run 0 read --header region=us --current --order valid
    equals "$(_data)" '{"n":2} {"n":1} '
    run 0 read --header region=us --current --order valid --backward --limit 1
    equals "$(_data)" '{"n":1} '
    run 0 read --causation $A
    equals "$(_data)" '{"n":2} '
    run 0 read --valid-from 2025-01-01T00:00:00Z --valid-before 2026-01-01T00:00:00Z
    equals "$(_data)" '{"n":2} '
    run 0 read --recorded-from "$k"
    equals "$(field revision)" 2
    run 0 read --recorded-before "$k" --order recorded --backward
    equals "$(_data)" '{"n":2} {"n":1} '
    run 0 read --current --stream a --pattern 't.*' --count
    equals "$(cat out)" '{"count":1}'
    run 2 read --header region
    # shellcheck disable=SC2046
    run 6 read $(seq -f '--header k%g=v' 17)
    has err "header: at most 16"
}

counts_types_and_streams() {
    _account
    run 0 append account-8 payment.made '{}' --valid-time 2026-01-06T00:00:00Z
    run 0 append account-8 account.closed '{}' --valid-time 2026-01-07T00:00:00Z --id $C
    run 0 append --correct $C --retract --reason r
    run 0 read --stats
    equals "$(sed 's/,"first_recorded_at".*/}/' out)" '{"type":"account.closed","events":2,"corrections":1,"retractions":1,"streams":1,"first_valid_time":"2026-01-07T00:00:00.000000Z","last_valid_time":"2026-01-07T00:00:00.000000Z"}
{"type":"payment.made","events":3,"corrections":1,"retractions":0,"streams":2,"first_valid_time":"2026-01-05T00:00:00.000000Z","last_valid_time":"2026-01-06T00:00:00.000000Z"}'
    run 0 read --stats --known-at "$LATE"
    equals "$(lines out)" 1
    has out '"events":1,"corrections":1,'
    has out '"final":true}'
    run 0 read --streams
    equals "$(cat out)" '{"stream":"account-7"}
{"stream":"account-8"}'
    run 0 read --streams --type account.closed --limit 1
    equals "$(cat out)" '{"stream":"account-8"}'
    run 0 read --streams --type account.closed --current
    empty out
    run 0 read --count
    equals "$(cat out)" '{"count":5}'
    run 0 read --count --limit 2
    equals "$(cat out)" '{"count":2}'
    run 0 read --count --limit 0
    equals "$(cat out)" '{"count":0}'
    run 0 read --current --limit 0
    empty out
}

questions_that_contradict_themselves_are_wrong_usage() {
    run 2 read --current --from 3
    has err "--from does not go with --current"
    for form in count stats streams; do
        run 2 read --$form --from 3
        has err "--from does not go with --$form"
        run 2 read --$form --stream s --last
        has err "--last does not go with --$form"
    done
    run 2 read --count --since 3
    has err "--since does not go with --count"
    run 2 read --current --stream s --last
    has err "--backward --limit 1"
    run 2 read --known-at 2020-01-01T00:00:00Z --id $A
    has err "--versions UUID shows all revisions"
    run 2 read --originals --current
    run 2 read --current --known-at 2020-01-01T00:00:00Z
    run 2 read --versions $A --stream s
    run 2 read --count --stats
    run 2 read --stats --limit 3
    run 2 read --streams --order valid
    run 2 read --current more
    run 6 read --order time
}

# ---------------------------------------------------------------- diff

diff_tells_what_became_of_our_knowledge() {
    "$HOWDAH" append s kept '{}' >/dev/null
    "$HOWDAH" append s t.corrected '{"n":1}' --id $A >/dev/null
    "$HOWDAH" append s t.retracted '{"n":2}' --id $B >/dev/null
    "$HOWDAH" append s t.restored '{"n":3}' --id $C >/dev/null
    "$HOWDAH" append --correct $C --retract --reason r >/dev/null
    k=$(_now)
    "$HOWDAH" append --correct $A --reason r '{"n":0}' >/dev/null
    "$HOWDAH" append --correct $A --reason r '{"n":10}' >/dev/null
    "$HOWDAH" append --correct $B --reason r --retract >/dev/null
    "$HOWDAH" append --correct $C --reason r '{"n":30}' >/dev/null
    "$HOWDAH" append other t.added '{"n":4}' --id $NOBODY >/dev/null
    later=$(_now)
    run 0 diff --known-at "$k" --to "$later"
    equals "$(_changes)" "corrected $A [{'n': 1}, {'n': 10}] True
retracted $B [{'n': 2}, None] True
restored $C [None, {'n': 30}] True
added $NOBODY [{'n': 4}] True"
    equals "$(sed -n 4p out | _stable -)" "$(printf '{"change":"added","family":"%s","before":null,"after":%s,"final":true}' \
        $NOBODY "$("$HOWDAH" read --id $NOBODY | _stable -)")"
    run 0 diff --known-at "$k"
    equals "$(lines out)" 4
    equals "$(grep -c '"final":false}$' out)" 4
    empty err
    run 0 diff --known-at "$k" --stream other
    equals "$(field change)" added
    run 0 diff --known-at "$k" --pattern 't.*' --stream s
    equals "$(lines out)" 3
    run 0 diff --known-at "$k" --type t.retracted
    equals "$(field change)" retracted
    run 0 diff --known-at "$k" --limit 2
    equals "$(field change | tr '\n' ' ')" "corrected retracted "
    run 0 diff --known-at "$k" --limit 0
    empty out
    run 0 diff --known-at "$later"
    empty out
}

what_was_added_and_retracted_in_between_is_no_change() {
    k=$(_now)
    run 0 append s t '{}' --id $A
    run 0 append --correct $A --retract --reason r
    run 0 diff --known-at "$k"
    empty out
}

a_diff_needs_two_moments_that_have_passed_in_their_order() {
    run 2 diff
    has err "diff needs --known-at"
    run 6 diff --known-at 2026-01-05
    run 6 diff --known-at 2999-01-01T00:00:00Z
    has err "known-at: is in the future"
    has err "give one in the past"
    run 6 diff --known-at 2020-01-01T00:00:00Z --to 2999-01-01T00:00:00Z
    has err "to: is in the future"
    run 6 diff --known-at 2020-01-02T00:00:00Z --to 2020-01-01T00:00:00Z
    has err "to: is before known-at"
    run 2 diff --known-at 2020-01-01T00:00:00Z more
}

# ---------------------------------------------------------------- subscriptions

a_subscription_can_be_to_one_stream_and_to_originals() {
    run 0 subscribe mail --stream account-7 --originals --max 0
    run 0 sub show mail
    has out '"pattern":null,'
    has out '"stream":"account-7","originals":true,'
    run 0 append account-8 payment.made '{}'
    _account
    run 0 subscribe mail --until-caught-up
    equals "$(field id)" $A
    run 0 append account-7 payment.made '{}' --id $C
    run 0 subscribe mail --until-caught-up --stream '' --all-revisions
    equals "$(field id)" $C
    run 0 sub ls
    has out '"stream":null,"originals":false,'
    run 2 subscribe mail --originals --all-revisions
    run 0 subscribe all --until-caught-up
    equals "$(lines out)" 4
}

# ---------------------------------------------------------------- terminal

a_person_can_read_the_history_of_an_event() {
    _account
    run 0 append --correct $A --reason 'wrong day' --valid-time 2026-01-06T00:00:00Z --header region=eu --id $C
    run 0 append --correct $A --reason 'no payment at all' --retract
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read --versions $B"
    sed -i 's/recorded   2.*Z$/recorded   R/;s/^    id .*/    id/' out
    equals "$(cat out)" "account-7  payment.made
family $A

revision 1
    recorded   R
    valid      2026-01-05T00:00:00Z
    by         ann
    data       {\"amount\":100,\"to\":\"bob\"}

revision 2
    recorded   R
    valid      2026-01-05T00:00:00Z
    by         eve
    reason     typing error
    id
    changed    amount: 100 → 90

revision 3
    recorded   R
    valid      2026-01-06T00:00:00Z
    reason     wrong day
    id
    changed    valid time: 2026-01-05T00:00:00Z → 2026-01-06T00:00:00Z
               header region: (none) → \"eu\"

revision 4  RETRACTED
    recorded   R
    valid      2026-01-06T00:00:00Z
    reason     no payment at all
    id"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read --versions $B --backward"
    equals "$(sed -n 's/^revision //p' out | tr '\n' ' ')" "4  RETRACTED 3 2 1 "
    has out "    changed    amount: 100 → 90"
    in_terminal 80 "'$HOWDAH' read --versions $B"
    has out "${ESC}["
}

members_that_come_go_and_change_are_told_and_long_ones_cut() {
    long=$(printf '%0100d' 7)
    run 0 append s t "{\"gone\":1,\"same\":2,\"long\":\"$long\",\"a\\u0062\":1}" --id $A
    run 0 append --correct $A --reason r "{\"same\":2,\"long\":\"$long$long\",\"new\":[1],\"ab\":2}"
    run 0 append --correct $A --reason r '[1,2]'
    run 0 append --correct $A --reason r abc --bytes text/plain --schema-version 2
    run 0 append --correct $A --reason r xyz --bytes text/plain
    in_terminal 60 "NO_COLOR=1 '$HOWDAH' read --versions $A"
    has out 'new: (none) → [1]'
    has out 'gone: 1 → (none)'
    has out 'ab: 1 → 2'
    has_not out same:
    grep -A2 'long:$' out >sides
    equals "$(sed -n 's/^                 //p' sides)" '…000000000007"'
    grep -q '^               → …0*70*…$' sides || fail "not cut"
    grep -q 'changed    data: {"same":2.*… → \[1,2\]$' out || fail "no whole payload"
    has out 'data: [1,2] → (text/plain, 3 bytes)'
    has out 'schema version: 1 → 2'
    grep -A2 'data:$' out | tr -s ' \n' ' ' | grep -q 'data: (text/plain, 3 bytes) → (text/plain, 3 bytes)' ||
        fail "no bytes"
    [ "$(_plain | python3 -c 'import sys; print(max(len(l.rstrip("\n")) for l in sys.stdin))')" -le 60 ] ||
        fail "too wide"
    in_terminal 60 "LC_ALL=C NO_COLOR=1 '$HOWDAH' read --versions $A"
    has out 'gone: 1 -> (none)'
    if LC_ALL=C grep -q '[^ -~]' out; then
        fail "not ASCII"
    fi
}

a_long_reason_is_wrapped_and_an_unchanged_correction_says_so() {
    run 0 append s t '{"a":1}' --id $A
    run 0 append --correct $A --actor eve '{"a":1}' \
        --reason 'a reason that goes on and on because somebody has found it necessary to explain all of it'
    for width in 60 80; do
        in_terminal $width "NO_COLOR=1 '$HOWDAH' read --versions $A"
        [ "$(python3 -c 'import sys; print(max(len(l.rstrip("\n")) for l in open("out")))')" -le $width ] ||
            fail "wider than $width"
        tr -s ' \n' ' ' <out >flat
        has flat "by eve reason a reason that goes on and on because somebody has found it necessary to explain all of it id"
        has out "    changed    (nothing)"
    done
}

plain_tables_mark_corrections() {
    _account
    run 0 append --correct $A --reason r --retract
    for command in read "follow --since 0 --max 3"; do
        for width in 60 80 120; do
            in_terminal $width "NO_COLOR=1 '$HOWDAH' $command --quiet"
            [ "$(python3 -c 'import sys; print(max(len(l.rstrip("\n")) for l in open("out")))')" -le $width ] ||
                fail "wider than $width"
            has out '(rev 2) {'
            has out '(rev 3) ('
            equals "$(grep -c '(rev' out)" 2
        done
    done
}

a_diff_is_readable() {
    run 0 append s t.retracted '{}' --id $B
    _k=$(_now)
    run 0 append account-7 payment.made '{"amount":100}' --id $A --valid-time 2026-01-05T00:00:00Z
    run 0 append --correct $B --reason 'no' --retract
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' diff --known-at $_k"
    sed -i 's/recorded   2.*Z$/recorded   R/' out
    equals "$(cat out)" "+ added      account-7  payment.made
    family     $A
    recorded   R
    valid      2026-01-05T00:00:00Z
    data       {\"amount\":100}
- retracted  s  t.retracted
    family     $B
    revision   1 → 2
    recorded   R
    reason     no"
    _k=$(_now)
    run 0 append --correct $A --reason typo --actor eve '{"amount":90}'
    run 0 append --correct $B --reason yes '{"n":1}'
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' diff --known-at $_k"
    has out "~ corrected  account-7  payment.made"
    has out "    by         eve"
    has out "    changed    amount: 100 → 90"
    has out "^ restored   s  t.retracted"
    has out '    data       {"n":1}'
    in_terminal 80 "'$HOWDAH' diff --known-at $(_now)"
    has out "no change"
}

tables_of_two_times_fit_and_mark_retractions() {
    _account
    run 0 append --correct $A --reason r --retract
    for width in 60 80 120; do
        in_terminal $width "NO_COLOR=1 '$HOWDAH' read --order valid"
        [ "$(python3 -c 'import sys; print(max(len(l.rstrip("\n")) for l in open("out")))')" -le $width ] ||
            fail "wider than $width"
        has out "(retracted)"
    done
    equals "$(head -1 out | tr -s ' ' | sed 's/^ //')" "recorded (UTC) seq valid (UTC) stream rev type data"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read --current"
    has out "no events"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read --count"
    has out "3 events"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read --stats"
    grep -q '^payment.made  *3  *2  *1  *1  2026-01-05  2026-01-05$' out || fail "no stats"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read --streams"
    has out "account-7"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read --id $B"
    grep -q '^revision  *2$' out || fail "no revision"
    grep -q '^reason  *typing error$' out || fail "no reason"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' append --correct $A --reason r '{}'"
    grep -q '^account-7 version 4, sequence 4, id .*, revision 4$' out || fail "no revision"
}

a_terminal_shows_whose_and_what_a_subscription_is() {
    run 0 subscribe mail --stream account-7 --originals --max 0
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' sub ls"
    has out "(all) in account-7, originals"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' sub show mail"
    grep -q '^stream  *account-7$' out || fail "no stream"
    grep -q '^revisions  *originals only$' out || fail "no originals"
}

run_tests "$@"
