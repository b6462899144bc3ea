#!/bin/sh
# test_handlers.sh - hostile commands under hostile parents: subscribe and work judge them rightly.
# shellcheck disable=SC2016,SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

GOOD="well forks deaf closeslate"
BAD="fails forksandfails noisy closes signalled"

# A command for each kind of trouble; the kind is the event's type, or in the job's payload.
_write_hostile() {
    cat >hostile <<'END'
#!/bin/sh
kind=${HOWDAH_EVENT_TYPE:-$(sed 's/.*"kind": *"\([a-z]*\)".*/\1/')}
case $kind in
well) exit 0 ;;
forks) sleep 20 & exit 0 ;;
deaf) exec <&-; exit 0 ;;
closeslate) echo some; exec >&- 2>&-; exit 0 ;;
fails) echo "it fails" >&2; exit 7 ;;
forksandfails) sleep 20 & exit 7 ;;
noisy) head -c 3000000 /dev/zero | tr '\0' x >&2; exit 7 ;;
closes) exec <&- >&- 2>&-; exit 7 ;;
signalled) kill -KILL $$ ;;
kills) [ -e spared ] || kill -KILL $PPID; sleep 1 ;;
stubborn) trap '' TERM INT HUP; while :; do sleep 0.1; done ;;
esac
END
    chmod +x hostile
}

# _parent CODE: from here on howdah is started by a program that has run this Python code before.
_parent() {
    cat >parent <<END
#!/usr/bin/env python3
import os, signal, sys
every = [s for s in signal.valid_signals() if s not in (signal.SIGKILL, signal.SIGSTOP)]
$1
os.execv("$HOWDAH", ["howdah"] + sys.argv[1:])
END
    chmod +x parent
    HOWDAH=$PWD/parent
}

_ignoring_all() {
    _parent '
for one in every:
    signal.signal(one, signal.SIG_IGN)'
}

_blocking_all() {
    _parent 'signal.pthread_sigmask(signal.SIG_BLOCK, every)'
}

_ignoring_children() {
    _parent 'signal.signal(signal.SIGCHLD, signal.SIG_IGN)'
}

_dead_types() {
    "$HOWDAH" dlq ls --json | python3 -c '
import json, sys
print(" ".join(sorted(json.loads(line)["type"] for line in sys.stdin)))'
}

_sorted() {
    echo "$@" | tr ' ' '\n' | sort | tr '\n' ' ' | sed 's/ $//'
}

# Every kind once, each in a stream of its own; exactly the bad ones are dead letters.
_subscribe() {
    _write_hostile
    for kind in $GOOD $BAD; do
        "$HOWDAH" append "stream-$kind" "$kind" >/dev/null
    done
    run 0 subscribe s --exec ./hostile --max-retries 0 --until-caught-up --quiet
    equals "$(_dead_types)" "$(_sorted "$BAD")"
    equals "$(sub_field s lag)" 0
    run 0 verify --quiet
}

_states() {
    "$HOWDAH" log q --json --payload | python3 -c '
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    print(job["status"], job["data"]["kind"])' | sort
}

_work() {
    _write_hostile
    for kind in $GOOD $BAD stubborn; do
        "$HOWDAH" push q "{\"kind\": \"$kind\"}" >/dev/null
    done
    run 0 work q --exec ./hostile --until-empty --timeout 1s --concurrency 4 --quiet
    equals "$(_states)" "$(for kind in $GOOD; do echo "completed $kind"; done | sort
for kind in $BAD stubborn; do echo "failed $kind"; done | sort)"
    run 0 verify --quiet
}

subscribe_judges_hostile_commands_rightly() {
    _subscribe
}

subscribe_judges_them_rightly_where_every_signal_is_ignored() {
    _ignoring_all
    _subscribe
}

subscribe_judges_them_rightly_where_every_signal_is_blocked() {
    _blocking_all
    _subscribe
}

subscribe_judges_them_rightly_where_the_ends_of_children_are_ignored() {
    _ignoring_children
    _subscribe
}

work_judges_hostile_commands_rightly() {
    _work
}

work_judges_them_rightly_where_every_signal_is_ignored() {
    _ignoring_all
    _work
}

work_judges_them_rightly_where_every_signal_is_blocked() {
    _blocking_all
    _work
}

work_judges_them_rightly_where_the_ends_of_children_are_ignored() {
    _ignoring_children
    _work
}

# It is a dead letter in the end; the others are handled, and none of them is.
an_event_that_kills_its_subscriber_costs_no_other_event_its_life() {
    _write_hostile
    for kind in well kills well; do
        "$HOWDAH" append "stream-$kind" "$kind" >/dev/null
    done
    for life in 1 2 3 4 5 6 7 8; do
        code=0
        "$HOWDAH" subscribe s --exec 'exec ./hostile' --max-retries 1 --lease 500ms --until-caught-up \
            --quiet >/dev/null 2>&1 || code=$?
        [ "$code" -ne 0 ] || break
    done
    equals "$code" 0
    equals "$(_dead_types)" kills
    equals "$(sub_field s lag)" 0
    [ "$life" -gt 1 ]
}

run_tests "$@"
