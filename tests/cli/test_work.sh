#!/bin/sh
# test_work.sh - howdah work: a command for each job.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_json() {
    python3 -c 'import json, sys; d = json.loads(open(sys.argv[2]).read()); print(eval(sys.argv[1]))' \
        "$1" "${2:-out}"
}

_counts() {
    "$HOWDAH" queue show "$1" >queue.json
    _json '" ".join(str(d[k]) for k in ("pending", "processing", "scheduled", "completed", "failed"))' queue.json
}

# _push N: jobs {"n":1} ... {"n":N}.
_push() {
    awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) print "{\"data\":{\"n\":" i "}}" }' |
        "$HOWDAH" push mail --batch --quiet >/dev/null
}

_is_counted() {
    [ "$(_counts mail)" = "$1" ]
}

the_command_gets_the_job_on_stdin_and_in_variables() {
    run 0 push mail '{"to": "ann"}' --key k --header h=v
    # shellcheck disable=SC2016
    run 0 work mail --exec 'cat >job.json; echo "$HOWDAH_JOB_ID $HOWDAH_QUEUE $HOWDAH_ATTEMPT $HOWDAH_MAX_ATTEMPTS" >vars' --until-empty
    equals "$(cat vars)" "1 mail 1 5"
    equals "$(lines job.json)" 1
    equals "$(_json 'd["id"], d["queue"], d["status"], d["attempts"], d["data"], d["key"], d["headers"]' job.json)" \
        "(1, 'mail', 'processing', 1, {'to': 'ann'}, 'k', {'h': 'v'})"
    equals "$(cat out)" '{"queue":"mail","completed":1,"failed":0,"retried":0,"released":0,"lost":0}'
}

stdout_is_the_result_and_stderr_the_error() {
    _push 2
    # shellcheck disable=SC2016
    run 0 work mail --exec 'echo "out $HOWDAH_JOB_ID"; echo first >&2; echo "err $HOWDAH_JOB_ID" >&2; exit $((HOWDAH_JOB_ID - 1))' --until-empty
    run 0 job show 1
    equals "$(_json 'd["status"], d["result"], d["error"]')" "('completed', 'out 1', None)"
    run 0 job show 2
    equals "$(_json 'd["status"], d["result"], d["error"], d["attempts"]')" "('failed', None, 'first\nerr 2', 1)"
    equals "$(_counts mail)" "0 0 0 1 1"
}

a_result_is_kept_up_to_64_kib() {
    run 0 push mail
    run 0 work mail --exec 'head -c 300000 /dev/zero | tr "\0" x' --until-empty
    run 0 job show 1
    equals "$(_json 'len(d["result"])')" 65536
}

exit_code_75_tries_again_up_to_the_last_attempt() {
    run 0 queue set mail backoff_initial=10ms backoff_max=20ms max_attempts=3
    run 0 push mail
    # shellcheck disable=SC2016
    run 0 work mail --exec 'echo "$HOWDAH_ATTEMPT" >>tries; echo busy >&2; exit 75' --until-empty
    equals "$(tr '\n' ' ' <tries)" "1 2 3 "
    equals "$(_json 'd["retried"], d["failed"]')" "(2, 1)"
    run 0 job show 1
    equals "$(_json 'd["status"], d["error"], d["attempts"]')" "('failed', 'busy', 3)"
    rm tries
    run 0 push mail
    # shellcheck disable=SC2016
    run 0 work mail --exec 'echo "$HOWDAH_ATTEMPT" >>tries; exit 75' --until-empty --max-attempts 2
    equals "$(tr '\n' ' ' <tries)" "1 2 "
    rm tries
    run 0 push mail
    # shellcheck disable=SC2016
    run 0 work mail --exec '[ "$HOWDAH_ATTEMPT" = 2 ] || exit 75' --until-empty
    run 0 job show 3
    equals "$(_json 'd["status"], d["attempts"]')" "('completed', 2)"
}

