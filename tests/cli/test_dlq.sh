#!/bin/sh
# test_dlq.sh - howdah dlq: dead letters.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_json() {
    python3 -c 'import json, sys; d = json.loads(open(sys.argv[2]).read()); print(eval(sys.argv[1]))' \
        "$1" "${2:-out}"
}

# _dead NAME: everything in the log becomes a dead letter of that subscription.
_dead() {
    "$HOWDAH" subscribe "$1" --quiet --max-retries 0 --until-caught-up --exec 'echo "no stock" >&2; exit 1'
}

# _fail QUEUE: every job of it fails.
_fail() {
    "$HOWDAH" work "$1" --quiet --until-empty --exec 'echo "no stock" >&2; exit 1'
}

# _states ARGUMENT...: id and state of what dlq ls gives.
_states() {
    "$HOWDAH" dlq ls "$@" >listed
    python3 -c 'import json; print(" ".join("%(id)d:%(state)s:%(attempts)d:%(redrives)d" % json.loads(l) for l in open("listed")))'
}

# _count QUEUE FIELD
_count() {
    "$HOWDAH" queue show "$1" >queue.json
    field "$2" queue.json
}

a_dead_letter_has_the_fields_of_the_contract_and_the_payload_to_the_dead_letter() {
    "$HOWDAH" append order-1 order.created '{"b": 1.50,
 "a":12345678901234567890}' >position
    _dead mail
    run 0 dlq ls
    equals "$(lines out)" 1
    equals "$(_json '" ".join(d)')" "id source subscriber_id event_id global_sequence stream version type error attempts redrives state reason created_at last_attempt_at resolved_at resolved_by data"
    equals "$(_json 'd["id"], d["source"], d["subscriber_id"], d["global_sequence"], d["stream"], d["version"], d["type"]')" \
        "(1, 'sub', 'mail', 1, 'order-1', 1, 'order.created')"
    equals "$(_json 'd["error"], d["attempts"], d["redrives"], d["state"], d["reason"], d["resolved_at"], d["resolved_by"]')" \
        "('no stock', 1, 0, 'dead', None, None, None)"
    equals "$(field event_id)" "$(field id position)"
    has out '"data":{"b": 1.50,  "a":12345678901234567890}}'
    _json 'd["created_at"]' | grep -q '^20[0-9-]*T[0-9:.]*Z$' || fail "created_at"
    cp out listed
    run 0 dlq show 1
    cmp out listed
}

bytes_are_shown_as_base64() {
    printf 'abc' | "$HOWDAH" append s t - --bytes text/plain >/dev/null
    _dead a
    run 0 dlq show 1
    equals "$(_json 'd["content_type"], d["data_base64"]')" "('text/plain', 'YWJj')"
}

ls_chooses_by_subscription_state_and_number() {
    events 3
    _dead a
    _dead b
    run 0 dlq ls
    equals "$(lines out)" 6
    run 0 dlq ls --sub b
    equals "$(field subscriber_id | sort | uniq -c | tr -s ' ')" " 3 b"
    run 0 dlq ls --limit 2
    equals "$(field id | tr '\n' ' ')" "1 2 "
    run 0 dlq discard 1 2 --reason "a test"
    run 0 dlq ls
    equals "$(field id | tr '\n' ' ')" "3 4 5 6 "
    run 0 dlq ls --all-states
    equals "$(field id | tr '\n' ' ')" "1 2 3 4 5 6 "
    run 0 dlq ls --sub nobody
    empty out
}

discard_resolves_with_a_reason() {
    events 2
    _dead a
    run 0 dlq discard 2 --reason "a test order"
    equals "$(cat out)" '{"marked":1,"state":"discarded"}'
    run 0 dlq show 2
    equals "$(_json 'd["state"], d["reason"]')" "('discarded', 'a test order')"
    [ "$(field resolved_by)" != null ] || fail "nobody resolved it"
    _json 'd["resolved_at"]' | grep -q '^20' || fail "resolved_at"
    equals "$(sub_field a dead_letters)" 1
    run 4 dlq discard 2 --reason again
    has err "1 of the dead letters do not exist, are resolved already, or belong to jobs whose dedup key another job has"
    run 0 dlq show 2
    equals "$(field reason)" "a test order"
}

