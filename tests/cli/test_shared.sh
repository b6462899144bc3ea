#!/bin/sh
# test_shared.sh - howdah subscribe --shared: members, commands, co-processes.
# shellcheck disable=SC2016,SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# streams N: n events in the streams s0 to s4, in turn, with n in their data.
_streams() {
    awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++)
        print "{\"stream\":\"s" i % 5 "\",\"type\":\"t\",\"data\":{\"n\":" i "}}" }' |
        "$HOWDAH" append --batch --quiet >/dev/null
}

# each_once FILE N: its lines are "STREAM N"; each number is there once, and those of a stream are in order.
_each_once() {
    equals "$(lines "$1")" "$2"
    equals "$(sort -u "$1" | wc -l | tr -d ' ')" "$2"
    awk '{ if ($2 <= last[$1]) exit 1; last[$1] = $2 }' "$1" || fail "$1 is not in order"
}

it_prints_everything_once_and_goes_on_where_it_was() {
    _streams 20
    run 0 subscribe g --shared --until-caught-up
    sed 's/.*"stream":"\([^"]*\)".*"n":\([0-9]*\).*/\1 \2/' out >seen
    _each_once seen 20
    run 0 subscribe g --shared --until-caught-up
    empty out
    _streams 5
    run 0 subscribe g --shared --until-caught-up --concurrency 4
    equals "$(lines out)" 5
}

members_run_commands_at_the_same_time() {
    _streams 20
    run 0 subscribe g --shared --concurrency 4 --batch 2 --until-caught-up --exec \
        'echo begin >>log; sleep 0.1; echo "$HOWDAH_STREAM $HOWDAH_SEQUENCE" >>seen; echo end >>log; test "$HOWDAH_ATTEMPT" = 1'
    _each_once seen 20
    awk '/begin/ { if (++n > most) most = n } /end/ { n-- } END { exit most < 2 || most > 4 }' log ||
        fail "not two to four at a time"
    empty err
}

two_processes_share_the_work() {
    _streams 40
    "$HOWDAH" subscribe g --shared --batch 2 --until-caught-up --exec \
        'echo "$HOWDAH_STREAM $HOWDAH_SEQUENCE" | tee -a one >>seen; sleep 0.05' >first 2>&1 &
    first=$!
    run 0 subscribe g --shared --batch 2 --until-caught-up --exec \
        'echo "$HOWDAH_STREAM $HOWDAH_SEQUENCE" | tee -a two >>seen; sleep 0.05'
    ends $first 0
    _each_once seen 40
    if [ ! -s one ] || [ ! -s two ]; then
        fail "one did everything"
    fi
}

a_member_that_is_killed_loses_nothing() {
    _streams 10
    "$HOWDAH" subscribe g --shared --lease 2s --exec 'touch begun; sleep 60' >/dev/null 2>&1 &
    killed=$!
    wait_until test -e begun
    run 0 sub show g
    equals "$(field batches)" 1
    kill -KILL $killed
    code=0
    wait $killed || code=$?
    run 0 subscribe g --shared --until-caught-up --exec 'echo "$HOWDAH_STREAM $HOWDAH_SEQUENCE" >>seen'
    _each_once seen 10
}

a_signal_gives_back_what_was_not_begun() {
    _streams 20
    "$HOWDAH" subscribe g --shared --lease 1h --exec \
        'echo "$HOWDAH_STREAM $HOWDAH_SEQUENCE" >>seen; sleep 0.3' >/dev/null 2>&1 &
    member=$!
    wait_until test -s seen
    kill -TERM $member
    ends $member 0
    run 0 subscribe g --shared --until-caught-up --exec 'echo "$HOWDAH_STREAM $HOWDAH_SEQUENCE" >>seen'
    _each_once seen 20
}

a_failed_event_holds_up_its_stream_only() {
    _streams 10
    run 0 subscribe g --shared --until-caught-up --max-retries 1 --retry-delay 50ms --exec \
        'echo "$HOWDAH_STREAM $HOWDAH_SEQUENCE" >>tried; test "$HOWDAH_SEQUENCE" != 3'
    equals "$(grep -c '^s3 3$' tried)" 2
    equals "$(grep '^s3 ' tried | tr '\n' ',')" "s3 3,s3 3,s3 8,"
    has err "event 3, try 1: "
    run 0 dlq ls
    equals "$(field global_sequence)" 3
}