a_command_that_takes_too_long_is_ended_and_its_job_has_failed() {
    run 0 push mail
    run 0 work mail --exec 'sleep 60' --timeout 300ms --until-empty
    run 0 job show 1
    equals "$(_json 'd["status"], d["error"]')" "('failed', 'the command took longer than 300 ms')"
}

what_a_command_has_left_behind_ends_with_it_though_its_shell_went_first() {
    run 0 push mail
    # shellcheck disable=SC2016
    run 0 work mail --timeout 300ms --until-empty --exec \
        'sh -c "trap \"\" TERM; echo \$\$ >stubborn; sleep 60" & trap "exit 1" TERM; wait'
    run 0 job show 1
    equals "$(_json 'd["status"], d["error"]')" "('failed', 'the command took longer than 300 ms')"
    wait_until sh -c "! kill -0 $(cat stubborn) 2>/dev/null"
    # Nor does one that has closed everything stay.
    run 0 push mail
    # shellcheck disable=SC2016
    run 0 work mail --timeout 300ms --until-empty --exec \
        'sh -c "trap \"\" TERM; echo \$\$ >quiet; exec sleep 60" <&- >&- 2>&- & trap "exit 1" TERM; wait'
    wait_until sh -c "! kill -0 $(cat quiet) 2>/dev/null"
}

a_timeout_near_the_largest_number_is_none() {
    run 0 push mail
    run 0 work mail --exec 'sleep 0.2' --timeout 9223372036854775807ms --until-empty
    equals "$(_counts mail)" "0 0 0 1 0"
}

a_failing_job_has_failed_also_where_the_ends_of_children_are_ignored() {
    as_supervised
    run 0 push mail
    run 0 work mail --exec 'exit 7' --until-empty
    run 0 job show 1
    equals "$(_json 'd["status"], d["error"]')" "('failed', 'the command ended with exit code 7')"
}

a_job_that_kills_its_worker_costs_no_other_job_its_life() {
    run 0 queue set mail abandon_after=1s max_attempts=3
    _push 7
    killed=0
    # shellcheck disable=SC2016
    until "$HOWDAH" work mail --concurrency 4 --batch 4 --until-empty --exec \
        '[ "$HOWDAH_JOB_ID" != 3 ] || kill -9 $PPID; sleep 0.2' >out 2>err; do
        killed=$((killed + 1))
        [ "$killed" -lt 10 ] || fail "killed $killed times"
    done
    equals "$killed" 3
    equals "$(_counts mail)" "0 0 0 6 1"
}

a_lease_is_extended_while_the_command_runs() {
    run 0 push mail
    # shellcheck disable=SC2016
    run 0 work mail --exec 'echo "$HOWDAH_ATTEMPT" >>tries; sleep 3' --lease 1200ms --until-empty
    equals "$(cat tries)" 1
    equals "$(field lost)" 0
    equals "$(_counts mail)" "0 0 0 1 0"
}

commands_run_at_once() {
    _push 4
    # Each waits until all four have begun.
    # shellcheck disable=SC2016
    run 0 work mail --exec 'touch begun.$HOWDAH_JOB_ID; until [ $(ls begun.* | wc -l) -eq 4 ]; do sleep 0.05; done' \
        --concurrency 4 --timeout 20s --until-empty
    equals "$(_counts mail)" "0 0 0 4 0"
}

max_leaves_after_so_many() {
    _push 5
    run 0 work mail --exec true --max 2 --batch 5
    equals "$(_counts mail)" "3 0 0 2 0"
}

until_empty_does_not_wait_for_what_is_due_later() {
    run 0 push mail --delay 1h
    run 0 work mail --exec true --until-empty
    equals "$(_counts mail)" "0 0 1 0 0"
    run 0 work nobody --exec true --until-empty
}

a_thousand_jobs_run_once_each() {
    _push 1000
    # shellcheck disable=SC2016
    run 0 work mail --exec 'echo "$HOWDAH_JOB_ID" >>ran' --concurrency 4 --batch 50 --until-empty
    equals "$(lines ran)" 1000
    equals "$(sort -u ran | wc -l | tr -d ' ')" 1000
    equals "$(_counts mail)" "0 0 0 1000 0"
}