redrive_is_tried_by_the_next_run_and_success_resolves_it() {
    events 3
    _dead a
    run 0 dlq redrive 1 3 3
    equals "$(cat out)" '{"marked":2,"state":"redrive"}'
    run 0 dlq ls
    equals "$(field state | tr '\n' ' ')" "redrive dead redrive "
    # shellcheck disable=SC2016
    run 0 subscribe a --until-caught-up --exec 'echo "$HOWDAH_SEQUENCE $HOWDAH_ATTEMPT"; [ "$HOWDAH_SEQUENCE" = 1 ]'
    equals "$(tr '\n' ' ' <out)" "1 2 3 2 "
    run 0 dlq ls --all-states
    equals "$(field state | tr '\n' ' ')" "redriven dead dead "
    equals "$(field attempts | tr '\n' ' ')" "2 1 2 "
    equals "$(field redrives | tr '\n' ' ')" "1 0 1 "
    equals "$(sub_field a dead_letters)" 2
}

redrive_all_takes_more_than_a_hundred_at_once() {
    events 250
    _dead a
    _dead b
    run 0 dlq redrive --all --sub a
    equals "$(cat out)" '{"marked":250,"state":"redrive"}'
    run 0 subscribe a --until-caught-up
    equals "$(field global_sequence | sort -n | uniq | wc -l | tr -d ' ')" 250
    equals "$(lines out)" 250
    equals "$(sub_field a dead_letters)" 0
    equals "$(sub_field b dead_letters)" 250
    run 0 dlq redrive --all
    equals "$(cat out)" '{"marked":250,"state":"redrive"}'
    run 0 dlq redrive --all
    equals "$(field state)" redrive
}

wrong_usage_is_refused() {
    events 1
    _dead a
    run 2 dlq
    has err "there are: ls show redrive discard"
    run 2 dlq redriv 1
    has err "did you mean dlq redrive?"
    run 2 dlq show
    run 2 dlq redrive
    has err "say which dead letters: ids, or --all"
    has err "dlq redrive ID... | --all [--sub NAME | --queue NAME]"
    run 2 dlq redrive 1 --all
    run 2 dlq redrive 1 --sub a
    run 2 dlq redrive --sub a
    run 2 dlq redrive --queue a
    run 2 dlq redrive 1 --queue a
    run 2 dlq redrive --all --queue a --sub a
    has err "--sub and --queue exclude each other: a dead letter belongs to one"
    run 2 dlq ls --queue a --sub a
    run 2 dlq discard 1
    has err "dlq discard needs --reason"
    run 2 dlq discard --reason x
    run 2 dlq discard --all --reason x
    has err "say which dead letters: ids, or --all of a queue"
    has err "dlq discard ID... | --all --queue NAME --reason TEXT"
    run 2 dlq discard --queue mail --reason x
    run 2 dlq discard 1 --queue mail --reason x
    run 2 dlq discard --all --queue mail
    run 2 dlq ls --reason x
    run 6 dlq ls --queue ""
    run 4 dlq redrive --all --queue mail
    has err "there is no queue"
    run 6 dlq show x
    run 6 dlq show 0
    run 6 dlq redrive 1 two
    run 6 dlq ls --limit 0
    run 6 dlq discard 1 --reason ""
    run 4 dlq show 9
    has err "there is no dead letter 9"
    run 4 dlq redrive 9
    run 0 dlq show 1
    equals "$(field state)" dead
    run 4 dlq redrive 1 9
    run 0 dlq show 1
    equals "$(field state)" redrive
}

