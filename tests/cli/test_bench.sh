#!/bin/sh
# test_bench.sh - howdah bench: what it prints, and that it leaves nothing behind.  How fast is not
# asked here: a loaded machine must not fail a test.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# A schema or a role of a bench that is still there, or a file beside the store's own.
_leftovers() {
    if on_sqlite; then
        find "$WORK" -name '*.bench-*'
    else
        sql "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'howdah_bench_')
            UNION ALL SELECT rolname FROM pg_roles WHERE starts_with(rolname, 'howdah_bench_')"
    fi
}

# What a bench leaves that was killed.
_clean_up() {
    if on_sqlite; then
        find "$WORK" -name '*.bench-*' -delete
        return
    fi
    for schema in $(sql "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'howdah_bench_')"); do
        sql "DROP SCHEMA $schema CASCADE" >/dev/null
    done
    for role in $(sql "SELECT rolname FROM pg_roles WHERE starts_with(rolname, 'howdah_bench_')"); do
        sql "DROP OWNED BY $role; DROP ROLE $role" >/dev/null
    done
}

_nothing_is_left() {
    left=$(_leftovers)
    [ -z "$left" ] || fail "left behind: $left"
}

# _positive NAME: the member is a number above 0.
_positive() {
    value=$(field "$1")
    awk -v value="$value" 'BEGIN { exit !(value ~ /^[0-9]+(\.[0-9]+)?$/ && value + 0 > 0) }' ||
        fail "$1 is not a number above 0: $value"
}

_rates() {
    for name in events_per_s ceiling_per_s ratio ratio_min ratio_median ratio_max cpu_s_per_100k; do
        _positive $name
    done
}

append_is_measured_against_plain_inserts() {
    run 0 bench append --ceiling --clients 2 --seconds 0.2 --json
    equals "$(lines out)" 1
    equals "$(field bench)" append
    equals "$(field store)" "$HOWDAH_TEST_STORE"
    equals "$(field clients)/$(field payload)/$(field batch)" 2/200/1
    _rates
    _positive p50_ms
    _positive p99_ms
    empty err
    _nothing_is_left
}

clients_may_share_a_publisher() {
    run 0 bench append --combine 2 --clients 3 --seconds 0.2 --json
    equals "$(field clients)/$(field combine)" 3/2
    _positive events_per_s
    empty err
    _nothing_is_left
    run 2 bench read --combine 1
}

batches_are_measured_against_the_store_s_own_way() {
    run 0 bench append-batch --ceiling --seconds 0.2 --batch 100 --payload 64 --streams 3
    equals "$(field bench)" append-batch
    equals "$(field clients)/$(field payload)/$(field batch)/$(field streams)" 1/64/100/3
    _rates
    _positive p50_ms
    _nothing_is_left
}

reads_are_measured_with_their_memory() {
    run 0 bench read --ceiling --seconds 0.2 --events 20000 --clients 2
    equals "$(field bench)" read
    equals "$(field clients)/$(field events)" 2/20000
    _rates
    field client_memory_mib | grep -Eq '^[0-9]+\.[0-9]$' || fail "no client_memory_mib"
    _nothing_is_left
}

deliveries_are_measured_as_reads_are() {
    run 0 bench deliver --ceiling --seconds 0.2 --events 5000 --clients 2
    equals "$(field bench)" deliver
    equals "$(field store)" "$HOWDAH_TEST_STORE"
    equals "$(field clients)/$(field payload)/$(field events)" 2/200/5000
    _rates
    field client_memory_mib | grep -Eq '^[0-9]+\.[0-9]$' || fail "no client_memory_mib"
    has_not out p50
    has_not out pattern_share
    _nothing_is_left
}

a_filtered_delivery_is_timed_against_that_of_all() {
    run 0 bench deliver --seconds 0.2 --events 3001 --pattern-share 1000 --payload 50
    equals "$(field events)/$(field pattern_share)" 3001/1000
    for name in all_ms exact_ms wildcard_ms exact_speedup wildcard_speedup; do
        _positive $name
    done
    has_not out ceiling
    _nothing_is_left
}

