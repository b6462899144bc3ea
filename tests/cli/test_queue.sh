#!/bin/sh
# test_queue.sh - howdah push, queue, job and log.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_json() {
    python3 -c 'import json, sys; d = json.loads(open(sys.argv[2]).read()); print(eval(sys.argv[1]))' \
        "$1" "${2:-out}"
}

# _counts QUEUE: pending processing scheduled completed failed.
_counts() {
    "$HOWDAH" queue show "$1" >queue.json
    _json '" ".join(str(d[k]) for k in ("pending", "processing", "scheduled", "completed", "failed"))' queue.json
}

a_push_answers_with_the_id_and_the_queue() {
    run 0 push mail '{"to":"ann"}'
    equals "$(cat out)" '{"id":1,"queue":"mail"}'
    run 0 push mail
    equals "$(cat out)" '{"id":2,"queue":"mail"}'
    printf '{"to": "bob"}\n' >doc
    "$HOWDAH" push mail - <doc >out
    equals "$(cat out)" '{"id":3,"queue":"mail"}'
    run 0 push mail @doc
    equals "$(field id)" 4
    run 0 job show 3
    has out '"data":{"to": "bob"},"headers":{}}'
    run 0 job show 2
    has out '"data":{},'
    equals "$(_counts mail)" "4 0 0 0 0"
}

every_option_of_a_push_is_kept() {
    run 0 push mail '{"n":1.50}' --priority -5 --key c7 --dedup once --max-attempts 9 --delay 1h \
        --header a=1 --header 'b=x=y' --correlation o7 --causation 0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a
    run 0 job show 1
    equals "$(_json 'd["status"], d["attempts"], d["max_attempts"], d["priority"], d["key"], d["dedup"]')" \
        "('scheduled', 0, 9, -5, 'c7', 'once')"
    equals "$(_json 'd["correlation_id"], d["causation_id"], d["headers"]')" \
        "('o7', '0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a', {'a': '1', 'b': 'x=y'})"
    equals "$(_json '" ".join(d)')" "id queue status attempts max_attempts priority token worker key dedup correlation_id causation_id event_sequence type stream created_at due_at started_at lease_until finished_at position suspect error result data headers"
    run 0 push mail --run-at 2030-01-31T09:30:00+01:00
    run 0 job show 2
    equals "$(field due_at)" 2030-01-31T08:30:00.000000Z
    printf 'abc' | "$HOWDAH" push mail - --bytes text/plain >/dev/null
    run 0 job show 3
    equals "$(_json 'd["content_type"], d["data_base64"]')" "('text/plain', 'YWJj')"
}

a_live_dedup_key_gives_the_job_that_is_there() {
    run 0 push mail --dedup once
    run 0 push mail --dedup once
    equals "$(cat out)" '{"id":1,"queue":"mail","existed":true}'
    equals "$(_counts mail)" "1 0 0 0 0"
}

a_batch_has_a_line_for_each_job() {
    cat >lines <<'END'
{"data":{"n":1}}

{"data":[2],"priority":-1,"key":"k","headers":{"h":"v"},"max_attempts":3}
{"dedup":"once","delay":"1h"}
{"dedup":"once"}
{"data_base64":"YWJj","content_type":"text/plain","run_at":"2030-01-31T08:30:00Z","correlation_id":"c"}
END
    "$HOWDAH" push mail --batch --priority 7 <lines >out 2>err
    equals "$(lines out)" 5
    equals "$(field id | tr '\n' ' ')" "1 2 3 3 5 "
    equals "$(sed -n 4p out)" '{"id":3,"queue":"mail","existed":true}'
    has err "5 jobs, 1 of them existed already"
    run 0 job show 1
    equals "$(_json 'd["priority"], d["data"]')" "(7, {'n': 1})"
    run 0 job show 2
    equals "$(_json 'd["priority"], d["key"], d["headers"], d["max_attempts"], d["data"]')" "(-1, 'k', {'h': 'v'}, 3, [2])"
    run 0 job show 5
    equals "$(_json 'd["data_base64"], d["due_at"], d["correlation_id"]')" "('YWJj', '2030-01-31T08:30:00.000000Z', 'c')"
    equals "$(_counts mail)" "2 0 2 0 0"
}