a_terminal_shows_a_table_and_one_dead_letter_whole() {
    "$HOWDAH" append order-1 order.created '{"n":1}' >/dev/null
    _dead mail
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq ls"
    equals "$(head -n 1 out | tr -s ' ')" "id of name seq/job type tries state error"
    grep -q '^ *1  sub  *mail  *1  order.created  *1  dead   no stock$' out || fail "no row"
    python3 -c 'import sys; sys.exit(max(len(l.rstrip("\n")) for l in open("out")) > 80)' || fail "too wide"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq show 1"
    grep -q '^error           no stock$' out || fail "no error"
    grep -q '^data            {"n":1}$' out || fail "no payload"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq redrive 1"
    has out "1 dead letter: redrive"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq ls --sub other"
    has out "no dead letters"
}

a_dead_letter_of_a_job_has_the_fields_of_the_contract_and_what_was_pushed() {
    "$HOWDAH" push mail '{"b": 1.50}' --key k --correlation c-1 --header h=v --max-attempts 1 >/dev/null
    _fail mail
    run 0 dlq ls
    equals "$(lines out)" 1
    equals "$(_json '" ".join(d)')" "id source queue job_id error attempts redrives state reason created_at last_attempt_at resolved_at resolved_by key dedup correlation_id causation_id event_sequence stream type pushed_at data headers"
    equals "$(_json 'd["id"], d["source"], d["queue"], d["job_id"], d["error"], d["attempts"], d["redrives"], d["state"]')" \
        "(1, 'queue', 'mail', 1, 'no stock', 1, 0, 'dead')"
    equals "$(_json 'd["reason"], d["resolved_at"], d["resolved_by"], d["key"], d["dedup"], d["correlation_id"]')" \
        "(None, None, None, 'k', None, 'c-1')"
    equals "$(_json 'd["causation_id"], d["event_sequence"], d["stream"], d["type"]')" "(None, None, None, None)"
    has out '"data":{"b": 1.50},"headers":{"h":"v"}}'
    _json 'd["pushed_at"]' | grep -q '^20[0-9-]*T[0-9:.]*Z$' || fail "pushed_at"
    cp out first
    run 0 dlq show 1
    cmp out first
    printf 'abc' | "$HOWDAH" push mail - --bytes text/plain >/dev/null
    _fail mail
    run 0 dlq show 2
    equals "$(_json 'd["content_type"], d["data_base64"]')" "('text/plain', 'YWJj')"
}

a_dead_letter_of_a_bound_job_tells_its_event() {
    "$HOWDAH" append order-1 order.created '{"n":1}' --correlation c-1 >position
    "$HOWDAH" bind mail 'order.*' >/dev/null
    _fail mail
    run 0 dlq show 1
    equals "$(_json 'd["event_sequence"], d["stream"], d["type"], d["key"], d["correlation_id"], d["data"]')" \
        "(1, 'order-1', 'order.created', 'order-1', 'c-1', {'n': 1})"
    equals "$(field causation_id)" "$(field id position)"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq ls"
    grep -q '^ *1  queue  *mail  *1  order.created  *1  dead   no stock$' out || fail "no row"
}

ls_merges_dead_letters_of_both_by_id_and_chooses_by_queue() {
    "$HOWDAH" push mail >/dev/null
    _fail mail
    events 2
    _dead a
    "$HOWDAH" push other >/dev/null
    _fail other
    "$HOWDAH" push mail >/dev/null
    _fail mail
    run 0 dlq ls
    equals "$(field id | tr '\n' ' ')" "1 2 3 4 5 "
    equals "$(field source | tr '\n' ' ')" "queue sub sub queue queue "
    equals "$(_states --queue mail)" "1:dead:1:0 5:dead:1:0"
    equals "$(_states --sub a)" "2:dead:1:0 3:dead:1:0"
    equals "$(_states --limit 4)" "1:dead:1:0 2:dead:1:0 3:dead:1:0 4:dead:1:0"
    run 0 dlq discard 1 2 --reason "a test"
    equals "$(cat out)" '{"marked":2,"state":"discarded"}'
    equals "$(_states)" "3:dead:1:0 4:dead:1:0 5:dead:1:0"
    equals "$(_states --queue mail --all-states)" "1:discarded:1:0 5:dead:1:0"
    run 0 dlq show 1
    equals "$(field reason)" "a test"
    run 0 dlq ls --queue nobody
    empty out
}