on_fail_hold_keeps_the_stream_until_somebody_has_decided() {
    _streams 10
    run 0 subscribe g --shared --on-fail hold --max-retries 0 --timeout 20s --max 9 --exec \
        'echo "$HOWDAH_STREAM $HOWDAH_SEQUENCE" >>seen; test "$HOWDAH_SEQUENCE" != 3'
    run 0 sub show g
    equals "$(field outstanding)" 1
    run 0 dlq discard 1 --reason 'not wanted'
    run 0 subscribe g --shared --until-caught-up --exec 'echo "$HOWDAH_STREAM $HOWDAH_SEQUENCE" >>later'
    equals "$(cat later)" "s3 8"
}

# ---- long-lived commands

# Acks each line, but for the event whose number is its argument.
_coprocess() {
    cat >co.py <<'END'
import json, sys
for line in sys.stdin:
    event = json.loads(line)
    number = event["global_sequence"]
    with open("seen", "a") as seen:
        print(event["stream"], number, file=seen)
    answer = {"nack": number, "error": "no \u00e9"} if str(number) in sys.argv else {"ack": number}
    print(json.dumps(answer), flush=True)
END
}

a_coprocess_gets_lines_and_answers_with_lines() {
    _coprocess
    _streams 50
    run 0 subscribe g --shared --batch 10 --concurrency 2 --until-caught-up --exec-lines 'python3 co.py'
    _each_once seen 50
    empty err
    run 0 sub show g
    equals "$(field lag)" 0
}

an_ack_is_for_all_lines_up_to_it() {
    _streams 20
    run 0 subscribe g --shared --batch 100 --until-caught-up --exec-lines \
        'while read -r line; do echo "$line" | sed "s/.*\"global_sequence\":\([0-9]*\).*/\1/" >last; echo x >>got
            if [ $(($(wc -l <got) % 4)) = 0 ]; then echo "{\"ack\":$(cat last)}"; fi; done'
    equals "$(lines got)" 20
}

a_coprocess_may_refuse_an_event() {
    _coprocess
    _streams 10
    run 0 subscribe g --shared --until-caught-up --max-retries 1 --retry-delay 50ms \
        --exec-lines 'python3 co.py 4'
    equals "$(grep -c '^s4 4$' seen)" 2
    has err "event 4, try 1: no é"
    run 0 dlq ls
    equals "$(field global_sequence)" 4
    equals "$(field error)" "no é"
}

a_coprocess_that_dies_fails_the_event_that_it_had() {
    _streams 10
    run 0 subscribe g --shared --until-caught-up --max-retries 0 --exec-lines \
        'while read -r line; do case $line in *\"n\":7[,}]*) exit 9 ;; esac
            echo "$line" | sed "s/.*\"global_sequence\":\([0-9]*\).*/{\"ack\":\1}/"; done'
    has err "event 7, try 1: the command ended with exit code 9"
    run 0 dlq ls
    equals "$(field global_sequence)" 7
    run 0 sub show g
    equals "$(field lag)" 0
}

a_coprocess_may_refuse_all_that_it_gets() {
    for n in 1 2 3 4 5 6; do
        "$HOWDAH" append s t.x >/dev/null
    done
    run 0 subscribe g --shared --until-caught-up --max-retries 2 --retry-delay 20ms --exec-lines \
        'while read -r line; do echo "$line" | sed "s/.*\"global_sequence\":\([0-9]*\).*/{\"nack\":\1}/"; done'
    has_not err 'lost'
    run 0 dlq ls
    equals "$(lines out)" 6
}

one_that_dies_has_lost_no_lease() {
    for n in 1 2 3 4 5 6; do
        "$HOWDAH" append s t.x "{\"n\":$n}" >/dev/null
    done
    run 0 subscribe g --shared --until-caught-up --max-retries 1 --retry-delay 20ms --exec-lines \
        'while read -r line; do case $line in *\"n\":3}*) exit 9 ;; esac
            echo "$line" | sed "s/.*\"global_sequence\":\([0-9]*\).*/{\"ack\":\1}/"; done'
    has err 'event 3, try 2: the command ended with exit code 9'
    has_not err 'lost'
}