sigterm_ends_after_the_command_and_gives_the_rest_back() {
    _push 5
    "$HOWDAH" work mail --exec 'touch begun; sleep 1; echo done' --batch 5 >out 2>err &
    pid=$!
    wait_until test -f begun
    kill -TERM "$pid"
    code=0
    wait "$pid" || code=$?
    equals "$code" 0
    equals "$(_counts mail)" "4 0 0 1 0"
    equals "$(_json 'd["completed"], d["released"]')" "(1, 4)"
    run 0 job show 1
    equals "$(field result)" "done"
    run 0 job show 2
    equals "$(field attempts)" 0
}

a_command_that_does_not_end_is_ended_after_the_drain_and_its_job_given_back() {
    run 0 push mail
    "$HOWDAH" work mail --exec 'touch begun; sleep 60' --drain 300ms >out 2>err &
    pid=$!
    wait_until test -f begun
    kill -TERM "$pid"
    code=0
    wait "$pid" || code=$?
    equals "$code" 0
    equals "$(_counts mail)" "1 0 0 0 0"
    run 0 job show 1
    equals "$(field attempts)" 0
}

a_command_that_ignores_sigterm_is_killed() {
    run 0 push mail
    "$HOWDAH" work mail --exec 'trap "" TERM; touch begun; sleep 60' --drain 0ms >out 2>err &
    pid=$!
    wait_until test -f begun
    kill -TERM "$pid"
    code=0
    wait "$pid" || code=$?
    equals "$code" 0
    equals "$(_counts mail)" "1 0 0 0 0"
}

ctrl_c_is_told_by_the_exit_code() {
    run 0 push mail
    "$HOWDAH" work mail --exec 'touch begun; sleep 0.5' >out 2>err &
    pid=$!
    wait_until test -f begun
    kill -INT "$pid"
    code=0
    wait "$pid" || code=$?
    equals "$code" 130
    equals "$(_counts mail)" "0 0 0 1 0"
}

a_worker_that_was_killed_loses_its_job_to_the_next() {
    run 0 push mail
    "$HOWDAH" work mail --exec 'touch begun; sleep 60' --lease 1s >/dev/null 2>&1 &
    pid=$!
    wait_until test -f begun
    kill -KILL "$pid"
    wait "$pid" || :
    # shellcheck disable=SC2016
    run 0 work mail --exec 'echo "$HOWDAH_ATTEMPT"' --until-empty
    run 0 job show 1
    equals "$(_json 'd["status"], d["attempts"], d["result"]')" "('completed', 2, '2')"
}

a_worker_waits_for_jobs_that_are_pushed_later() {
    "$HOWDAH" work mail --exec true --max 1 >out 2>err &
    pid=$!
    sleep 0.5
    "$HOWDAH" push mail >/dev/null
    code=0
    wait "$pid" || code=$?
    equals "$code" 0
    equals "$(field completed)" 1
}

wrong_usage_is_refused() {
    run 2 work
    run 2 work mail
    has err "work needs --exec COMMAND"
    run 2 work mail --exec ""
    run 2 work mail more --exec true
    run 6 work mail --exec true --concurrency 0
    run 6 work mail --exec true --concurrency 257
    run 6 work mail --exec true --max 0
    run 6 work mail --exec true --lease 5
    run 6 work "" --exec true
}

a_store_that_is_not_there_is_told_and_nothing_is_summed_up() {
    fresh_store
    run 8 work mail --exec true
    empty out
    has err "run: howdah init"
}

a_terminal_shows_a_live_line_and_a_sum() {
    _push 3
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' work mail --exec 'sleep 0.4' --until-empty"
    has out "mail: 3 done, 0 failed, 0 sent back for another try"
    grep -q 'done  0 failed  0 retried  1 running' raw || fail "no live line"
}

run_tests "$@"