a_large_batch_is_several_transactions() {
    awk 'BEGIN { for (i = 1; i <= 2500; i++) print "{\"data\":{\"n\":" i "}}" }' >lines
    "$HOWDAH" push mail --batch --quiet <lines >out 2>err
    equals "$(lines out)" 2500
    equals "$(tail -n 1 out)" '{"id":2500,"queue":"mail"}'
    empty err
    { head -n 150 lines && echo '{"data":1,"prioriti":2}'; } >bad
    code=0
    "$HOWDAH" push mail --batch --tx-size 100 <bad >out 2>err || code=$?
    equals "$code" 6
    equals "$(lines out)" 100
    has err "line 151: prioriti: unknown field; the nearest is priority"
    has err "100 jobs are pushed, up to line 100"
    equals "$(_counts mail)" "2600 0 0 0 0"
}

bad_input_is_refused_and_nothing_is_stored() {
    run 6 push mail '{'
    has err "data: not valid JSON"
    run 6 push "" '{}'
    has err "queue: must be 1 to 255 bytes, got 0"
    run 6 push mail --priority 40000
    has err "priority: expected a whole number, -32768 to 32767; got something else, 5 bytes long"
    run 6 push mail --max-attempts -1
    run 6 push mail --delay 5
    has err "delay: expected a duration, like 250ms, 5s or 2m; got something else, 1 bytes long"
    run 6 push mail --run-at tomorrow
    has err "run-at: expected a time, like 2026-01-31T09:30:00Z; got something else, 8 bytes long"
    run 6 push mail --key ""
    run 6 push mail --causation x
    run 2 push mail --delay 1s --run-at 2030-01-31T08:30:00Z
    run 2 push mail --header a
    run 2 push
    run 2 push mail '{}' '{}'
    run 2 push mail --tx-size 5
    run 2 push mail --batch --bytes text/plain
    run 6 push mail @no-such-file
    run 6 push mail '{}' --set payload_bytes_max=1
    for line in '{"data":1' '[]' '{"key":7}' '{"delay":"soon"}' '{"data_base64":"YQ=="}' '{"data_base64":"?","content_type":"a/b"}'; do
        code=0
        printf '%s\n' "$line" | "$HOWDAH" push mail --batch >out 2>err || code=$?
        equals "$code" 6
        has err "line 1"
    done
    run 0 queue ls
    empty out
    run 4 queue show mail
}

show_has_the_fields_of_the_contract() {
    run 0 push mail
    run 0 push mail --delay 1h
    run 0 queue show mail
    equals "$(_json '" ".join(d)')" "queue pending processing scheduled completed failed oldest_age_s paused purged dead_letters created_at settings"
    equals "$(_json 'd["queue"], d["pending"], d["processing"], d["scheduled"], d["completed"], d["failed"], d["paused"]')" \
        "('mail', 1, 0, 1, 0, 0, False)"
    equals "$(_json '0 <= d["oldest_age_s"] < 60')" True
    run 0 push audit --delay 1h
    run 0 queue show audit
    equals "$(field oldest_age_s)" null
    run 0 queue ls
    equals "$(field queue | tr '\n' ' ')" "audit mail "
}

set_changes_a_queue_and_makes_one() {
    run 0 queue set mail max_attempts=9 abandon_after=30s hold_key=true
    equals "$(_json 'd["settings"]["max_attempts"], d["settings"]["abandon_after_ms"], d["settings"]["hold_key"], d["settings"]["backoff_initial_ms"]')" \
        "(9, 30000, True, 1000)"
    run 0 queue set mail backoff_initial=0ms backoff_max=5s backoff_jitter=0 concurrency=2 history=24h
    equals "$(_json 'list(d["settings"].values())')" "[30000, 9, 0, 5000, 0, 2, 86400000, True]"
    run 6 queue set mail max_attemps=3
    has err "the nearest is max_attempts"
    has err "howdah queue --help lists the settings"
    run 6 queue set mail max_attempts=0
    run 6 queue set mail history=30d
    has err "history: 3 bytes given, wanted 0ms (for ever) to 10 years, like 250ms, 5s, 2m or 1h"
    run 2 queue set mail max_attempts
    run 0 queue show mail
    equals "$(_json 'd["settings"]["max_attempts"]')" 9
}