# Event 1 ends as a dead letter; then 2 and 3 come, and it names 3 and dies before it has answered for 2.
a_nack_answers_for_no_event_before_it() {
    cat >co.py <<'END'
import json, os, sys
tries = 0
for line in sys.stdin:
    number = json.loads(line)["global_sequence"]
    if os.path.exists("died"):
        with open("seen", "a") as seen:
            print(number, file=seen)
        print(json.dumps({"ack": number}), flush=True)
    elif number == 1:
        print('{"nack":1}', flush=True)
        tries += 1
    elif number == 3 and tries == 1:
        print('{"ack":3}', flush=True)
    elif number == 3:
        print('{"nack":3}', flush=True)
        open("died", "w").close()
        sys.exit(3)
END
    for n in 1 2 3; do
        "$HOWDAH" append s t.x >/dev/null
    done
    run 0 subscribe g --shared --until-caught-up --max-retries 1 --retry-delay 20ms --exec-lines 'exec python3 co.py'
    equals "$(tr '\n' ' ' <seen)" "2 3 "
}

a_signal_ends_a_coprocess_as_it_ends_a_command() {
    _coprocess
    _streams 3
    for signal in INT TERM; do
        rm -f seen
        "$HOWDAH" subscribe "g$signal" --shared --exec-lines 'exec python3 co.py' >/dev/null 2>&1 &
        member=$!
        wait_until test -s seen
        wait_lines seen 3
        kill -$signal $member
        case $signal in
        INT) ends $member 130 ;;
        TERM) ends $member 0 ;;
        esac
        run 0 sub wait "g$signal" --timeout 10ms
    done
}

a_member_waits_for_a_server_that_is_away() {
    if on_sqlite; then
        return 0
    fi
    _coprocess
    _streams 200
    "$HOWDAH" subscribe g --shared --batch 1 --concurrency 4 --lease 1s --until-caught-up \
        --exec-lines 'exec python3 co.py' >/dev/null 2>err &
    member=$!
    wait_until test -s seen
    "$HOWDAH_TEST_PG_CTL" stop -m immediate
    sleep 1
    "$HOWDAH_TEST_PG_CTL" start
    ends $member 0
    equals "$(sort -u seen | wc -l)" 200
}

a_line_without_an_end_is_told() {
    _streams 1
    run 0 subscribe g --shared --until-caught-up --max-retries 0 --exec-lines \
        'read -r line; head -c 3000000 /dev/zero | tr "\\0" x; read -r line'
    has err 'event 1, try 1: the command wrote a line of more than 1 MiB'
}

an_answer_that_is_repeated_and_an_empty_line_are_ignored() {
    cat >co.py <<'END'
import json, sys
for line in sys.stdin:
    number = json.loads(line)["global_sequence"]
    with open("seen", "a") as seen:
        print("s", number, file=seen)
    print('\n{"ack":%d}\n \n{"ack":%d}' % (number, number), flush=True)
    if number > 3:
        print('{"ack":%d}' % (number - 3), flush=True)
END
    events 20
    run 0 subscribe g --shared --batch 2 --until-caught-up --exec-lines 'exec python3 co.py'
    _each_once seen 20
    events 1
    run 6 subscribe g --shared --exec-lines 'read -r line; echo "{\"ack\":20}"; read -r line'
    has err 'the command answered for event 20, which it does not have'
}

what_a_coprocess_says_before_it_dies_is_the_error() {
    events 1
    run 0 subscribe g --shared --until-caught-up --max-retries 0 --exec-lines \
        'read -r line; printf "first\nno \033[31mroom\007\n" >&2; exit 9'
    run 0 dlq ls
    has out '"error":"first\nno  [31mroom "'
    run 0 subscribe h --shared --quiet --until-caught-up --max-retries 0 --exec-lines \
        'read -r line; echo quiet >&2; exit 9'
    empty err
    run 0 dlq ls --sub h
    equals "$(field error)" quiet
}

a_second_signal_does_not_wait_for_a_coprocess_and_gives_its_batch_back() {
    _streams 5
    "$HOWDAH" subscribe g --shared --lease 1h --exec-lines \
        'trap "" TERM INT; touch begun; while :; do sleep 1; done' >/dev/null 2>&1 &
    member=$!
    wait_until test -e begun
    begun=$(date +%s)
    kill -TERM $member
    wait_until has_taken_term $member
    kill -TERM $member
    code=0
    wait $member || code=$?
    test $(($(date +%s) - begun)) -lt 8 || fail "it has waited"
    run 0 sub show g
    equals "$(field members)" "[]"
}

