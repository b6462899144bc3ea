#!/bin/sh
# test_bind.sh - howdah bind, unbind and bindings, and workers that route.
# shellcheck disable=SC2016,SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# json EXPRESSION [FILE]: of the one object d in the file.
_json() {
    python3 -c 'import json, sys; d = json.loads(open(sys.argv[2]).read()); print(eval(sys.argv[1]))' \
        "$1" "${2:-out}"
}

# The bus of these tests: order.made 1 and 2 of a and b, user.made 3, order.paid 4 of a.
_fill() {
    run 0 append a order.made '{"n":1}' --correlation c-1
    run 0 append b order.made '{"n":2}'
    run 0 append u user.made '{"n":3}'
    run 0 append a order.paid '{"n":4}'
}

# Works until nothing is left; a line for each job that ran is in ./ran.
_work() {
    : >ran
    run 0 work "$1" --exec 'cat >>ran' --until-empty --quiet
}

_sequences() {
    field event_sequence ran | tr '\n' ' '
}

bind_answers_with_the_binding() {
    _fill
    run 0 bind mail 'order.*'
    equals "$(lines out)" 1
    equals "$(_json '" ".join(d)')" \
        "queue pattern key subscriber_id high head lag state owner created_at reason"
    equals "$(_json 'd["queue"], d["pattern"], d["key"], d["subscriber_id"]')" \
        "('mail', 'order.*', 'stream', 'queue:mail:order.*')"
    equals "$(_json 'd["high"], d["head"], d["lag"], d["state"], d["owner"], d["reason"]')" \
        "(0, 4, 4, 'waiting', None, None)"
    _json 'd["created_at"]' | grep -q '^20[0-9-]*T[0-9:.]*Z$' || fail "created_at"
}

work_runs_a_job_for_every_event_that_matches_once() {
    _fill
    run 0 bind mail 'order.*'
    _work mail
    equals "$(_sequences)" "1 2 4 "
    head -n 1 ran >first
    equals "$(_json 'd["type"], d["stream"], d["key"], d["data"], d["correlation_id"]' first)" \
        "('order.made', 'a', 'a', {'n': 1}, 'c-1')"
    run 0 read --stream a --from 1 --to 1
    equals "$(_json 'd["causation_id"]' first)" "$(field id)"
    _work mail
    empty ran
    run 0 append b order.paid
    _work mail
    equals "$(_sequences)" "5 "
    run 0 bindings
    equals "$(_json 'd["high"], d["lag"], d["owner"]')" "(5, 0, None)"
    run 0 queue show mail
    equals "$(_json 'd["pending"], d["processing"], d["scheduled"], d["completed"]')" "(0, 0, 0, 4)"
}

from_says_where_a_new_one_begins() {
    _fill
    run 0 bind b '>' --from beginning
    run 0 bind e '>' --from end
    run 0 bind n '>' --from 3
    run 0 append a last
    _work b
    equals "$(_sequences)" "1 2 3 4 5 "
    _work e
    equals "$(_sequences)" "5 "
    _work n
    equals "$(_sequences)" "4 5 "
    run 6 bind x '>' --from 6
    run 6 bind x '>' --from middle
    has err "from: expected beginning, end, or a sequence, 0 or more; got something else, 6 bytes long"
    run 4 queue show x
}

key_says_what_orders_the_jobs() {
    _fill
    run 0 bind s '>'
    run 0 bind c '>' --key correlation
    run 0 bind n '>' --key none
    _work s
    equals "$(field key ran | tr '\n' ' ')" "a b u a "
    _work c
    equals "$(field key ran | tr '\n' ' ')" "c-1 null null null "
    _work n
    equals "$(field key ran | sort -u)" "null"
    run 6 bind x '>' --key type
}

binding_again_changes_nothing_and_another_key_is_a_conflict() {
    _fill
    run 0 bind mail 'order.*'
    _work mail
    run 0 bind mail 'order.*' --from beginning
    has err "bound before"
    equals "$(_json 'd["high"]')" 4
    run 3 bind mail 'order.*' --key none
    run 0 bindings
    equals "$(lines out)" 1
}

replay_makes_jobs_of_the_same_events_again() {
    _fill
    run 0 bind mail 'order.*'
    _work mail
    run 0 bind mail 'order.*' --replay 1
    equals "$(_json 'd["high"], d["lag"]')" "(1, 3)"
    _work mail
    equals "$(_sequences)" "2 4 "
    run 0 sub reset 'queue:mail:order.*' --to start
    _work mail
    equals "$(_sequences)" "1 2 4 "
    run 4 bind mail 'user.*' --replay 1
    run 6 bind mail 'order.*' --replay 5
    run 2 bind mail 'order.*' --replay 1 --from end
}

unbind_leaves_the_jobs() {
    _fill
    run 0 bind mail 'order.*'
    _work mail
    run 0 bind mail 'user.*'
    run 0 unbind mail 'order.*'
    equals "$(cat out)" '{"queue":"mail","pattern":"order.*","removed":true}'
    run 0 append a order.made
    _work mail
    equals "$(_sequences)" "3 "
    run 0 log mail
    equals "$(lines out)" 4
    run 0 bindings
    equals "$(field pattern)" "user.*"
    run 4 unbind mail 'order.*'
    run 4 unbind nothing 'order.*'
    has err "howdah bindings lists them"
}

bindings_lists_all_or_those_of_a_queue() {
    run 0 bindings
    empty out
    run 0 bind b 'x.*'
    run 0 bind a 'x.*'
    run 0 bind b '>'
    run 0 bindings
    equals "$(field queue | tr '\n' ' ')$(field pattern | tr '\n' ' ')" "a b b x.* > x.* "
    run 0 bindings b
    equals "$(field pattern | tr '\n' ' ')" "> x.* "
    in_terminal 80 "'$HOWDAH' bindings"
    has out "queue"
    has out "stream"
    has_not out '{"'
}

what_is_wrong_is_told() {
    run 6 bind mail 'order..made'
    has err "pattern"
    run 6 bind '' 'order.*'
    has err "queue"
    run 2 bind mail
    run 2 unbind mail
    run 2 bindings a b
    run 0 bindings
    empty out
}

a_worker_that_waits_takes_events_that_come() {
    run 0 bind mail '>'
    : >ran
    "$HOWDAH" work mail --exec 'cat >>ran' --quiet &
    pid=$!
    wait_owned 'queue:mail:>'
    _fill
    wait_lines ran 4
    run 0 bind mail 'late.*'
    run 0 append l late.one
    wait_lines ran 6
    kill $pid
    wait $pid
    equals "$(_sequences | tr ' ' '\n' | sort -n | tr '\n' ' ' | sed 's/^ *//')" "1 2 3 4 5 5 "
    run 0 bindings
    equals "$(field owner | sort -u)" "null"
}

a_worker_that_ends_at_once_gives_its_bindings_up() {
    run 0 bind mail 'order.*'
    for _ in 1 2 3 4 5 6; do
        run 0 work mail --exec true --until-empty --quiet
        empty err
        run 0 bindings
        equals "$(field owner)" "null"
    done
}

run_tests "$@"