latency_is_measured_against_a_bare_listener() {
    run 0 bench latency --seconds 0.2 --rate 50 --members 2
    equals "$(field members)" 2
    _positive p50_ms
    run 0 bench latency --ceiling --seconds 0.2 --rate 50
    equals "$(field bench)" latency
    equals "$(field clients)/$(field payload)/$(field rate)" 1/200/50
    for name in events_per_s ceiling_per_s p50_ms p99_ms ceiling_p50_ms ceiling_p99_ms p50_ratio \
        p99_ratio p50_ratio_min p50_ratio_median p50_ratio_max; do
        _positive $name
    done
    has_not out '"ratio"'
    _nothing_is_left
}

fanout_is_measured_against_a_bus_without_subscribers() {
    run 0 bench fanout --ceiling --seconds 0.2 --clients 2 --subscriptions 3
    equals "$(field bench)" fanout
    equals "$(field clients)/$(field subscriptions)/$(field streams)/$(field batch)" 2/3/10/1
    _rates
    _positive p50_ms
    _positive rss_mib
    field slowest_ms | grep -Eq '^[0-9]+\.[0-9]$' || fail "no slowest_ms"
    _nothing_is_left
    run 0 bench fanout --seconds 0.2 --clients 1 --subscriptions 1
    run 0 bench fanout --seconds 0.2 --clients 2 --subscriptions 1 --members 2
    equals "$(field subscriptions)/$(field members)" 1/2
    _positive events_per_s
    has_not out ceiling
    has_not out ratio
    _nothing_is_left
}

without_a_ceiling_only_our_side_is_measured() {
    run 0 bench append-batch --seconds 0.2 --batch 10
    _positive events_per_s
    has_not out ceiling
    has_not out ratio
    _nothing_is_left
}

payloads_have_the_length_asked_for() {
    for bytes in 2 39 5000; do
        run 0 bench append-batch --seconds 0.2 --batch 1 --payload $bytes
        equals "$(field payload)" $bytes
    done
    run 6 bench append --payload 1
    run 6 bench append --payload 2MiB
}

the_user_s_own_events_stay_as_they_are() {
    run 0 append mine my.event '{"n":1}'
    run 0 bench append --seconds 0.2 --ceiling
    run 0 append mine my.event '{"n":2}'
    run 0 read
    equals "$(field stream | tr '\n' ' ')" "mine mine "
    equals "$(field global_sequence | tr '\n' ' ')" "1 2 "
}

writers_that_contend_are_shown_with_their_shares() {
    run 0 bench contend --writers 3 --seconds 1 --ceiling
    equals "$(lines out)" 1
    equals "$(field bench)" contend
    equals "$(field store)" "$HOWDAH_TEST_STORE"
    equals "$(field writers)/$(field seconds)/$(field failures)" 3/1/0
    for name in events_per_s alone_per_s ratio share_min share_max p50_ms p99_ms max_ms heard heard_p50_ms heard_p99_ms; do
        _positive $name
    done
    grep -q '"events":\[[0-9]*,[0-9]*,[0-9]*\]' out || fail "not three counts: $(cat out)"
    # What the subscription heard was appended: an event of each is from before, to warm up.
    [ "$(field heard)" -le $(($(sed 's/.*"events":\[\([0-9,]*\)\].*/\1/; s/,/+/g' out) + 3)) ] ||
        fail "more was heard than appended: $(cat out)"
    empty err
    _nothing_is_left
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' bench contend --writers 2 --seconds 1 --quiet"
    has out "contend on $HOWDAH_TEST_STORE: 2 writers, payloads of 200 bytes"
    grep -q '^shares from [0-9.]* to [0-9.]* of an even one' out || fail "no shares"
    grep -q '^an append: p50 [0-9.]* ms, p99 [0-9.]* ms, at most [0-9.]* ms; 0 failed' out || fail "no waits"
}

