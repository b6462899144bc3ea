#!/bin/sh
# test_work_lines.sh - howdah work --exec-lines: commands that stay.
# shellcheck disable=SC2016,SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# Answers as the job's data says: {"n":1}, {"error":"why"}, {"final":"why"}, {"die":9}, {"sleep":1}.
_command() {
    cat >command.py <<'END'
import json, os, sys, time
with open("starts", "a") as starts:
    print(os.getpid(), file=starts)
for line in sys.stdin:
    job = json.loads(line)
    data, number = job["data"], job["id"]
    with open("seen", "a") as seen:
        print(number, job["attempts"], file=seen)
    if "die" in data and job["attempts"] == 1:
        sys.exit(data["die"])
    time.sleep(data.get("sleep", 0))
    answer = {"ack": number, "result": data.get("n", "done")}
    if "error" in data and job["attempts"] == 1:
        answer = {"nack": number, "error": data["error"]}
    if "final" in data:
        answer = {"nack": number, "error": data["final"], "final": True}
    print(json.dumps(answer), flush=True)
END
}

_push() {
    for data in "$@"; do
        "$HOWDAH" push q "$data" --quiet >/dev/null
    done
}

one_command_does_many_jobs_and_its_results_are_kept() {
    _command
    _push '{"n":1}' '{"n":{"a":[2]}}' '{"n":"three"}'
    run 0 work q --exec-lines 'python3 command.py' --until-empty
    equals "$(field completed)" 3
    equals "$(lines starts)" 1
    run 0 job show 1
    equals "$(field result)" 1
    run 0 job show 2
    has out '{\"a\": [2]}'
    run 0 job show 3
    equals "$(field result)" three
}

jobs_run_in_as_many_commands_as_concurrency_says() {
    _command
    for _ in 1 2 3 4 5 6 7 8; do
        _push '{"sleep":0.2}'
    done
    run 0 work q --exec-lines 'python3 command.py' --concurrency 4 --until-empty
    equals "$(field completed)" 8
    equals "$(lines starts)" 4
}

a_nack_is_another_try_and_a_final_one_is_a_failure() {
    _command
    "$HOWDAH" queue set q backoff_initial=1ms >/dev/null
    _push '{"error":"not now"}' '{"final":"never"}'
    run 0 work q --exec-lines 'python3 command.py' --until-empty
    equals "$(field completed)" 1
    equals "$(field failed)" 1
    has err 'job 1, attempt 1: not now'
    run 0 job show 2
    equals "$(field error)" never
}

a_command_that_dies_costs_its_job_a_try_and_is_started_again() {
    _command
    "$HOWDAH" queue set q backoff_initial=1ms >/dev/null
    _push '{"die":9}' '{"n":2}'
    run 0 work q --exec-lines 'python3 command.py' --until-empty
    equals "$(field completed)" 2
    equals "$(lines starts)" 2
    has err 'job 1, attempt 1: the command ended with exit code 9'
}

one_that_takes_too_long_is_ended() {
    _command
    "$HOWDAH" queue set q backoff_initial=1ms max_attempts=1 >/dev/null
    _push '{"sleep":60}'
    run 0 work q --exec-lines 'exec python3 command.py' --timeout 200ms --until-empty
    equals "$(field failed)" 1
    has err 'job 1, attempt 1: the command took longer than 200 ms'
}

an_answer_that_makes_no_sense_ends_it() {
    _push '{"n":1}'
    run 6 work q --exec-lines 'read -r line; echo "{\"ack\":99}"; read -r line'
    has err 'the command answered for job 99, which it does not have'
    run 6 work q --exec-lines 'read -r line; echo yes; read -r line'
    has err 'a line that is no JSON object, 3 bytes long'
    run 0 queue show q
    equals "$(field pending)" 1
    run 2 work q --exec-lines a --exec b
    has err '--exec and --exec-lines exclude each other'
    run 2 work q
    has err 'work needs --exec COMMAND or --exec-lines COMMAND'
}

a_signal_lets_the_job_that_runs_finish() {
    _command
    _push '{"sleep":0.5}' '{"n":2}'
    "$HOWDAH" work q --exec-lines 'python3 command.py' >first 2>&1 &
    worker=$!
    wait_until test -s seen
    kill -TERM $worker
    ends $worker 0
    run 0 queue show q
    equals "$(field completed)" 1
    equals "$(field pending)" 1
}

run_tests "$@"
