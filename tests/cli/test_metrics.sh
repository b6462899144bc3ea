#!/bin/sh
# test_metrics.sh - howdah metrics: what it tells, and the file that it leaves.  Its form is checked by
# tests/gateway/test_metrics.py.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# _line FILE TEXT: it has exactly this line.
_line() {
    grep -qxF -e "$2" "$1" || {
        cat "$1"
        fail "no line: $2"
    }
}

it_tells_of_the_log_of_subscriptions_and_of_queues() {
    events 5
    run 0 subscribe mail --max 2 --timeout 20s
    run 0 subscribe broken --max-retries 0 --until-caught-up --exec false
    run 0 push q
    run 0 push q --delay 1h
    run 0 queue pause q
    run 0 metrics
    empty err
    _line out "howdah_up 1"
    _line out "howdah_build_info{version=\"$("$HOWDAH" --version | cut -d' ' -f2)\"} 1"
    _line out "howdah_log_head 5"
    _line out "howdah_log_events 5"
    _line out "howdah_log_open_writers 0"
    _line out "howdah_log_oldest_writer_age_seconds 0.000"
    _line out "howdah_subscriptions 2"
    _line out 'howdah_subscription_lag_events{subscription="mail"} 3'
    _line out 'howdah_subscription_lag_events{subscription="broken"} 0'
    _line out 'howdah_subscription_lag_seconds{subscription="broken"} 0.000'
    _line out 'howdah_subscription_dead_letters{subscription="broken"} 5'
    _line out 'howdah_subscription_state{subscription="mail",state="waiting"} 1'
    _line out 'howdah_subscription_state{subscription="mail",state="halted"} 0'
    _line out 'howdah_visible{part="queues"} 1'
    _line out 'howdah_queue_jobs{queue="q",state="pending"} 1'
    _line out 'howdah_queue_jobs{queue="q",state="scheduled"} 1'
    _line out 'howdah_queue_paused{queue="q"} 1'
    equals "$(grep -c 'EOF' out)" 0
}

openmetrics_has_an_end_and_families_without_endings() {
    run 0 metrics --format openmetrics
    _line out "# TYPE howdah_build info"
    equals "$(tail -n 1 out)" "# EOF"
}

a_terminal_gets_the_same() {
    in_terminal 80 "'$HOWDAH' metrics"
    has out "howdah_up 1"
    has out "# TYPE howdah_log_head gauge"
}

a_file_is_replaced_as_a_whole() {
    (
        umask 022
        run 0 metrics --output now.prom
    )
    empty out
    _line now.prom "howdah_log_head 0"
    equals "$(stat -c %a now.prom)" 644
    # Who reads the old one reads it to its end.
    exec 3<now.prom
    events 3
    run 0 metrics --output now.prom
    _line now.prom "howdah_log_head 3"
    cat <&3 >before
    exec 3<&-
    _line before "howdah_log_head 0"
    equals "$(tail -n 1 before | cut -c1-6)" "# TYPE"
    equals "$(echo now.prom*)" now.prom
    run 0 metrics --format openmetrics --output now.prom
    equals "$(tail -n 1 now.prom)" "# EOF"
}

a_store_that_is_away_is_a_number_too() {
    away=postgres://nobody@127.0.0.1:1/none
    run 0 metrics --output now.prom
    run 5 metrics --store "$away" --set connect_timeout=200ms --output now.prom
    has err "cannot connect"
    _line now.prom "howdah_up 0"
    has_not now.prom howdah_log
    run 5 metrics --store "$away" --set connect_timeout=200ms
    empty out
    run 5 metrics --store "sqlite:$WORK/no/such/folder.db" --output now.prom
    _line now.prom "howdah_up 0"
    run 8 metrics --store "sqlite:$WORK/nothing.db" --output now.prom
    _line now.prom "howdah_up 0"
    run 0 metrics --output now.prom
    _line now.prom "howdah_up 1"
}

a_file_that_cannot_be_written_is_told_and_leaves_nothing() {
    run 1 metrics --output no/such/folder/now.prom
    has err "cannot write no/such/folder/now.prom"
    mkdir folder
    run 1 metrics --output folder
    has err "cannot write folder"
    equals "$(echo folder*)" folder
}

wrong_usage_is_refused_and_touches_no_file() {
    run 2 metrics now
    run 6 metrics --format xml
    run 2 metrics --output
    run 6 metrics --store mysql://localhost/x --output now.prom
    run 6 metrics --set statement_timeout=never --output now.prom
    equals "$(echo now*)" 'now*'
}

run_tests "$@"