a_redriven_job_runs_again_and_its_dead_letter_follows() {
    "$HOWDAH" push mail '{"n":1}' >/dev/null
    "$HOWDAH" push mail '{"n":2}' >/dev/null
    _fail mail
    run 0 dlq redrive 1 2
    equals "$(cat out)" '{"marked":2,"state":"redrive"}'
    equals "$(_states)" "1:redrive:1:0 2:redrive:1:0"
    equals "$(_count mail pending)" 2
    # shellcheck disable=SC2016
    run 0 work mail --quiet --until-empty --exec 'echo "$HOWDAH_JOB_ID $HOWDAH_ATTEMPT" >>ran; [ "$HOWDAH_JOB_ID" = 1 ]'
    equals "$(sort ran | tr '\n' ' ')" "1 1 2 1 "
    equals "$(_states --all-states)" "1:redriven:2:1 2:dead:2:1"
    equals "$(_count mail dead_letters)" 1
    run 4 dlq redrive 1
    run 0 job retry 2
    equals "$(_states)" "2:redrive:2:1"
    run 0 work mail --quiet --until-empty --exec true
    equals "$(_states --all-states)" "1:redriven:2:1 2:redriven:3:2"
    equals "$(_count mail completed)" 2
}

redrive_all_and_discard_all_of_a_queue_leave_the_others() {
    for q in a a b; do
        "$HOWDAH" push "$q" >/dev/null
        _fail "$q"
    done
    events 1
    _dead s
    run 0 dlq redrive --all --queue a
    equals "$(cat out)" '{"marked":2,"state":"redrive"}'
    equals "$(_states)" "1:redrive:1:0 2:redrive:1:0 3:dead:1:0 4:dead:1:0"
    run 0 dlq discard --all --queue b --reason "a test"
    equals "$(cat out)" '{"marked":1,"state":"discarded"}'
    equals "$(_states)" "1:redrive:1:0 2:redrive:1:0 4:dead:1:0"
    _fail a
    run 0 dlq redrive --all
    equals "$(cat out)" '{"marked":3,"state":"redrive"}'
    equals "$(_states)" "1:redrive:2:1 2:redrive:2:1 4:redrive:1:0"
}

a_discarded_dead_letter_gives_back_the_key_that_its_job_held() {
    "$HOWDAH" queue set mail hold_key=true >/dev/null
    "$HOWDAH" push mail --key k >/dev/null
    "$HOWDAH" push mail --key k >/dev/null
    _fail mail
    equals "$(_count mail scheduled)" 1
    run 0 dlq discard 1 --reason "a test"
    equals "$(_count mail pending)" 1
}

a_job_whose_dedup_key_is_taken_stays_dead() {
    "$HOWDAH" push mail --dedup once >/dev/null
    _fail mail
    "$HOWDAH" push mail --dedup once >/dev/null
    run 4 dlq redrive 1
    has out '{"marked":0,"state":"redrive"}'
    has err "jobs whose dedup key another job has"
    equals "$(_states)" "1:dead:1:0"
}

a_terminal_shows_dead_letters_of_jobs() {
    "$HOWDAH" push mail '{"n":1}' --key k >/dev/null
    _fail mail
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq ls"
    grep -q '^ *1  queue  mail  *1  -  *1  dead   no stock$' out || fail "no row"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq show 1"
    grep -q '^dead letter     1$' out || fail "no id"
    grep -q '^queue           mail$' out || fail "no queue"
    grep -q '^job             1$' out || fail "no job"
    grep -q '^error           no stock$' out || fail "no error"
    grep -q '^key             k$' out || fail "no key"
    grep -q '^data            {"n":1}$' out || fail "no payload"
}

run_tests "$@"
