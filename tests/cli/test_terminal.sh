#!/bin/sh
# test_terminal.sh - what a person sees: tables, colours, widths, progress.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

ESC=$(printf '\033')

_fill() {
    for n in 1 2 3; do
        "$HOWDAH" append "order-$n" order.created "{\"n\":$n,\"text\":\"a payload that is far too long for one line of a terminal with eighty columns\"}" >/dev/null
    done
}

_plain() {
    sed "s/$ESC\\[[0-9;]*[mK]//g" out
}

# Columns of the widest line; every character here takes one.
_widest() {
    _plain | python3 -c 'import sys; print(max(len(l.rstrip("\n")) for l in sys.stdin))'
}

read_gives_an_aligned_table() {
    _fill
    in_terminal 80 "'$HOWDAH' read"
    _plain >plain
    equals "$(lines plain)" 4
    equals "$(sed -n 's/^ *\(seq.*\)$/\1/p' plain | tr -s ' ')" "seq recorded (UTC) stream ver type data"
    grep -q '^ *3  [0-9-]* [0-9:]*  order-3 *1  order.created  {"n":3,"text":' plain || fail "no row 3"
    has_not plain '"global_sequence"'
}

the_width_of_the_terminal_is_respected() {
    _fill
    for width in 60 80 120 200; do
        in_terminal $width "'$HOWDAH' read"
        [ "$(_widest)" -le $width ] || fail "wider than $width"
    done
}

colours_appear_and_no_color_and_dumb_take_them_away() {
    _fill
    in_terminal 80 "'$HOWDAH' read"
    has out "${ESC}["
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read"
    has_not out "${ESC}["
    in_terminal 80 "NO_COLOR= '$HOWDAH' read"
    has out "${ESC}["
    in_terminal 80 "TERM=dumb '$HOWDAH' read"
    has_not out "${ESC}["
    in_terminal 80 "'$HOWDAH' read | cat"
    has_not out "${ESC}["
    has out '"global_sequence"'
}

json_can_be_asked_for() {
    _fill
    in_terminal 80 "'$HOWDAH' read --json"
    has_not out "${ESC}["
    equals "$(grep -c '^{"global_sequence":' out)" 3
}

a_payload_cannot_steer_the_terminal() {
    "$HOWDAH" append s t "$(printf '"a\302\233[31mb\342\200\256c"')" >/dev/null
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read"
    if grep -q "$(printf '\302\233')" out || grep -q "$(printf '\342\200\256')" out; then
        fail "a control character got through"
    fi
}

without_utf8_everything_is_ascii() {
    "$HOWDAH" append s t '"é"' >/dev/null
    _fill
    in_terminal 80 "LC_ALL=C NO_COLOR=1 '$HOWDAH' read; LC_ALL=C NO_COLOR=1 '$HOWDAH' doctor"
    if LC_ALL=C grep -q '[^ -~]' out; then
        fail "not ASCII"
    fi
}

wide_characters_keep_the_columns() {
    "$HOWDAH" append '漢字' t '"x"' >/dev/null
    "$HOWDAH" append 'abcd' t '"x"' >/dev/null
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read"
    # Four columns each: two wide characters are two bytes of padding less than they have letters.
    equals "$(grep -c '  漢字      1  t     "x"\|  abcd      1  t     "x"' out)" 2
}

append_answers_in_words() {
    in_terminal 80 "'$HOWDAH' append order-1 order.created"
    has out "order-1 version 1, sequence 1, id "
}

an_error_has_its_advice_on_a_second_line() {
    code=0
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' append a b --expct 1" || code=$?
    equals "$code" 2
    has out "howdah: unknown option --expct"
    has out "  → did you mean --expect?"
}

status_doctor_migrate_and_settings_are_readable() {
    _fill
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' status"
    grep -q '^head  *3$' out || fail "no head"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' doctor"
    has out "✓"
    has out "0 broken"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' migrate status"
    has out "applied"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' settings"
    has out "read_batch"
    [ "$(_widest)" -le 80 ] || fail "settings are too wide"
}

one_event_alone_is_shown_whole() {
    _fill
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read --stream order-2 --last"
    grep -q '^sequence  *2$' out || fail "no sequence"
    grep -q '^data  *{"n":2,.*eighty columns"}$' out || fail "the payload is cut"
}

an_empty_log_says_so() {
    in_terminal 80 "'$HOWDAH' read"
    has out "no events"
}

a_batch_shows_progress_and_takes_it_away() {
    awk 'BEGIN { for (i = 0; i < 30000; i++) print "{\"stream\":\"s" i % 100 "\",\"type\":\"t\"}" }' >in
    in_terminal 80 "'$HOWDAH' append --batch --tx-size 1000 <in"
    has out "30000 events, 0 already stored, "
    grep -q 'events  [0-9,]*/s' raw || fail "no progress"
    in_terminal 80 "'$HOWDAH' append --batch --tx-size 1000 --quiet <in"
    has_not out "events"
}

a_long_table_streams_with_the_widths_of_its_first_screen() {
    awk 'BEGIN { for (i = 0; i < 3000; i++) print "{\"stream\":\"s" i "\",\"type\":\"t\"}" }' |
        "$HOWDAH" append --batch --quiet >/dev/null
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' read"
    equals "$(lines out)" 3001
}

follow_shows_rows_at_once() {
    _fill
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' follow --since 0 --max 3 --timeout 20s"
    has out "following"
    equals "$(grep -c 'order.created' out)" 3
    [ "$(_widest)" -le 140 ]
}

ctrl_c_typed_in_the_terminal_ends_a_follower() {
    _fill
    : >out
    # The shell between gets the signal too; whether it outlives it without a trap depends on which
    # shell it is, and script takes $SHELL.
    # shellcheck disable=SC2094
    { wait_until grep -q order.created out; printf '\003'; sleep 1; } |
        timeout 60 script -qec "trap : INT; '$HOWDAH' follow --since 0; echo code=\$?" /dev/null >out || :
    has out "code=130"
}

run_tests "$@"