a_paused_queue_is_told_and_goes_on_with_resume() {
    run 4 queue pause mail
    has err "there is no queue mail"
    has err "howdah queue ls lists them"
    run 0 push mail
    run 0 queue pause mail
    equals "$(field paused)" true
    run 1 work mail --exec true --until-empty
    has err "queue mail is paused"
    has err "howdah queue resume mail"
    run 0 queue resume mail
    equals "$(field paused)" false
    run 0 work mail --exec true --until-empty
    equals "$(_counts mail)" "0 0 0 1 0"
}

purge_asks_for_a_yes() {
    run 0 push mail
    run 0 push mail --delay 1h
    run 2 queue purge mail
    has err "queue purge needs --yes"
    run 0 queue purge mail --yes
    equals "$(cat out)" '{"queue":"mail","purged":2}'
    equals "$(_counts mail)" "0 0 0 0 0"
    run 4 queue purge nobody --yes
}

a_job_is_cancelled_and_tried_again() {
    run 0 push mail '{"n":1}'
    run 0 job cancel 1 --reason "a test"
    equals "$(_json 'd["status"], d["error"], d["position"]')" "('failed', 'cancelled: a test', 1)"
    run 3 job cancel 1
    has err "job 1 is over: it has failed"
    has err "only a job that waits can be cancelled"
    run 0 job retry 1
    equals "$(_json 'd["status"], d["attempts"]')" "('pending', 0)"
    run 0 push mail --delay 1h
    run 0 job retry 2
    equals "$(field status)" pending
    run 0 work mail --exec true --until-empty
    run 3 job retry 1
    has err "job 1 is over: it has completed"
    has err "howdah push makes a new one"
    run 3 job cancel 1
    run 4 job show 99
    has err "howdah log QUEUE lists jobs that have ended"
    run 4 job retry 99
    run 6 job show x
    run 2 job show
}

the_log_is_in_the_order_of_ending() {
    for n in 1 2 3 4; do
        run 0 push mail "{\"n\":$n}"
    done
    # shellcheck disable=SC2016
    run 0 work mail --exec 'echo "job $HOWDAH_JOB_ID"; [ "$HOWDAH_JOB_ID" != 3 ]' --until-empty --quiet
    run 0 log mail
    equals "$(field id | tr '\n' ' ')" "1 2 3 4 "
    equals "$(field status | tr '\n' ' ')" "completed completed failed completed "
    equals "$(head -n 1 out | _json 'd["result"], d["attempts"]' /dev/stdin)" "('job 1', 1)"
    has_not out '"data"'
    run 0 log mail --status failed
    equals "$(field id)" 3
    has out '"error":"the command ended with exit code 1"'
    run 0 log mail --status completed --limit 2
    equals "$(field id | tr '\n' ' ')" "1 2 "
    run 0 log mail --backward --limit 1 --payload
    equals "$(_json 'd["id"], d["data"]')" "(4, {'n': 4})"
    run 0 log mail --after "$(field position)"
    empty out
    run 6 log mail --status pending
    run 0 log nobody
    empty out
}