an_answer_that_makes_no_sense_ends_it() {
    _streams 1
    run 6 subscribe g --shared --exec-lines 'read -r line; echo hello; read -r line'
    has err 'the command answered with a line that is no JSON object, 5 bytes long'
    run 6 subscribe g --shared --exec-lines 'read -r line; echo "{\"ack\":99}"; read -r line'
    has err 'the command answered for event 99, which it does not have'
    run 6 subscribe g --shared --exec-lines 'read -r line; echo "{\"ok\":1}"; read -r line'
    has err 'a line that has not one of "ack" and "nack"'
    run 0 sub show g
    equals "$(field members)" "[]"
}

# ---- options and looking after it

options_that_make_no_sense_are_told() {
    run 2 subscribe g --concurrency 2
    has err '--concurrency needs --shared'
    run 2 subscribe g --exec-lines cat
    has err '--exec-lines needs --shared'
    run 2 subscribe g --on-fail hold
    has err '--on-fail hold needs --shared'
    run 2 subscribe g --shared --checkpoint sync
    has err '--shared and --checkpoint exclude each other'
    run 2 subscribe g --shared --exec a --exec-lines b
    has err '--exec and --exec-lines exclude each other'
    run 6 subscribe g --shared --key some
    has err 'key'
    run 6 subscribe g --shared --batch 100000
    has err 'batch: must be 1 to 10000, not 100000'
    run 6 subscribe g --batch 1000000
    has err 'batch: must be 1 to 100000, not 1000000'
    run 6 subscribe g --shared --lease 300ms
    has err 'lease: must be 500 to 86400000 ms, not 300 ms'
}

it_is_shared_or_not() {
    _streams 3
    run 0 subscribe g --shared --max 0
    run 0 subscribe g --shared --until-caught-up
    equals "$(lines out)" 3
    run 3 subscribe g
    has err 'the subscription g is shared'
    has err 'howdah sub unshare'
    run 3 subscribe g --shared --pattern 'x.*'
    has err 'is shared with another filter'
    run 0 sub unshare g
    _streams 2
    run 0 subscribe g --until-caught-up
    equals "$(lines out)" 2
    run 0 sub show g
    equals "$(field instance)" null
    run 3 sub unshare g
    has err 'the subscription g is not shared'
    run 4 sub unshare nobody
}

who_is_in_the_way_is_told_with_the_next_step() {
    _streams 3
    "$HOWDAH" subscribe g --exec 'touch begun; while [ ! -e go ]; do sleep 0.05; done' >/dev/null 2>&1 &
    alone=$!
    wait_until test -e begun
    run 3 subscribe g --shared --max 1
    has err 'a process runs the subscription g'
    has err 'stop it first'
    touch go
    kill -TERM $alone
    ends $alone 0
    rm begun go
    "$HOWDAH" subscribe g --shared --exec 'touch begun; while [ ! -e go ]; do sleep 0.05; done' >/dev/null 2>&1 &
    member=$!
    wait_until test -e begun
    run 3 sub unshare g
    has err 'members have batches'
    has err 'stop them, or wait until their leases end'
    touch go
    kill -TERM $member
    ends $member 0
}

a_closed_group_tells_how_often_the_event_failed() {
    _streams 1
    run 1 subscribe g --shared --on-fail closed --max-retries 0 --until-caught-up --exec false
    run 0 sub show g
    has out 'event 1 failed 1 time: '
}

a_reset_counts_before_a_member_comes() {
    _streams 3
    run 0 subscribe g --shared --until-caught-up
    run 0 sub show g
    equals "$(field lag_age_s)" null
    run 0 sub reset g --to 1
    equals "$(field lag)" 2
    field lag_age_s | grep -q '^[0-9][0-9]*[.][0-9][0-9][0-9]$' || fail "lag_age_s"
    equals "$(field instance)" shared
    run 1 sub wait g --timeout 10ms
    run 3 subscribe g --max 1
    has err 'the subscription g is shared'
    run 0 subscribe g --shared --until-caught-up
    equals "$(lines out)" 2
    run 0 sub wait g --timeout 10ms
}

show_lists_members_in_a_terminal_and_as_json() {
    _streams 10
    "$HOWDAH" subscribe g --shared --batch 3 --exec 'touch begun; while [ ! -e go ]; do sleep 0.05; done' \
        >/dev/null 2>&1 &
    member=$!
    wait_until test -e begun
    run 0 sub show g
    has out '"instance":"shared","outstanding":10,"members":[{"member":"'
    has out '"batches":1,"events":2,"oldest_age_s":'
    in_terminal 100 "'$HOWDAH' sub show g"
    has out 'active members  '
    has out 'oldest'
    touch go
    kill -TERM $member
    ends $member 0
}

run_tests "$@"