a_terminal_shows_a_table() {
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' bench append --seconds 0.2 --ceiling --quiet"
    has out "append on $HOWDAH_TEST_STORE: 1 client"
    has out "events/s"
    grep -q '^howdah ' out || fail "no line of ours"
    grep -q '^ceiling ' out || fail "no line of the ceiling"
    grep -q '^ratio [0-9]' out || fail "no ratio"
    has_not out '{'
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' bench latency --seconds 0.2 --ceiling --quiet"
    has out "latency on $HOWDAH_TEST_STORE: 1 client, payloads of 200 bytes, 100 a second"
    grep -q '^ratio of p50 [0-9.]*, of p99 [0-9.]*; p50 of [0-9]* pairs' out || fail "no ratios"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' bench fanout --seconds 0.2 --clients 1 --quiet"
    has out "10 subscriptions"
    grep -q '^memory of the process [0-9]' out || fail "no memory"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' bench deliver --seconds 0.2 --events 100 --pattern-share 10 --quiet"
    has out "a log of 100 events"
    grep -q '^one in 10: by type [0-9.]* ms, by pattern [0-9.]* ms' out || fail "no filtered times"
}

# _interrupt SECONDS ARGUMENT...: Ctrl-C after that time.
_interrupt() {
    seconds=$1
    shift
    "$HOWDAH" bench "$@" >out 2>err &
    pid=$!
    tries=0
    while [ -z "$(_leftovers)" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "the bench does not start"
        sleep 0.05
    done
    sleep "$seconds"
    kill -INT $pid
    code=0
    wait $pid || code=$?
    equals "$code" 130
    empty out
    empty err
    _nothing_is_left
}

an_interrupt_leaves_nothing_behind() {
    _interrupt 0 append --seconds 60 --clients 3 --ceiling
    _interrupt 0.5 append --seconds 60 --clients 3 --ceiling
    _interrupt 0.3 append-batch --seconds 60
    _interrupt 0.3 read --seconds 60 --events 100000000
    _interrupt 0.5 read --seconds 60 --events 5000 --ceiling
    _interrupt 0.5 deliver --seconds 60 --events 5000 --ceiling
    _interrupt 0.3 latency --seconds 60 --ceiling
    _interrupt 0.3 fanout --seconds 60 --clients 3 --ceiling
    _interrupt 0 contend --seconds 60 --writers 3 --ceiling
    _interrupt 0.5 contend --seconds 60 --writers 3
    _interrupt 0 http --of append --seconds 60 --clients 3
    _interrupt 0.5 http --of group --seconds 60 --events 5000 --ceiling
    _interrupt 0.5 http --of idle --seconds 60 --clients 10
}

_has_sessions() {
    [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$1'")" -ge "$2" ]
}

# On PostgreSQL somebody ends the sessions; on SQLite nobody waits for the other, which may go well.
a_failure_leaves_nothing_behind() {
    code=0
    if on_sqlite; then
        "$HOWDAH" bench append --clients 8 --seconds 2 --set busy_timeout=0ms >out 2>err || code=$?
        [ "$code" -eq 0 ] || has err "howdah:"
    else
        name=bench_$(random_hex)
        "$HOWDAH" bench append --clients 2 --seconds 60 --set application_name="$name" >out 2>err &
        pid=$!
        # The bus that watches, and two clients.
        wait_until _has_sessions "$name" 3
        sql "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE application_name = '$name'" >killed
        wait $pid || code=$?
        equals "$code" 5
        has err "howdah: "
        empty out
    fi
    _nothing_is_left
}

a_queue_is_pushed_and_drained() {
    run 0 bench queue --seconds 0.2 --workers 2 --batch 10 --jobs 500
    equals "$(field bench)" queue
    equals "$(field clients)/$(field payload)/$(field jobs)/$(field batch)" 2/200/500/10
    for name in events_per_s cpu_s_per_100k push_per_s push_to_handler_p50_ms push_to_handler_p99_ms; do
        _positive $name
    done
    has_not out ceiling
    has_not out keys
    run 0 bench queue --seconds 0.2 --workers 2 --batch 10 --jobs 200 --keys 5
    equals "$(field keys)" 5
    _positive events_per_s
    _nothing_is_left
}

a_queue_is_measured_against_a_table_and_with_a_snapshot_held() {
    if on_sqlite; then
        run 2 bench queue --ceiling
        has err "needs PostgreSQL"
        run 2 bench queue --pin
        has err "needs PostgreSQL"
        return
    fi
    run 0 bench queue --ceiling --seconds 0.2 --jobs 100 --batch 1
    _rates
    _positive ceiling_push_per_s
    run 0 bench queue --pin --seconds 1 --jobs 1000
    equals "$(field pinned)/$(field workers)/$(field seconds)" true/1/1
    for name in clean_per_s pinned_per_s ratio; do
        _positive $name
    done
    _nothing_is_left
}

what_cannot_be_measured_is_refused() {
    run 2 bench
    run 2 bench nonsense
    has err nonsense
    run 2 bench append read
    run 2 bench append --batch 10
    run 2 bench append --writers 2
    run 2 bench contend --clients 2
    run 6 bench contend --writers 65
    run 2 bench append --events 10
    run 2 bench read --batch 10
    run 2 bench read --streams 10
    run 2 bench latency --clients 2
    run 2 bench latency --streams 2
    run 2 bench latency --events 2
    run 2 bench fanout --rate 10
    run 2 bench fanout --events 10
    run 2 bench deliver --streams 2
    run 2 bench deliver --subscriptions 2
    run 2 bench read --pattern-share 2
    run 2 bench append --subscriptions 2
    run 2 bench append --workers 2
    run 2 bench queue --clients 2
    run 2 bench queue --ceiling --pin
    run 6 bench queue --workers 0
    run 6 bench queue --batch 10001
    run 6 bench latency --rate 0
    run 6 bench fanout --subscriptions 0
    run 6 bench deliver --events 10 --pattern-share 11
    has err pattern-share
    run 6 bench append --streams 0
    run 6 bench append --clients 0
    for seconds in 0 0.0 -1 -0.5 1. .5 1.-5 0.25 1e1 86401 86400.1 99999999999999999999; do
        run 6 bench append --seconds $seconds
        has err 'seconds: expected seconds, 0.1 to 86400; got something else'
    done
    run 6 bench append-batch --batch 100001
    run 6 bench append-batch --batch 100000 --payload 4000
    run 6 bench append --store sqlite::memory:
    run 6 bench append --store nonsense:
    run 5 bench append --store 'postgres://127.0.0.1:1/none'
    _nothing_is_left
}

groups_are_measured_against_connections_that_only_read() {
    ways="members handlers"
    on_sqlite || ways="$ways sql"
    for through in $ways; do
        ceiling=--ceiling
        ! on_sqlite || ceiling=
        # shellcheck disable=SC2086
        run 0 bench group $ceiling --seconds 0.1 --events 3000 --members 2 --batch 100 --through "$through"
        equals "$(field bench)/$(field through)/$(field clients)" "group/$through/2"
        equals "$(field events)/$(field batch)" 3000/100
        _positive events_per_s
        on_sqlite || _rates
        on_sqlite || _positive wal_bytes_per_event
        _nothing_is_left
    done
    run 2 bench group --through nobody
    has err 'through'
    run 2 bench append --through sql
    if on_sqlite; then
        run 2 bench group --through sql
        run 2 bench group --ceiling
        has err 'bench group --ceiling needs PostgreSQL'
        return
    fi
    for against in delete queue; do
        run 0 bench group --ceiling --against $against --seconds 0.1 --events 1000 --members 2 --batch 10
        equals "$(field against)/$(field events)" $against/1000
        _rates
        _nothing_is_left
    done
    run 2 bench group --against delete
    has err 'bench group --against goes with --ceiling'
    run 2 bench group --ceiling --against nobody
    has err '--against: must be read, delete or queue'
    run 0 bench group --pin --seconds 0.3 --events 3000 --members 2 --handler-us 1
    equals "$(field bench)/$(field members)/$(field events)" group/2/3000
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' bench group --seconds 0.1 --events 3000 --quiet"
    has out 'group on postgresql: 8 clients, payloads of 200 bytes, through members, 3000 events, batches of 1,000'
    grep -q '^[0-9.]* bytes of WAL an event' out || fail "no WAL"
}

# The clients of a gateway, and the same work without one.
the_way_over_http_is_measured() {
    run 0 bench http --of append --ceiling --seconds 0.2 --clients 3
    equals "$(lines out)" 1
    equals "$(field bench)/$(field of)/$(field store)" "http/append/$HOWDAH_TEST_STORE"
    equals "$(field clients)/$(field payload)/$(field batch)" 3/200/1
    _rates
    _positive p99_ms
    _positive ceiling_p99_ms
    empty err
    _nothing_is_left
    run 0 bench http --of batch --ceiling --seconds 0.2 --clients 2 --batch 10 --payload 50
    equals "$(field of)/$(field clients)/$(field batch)/$(field payload)" batch/2/10/50
    _rates
    run 0 bench http --of read --ceiling --seconds 0.2 --events 3000
    equals "$(field of)/$(field clients)/$(field events)" read/1/3000
    _rates
    has_not out p50
    run 0 bench http --of group --ceiling --seconds 0.2 --clients 2 --events 1000 --batch 50
    equals "$(field of)/$(field clients)/$(field events)/$(field batch)" group/2/1000/50
    _rates
    has_not out through
    empty err
    _nothing_is_left
}

listeners_are_timed_and_weighed() {
    run 0 bench http --of live --seconds 0.2 --clients 20
    equals "$(field bench)/$(field of)/$(field clients)" http/live/20
    for name in events p50_ms p99_ms max_ms gateway_mib gateway_mib_before seconds; do
        _positive $name
    done
    run 0 bench http --of idle --seconds 0.2 --clients 20
    equals "$(field of)/$(field clients)" idle/20
    _positive gateway_mib
    has_not out events
    empty err
    _nothing_is_left
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' bench http --of live --seconds 0.2 --clients 2 --quiet"
    has out "http live on $HOWDAH_TEST_STORE: 2 clients, payloads of 200 bytes"
    grep -q '^the last one has an event: p50 [0-9.]* ms, p99 [0-9.]* ms' out || fail "no times"
    grep -q '^memory of the gateway [0-9.]* MiB' out || fail "no memory"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' bench http --of group --seconds 0.2 --events 500 --clients 2 --quiet"
    has out "http group on $HOWDAH_TEST_STORE: 2 clients"
    has out "through a gateway, 500 events"
}

http_without_a_choice_measures_all_of_it() {
    run 0 bench http --seconds 0.2 --clients 2 --events 500 --ceiling
    equals "$(field of | tr '\n' ' ')" "append batch read group live idle "
    empty err
    _nothing_is_left
    run 2 bench http --of nothing
    has err '--of: must be append, batch, read, group, live or idle'
    run 2 bench http --of append --batch 10
    run 2 bench http --of batch --events 10
    run 2 bench http --of live --ceiling
    has err 'bench http --of live has no --ceiling'
    run 2 bench http --members 2
    run 6 bench http --of append --clients 513
    run 6 bench http --of idle --clients 20001
    _nothing_is_left
}

# The gateway of a bench that is running: its only child.
_gateway_of() {
    tr -d ' ' <"/proc/$1/task/$1/children"
}

_has_gateway() {
    [ -n "$(_gateway_of "$1")" ]
}

# Or nobody has asked yet how it ended.
_is_gone() {
    ! grep -q '^State:.[^ZX]' "/proc/$1/status" 2>gone.err
}

a_gateway_ends_with_its_bench() {
    "$HOWDAH" bench http --of live --seconds 60 --clients 2 >out 2>err &
    bench=$!
    wait_until _has_gateway $bench
    gateway=$(_gateway_of $bench)
    kill -KILL $bench
    wait_until _is_gone "$gateway"
    _clean_up
    _nothing_is_left
}

asof_measures_what_two_times_cost() {
    run 0 bench asof --of stream --ceiling --seconds 0.2 --events 2000
    equals "$(field bench)" asof
    equals "$(field of)" stream
    equals "$(field events)" 2000
    run 0 bench asof --of type --ceiling --seconds 0.2 --events 2000 --payload 50
    equals "$(field of)" type
    _rates
    run 6 bench asof --events 1500
    run 2 bench asof --of nothing
    if on_sqlite; then
        run 2 bench asof --of append
    else
        run 0 bench asof --of append-valid --ceiling --seconds 0.2
        equals "$(field of)" append-valid
    fi
    _nothing_is_left
}

run_tests "$@"