a_terminal_shows_tables_and_sentences() {
    run 0 push mail '{"n":1}'
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' push mail --dedup a"
    has out "mail job 2"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' queue ls"
    equals "$(head -n 1 out | tr -s ' ')" "queue state pending processing scheduled completed failed oldest"
    grep -q '^mail  *open  *2  *0  *0  *0  *0 ' out || fail "no row"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' queue show mail"
    grep -q '^pending         2$' out || fail "no count"
    grep -q '^max_attempts    5$' out || fail "no setting"
    run 0 queue set mail abandon_after=90s history=1500ms
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' queue show mail"
    grep -q '^abandon_after   90s$' out || fail "not as it was set"
    grep -q '^backoff_max     1h$' out || fail "not as it was set"
    grep -q '^history         1500ms$' out || fail "not as it was set"
    grep -q '^concurrency     0 (no limit)$' out || fail "no limit"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' queue pause mail"
    has out "mail is paused; jobs under way continue"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' queue resume mail"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' job show 1"
    grep -q '^data            {"n":1}$' out || fail "no payload"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' job cancel 1"
    has out "job 1 is cancelled"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' log mail"
    equals "$(head -n 1 out | tr -s ' ')" "position job status attempts finished at error or result"
    grep -q '^ *1  *1  failed  *0  .*  cancelled$' out || fail "no row"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' queue purge mail --yes"
    has out "mail: 1 job removed"
}

status_tells_of_queues_without_counting_history() {
    run 0 status
    equals "$(_json 'd["queues"]')" "[]"
    run 0 push mail '{"n":1}'
    run 0 push mail '{"n":2}'
    run 0 push mail --delay 1h
    run 0 push keyed --key k
    run 0 push keyed --key k
    # shellcheck disable=SC2016
    run 0 work mail --exec '[ "$HOWDAH_JOB_ID" != 1 ]' --until-empty --quiet
    run 0 queue pause keyed
    run 0 status
    equals "$(_json '[(q["queue"], q["pending"], q["processing"], q["scheduled"], q["paused"], q["dead_letters"]) for q in d["queues"]]')" \
        "[('keyed', 1, 0, 1, True, 0), ('mail', 0, 0, 1, False, 1)]"
    equals "$(_json '[sorted(q) for q in d["queues"]][0]')" \
        "['dead_letters', 'oldest_age_s', 'paused', 'pending', 'processing', 'queue', 'scheduled']"
    equals "$(_json 'd["queues"][0]["oldest_age_s"] >= 0, d["queues"][1]["oldest_age_s"], d["dead_letters"], d["skips"]')" \
        "(True, None, 1, 0)"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' status"
    grep -q '^dead_letters          1$' out || fail "no sum"
    has out "queue  state   pending  processing  scheduled  dead"
    grep -q '^keyed  paused        1           0          1     0  *[0-9.]* m\{0,1\}s$' out || fail "no row"
    grep -q '^mail   open          0           0          1     1  *-$' out || fail "no row"
}

verify_says_that_all_is_well_and_what_is_not() {
    run 0 verify
    if on_sqlite; then
        equals "$(lines out)" 3
    else
        equals "$(lines out)" 4
        has out '"check":"numbers","message":"the numbers in use reach 0, and the log'
    fi
    run 0 push mail '{"n":1}'
    run 0 push mail '{"n":2}'
    run 0 verify
    equals "$(tail -n 1 out)" '{"severity":"good","check":"log","message":"streams and families are whole","advice":""}'
    has out '{"severity":"good","check":"jobs","message":"each of 2 is in one place","advice":""}'
    if on_sqlite; then
        sql "DELETE FROM howdah_jobs WHERE id = 2"
    else
        sql "DELETE FROM $HOWDAH_SCHEMA.jobs WHERE id = 2"
    fi
    run 1 verify
    has out "queue mail: 1 jobs are nowhere: not ready, not under a lease, not in the history"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' verify || :"
    has out "1 broken, 0 to look at"
    run 2 verify more
}

wrong_usage_is_refused() {
    run 2 queue
    has err "there are: ls show set pause resume purge"
    run 2 queue shw mail
    has err "did you mean queue show?"
    run 2 queue show
    run 2 queue ls --yes
    run 2 job
    run 2 job shw 1
    run 2 log
    run 2 log mail more
    run 6 log mail --limit 0
}

run_tests "$@"
