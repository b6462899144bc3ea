#!/bin/sh
# test_pipe.sh - closed pipes, closed descriptors, signals.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_fill() {
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++)
        print "{\"stream\":\"s\",\"type\":\"t\",\"data\":{\"n\":" i ",\"text\":\"some more text to fill a pipe\"}}" }' |
        "$HOWDAH" append --batch --quiet >/dev/null
}

# _piped READER ARGUMENT...: the exit code of the command whose output READER reads.
_piped() {
    reader=$1
    shift
    { code=0; "$HOWDAH" "$@" 2>err || code=$?; echo "$code" >code; } | eval "$reader" >out
    cat code
}

head_is_not_an_error() {
    _fill 5000
    equals "$(_piped 'head -n 2' read)" 0
    equals "$(lines out)" 2
    empty err
    equals "$(_piped 'head -n 1' follow --since 0 --timeout 20s)" 0
    empty err
    equals "$(_piped true read)" 0
    empty err
}

a_follower_whose_reader_has_left_ends_by_itself() {
    _fill 1
    start=$(date +%s)
    equals "$(_piped 'head -n 1' follow --since 0 --timeout 30s)" 0
    [ $(($(date +%s) - start)) -lt 10 ] || fail "it stayed until its timeout"
}

a_closed_stdout_is_an_error_and_harms_no_file() {
    code=0
    "$HOWDAH" append s t >&- 2>err || code=$?
    equals "$code" 1
    has err "cannot write"
    run 0 read
    equals "$(lines out)" 1
    run 0 doctor
}

closed_stdin_and_stderr_harm_nothing() {
    code=0
    "$HOWDAH" append s t - <&- >out 2>err || code=$?
    equals "$code" 1
    "$HOWDAH" append s t '{}' 2>&- >out
    "$HOWDAH" append s t '{}' <&- >out 2>&-
    run 0 read
    equals "$(lines out)" 2
}

a_full_disk_under_stdout_is_an_error() {
    _fill 10
    code=0
    "$HOWDAH" read >/dev/full 2>err || code=$?
    equals "$code" 1
    has err "cannot write"
}

# A follower that has shown what is there and waits; its process is in $pid.
_follow() {
    _fill 1
    : >out
    "$HOWDAH" follow --since 0 >out 2>err &
    pid=$!
    wait_lines out 1
}

ctrl_c_ends_a_follower_with_130_and_no_message() {
    _follow
    kill -INT $pid
    ends $pid 130
    empty err
}

sigterm_ends_it_with_143() {
    _follow
    kill $pid
    ends $pid 143
}

# A server that takes a connection and says nothing; its URL is in $silent.
_silent_server() {
    rm -f came
    : >port
    python3 -c 'import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
came = server.accept()
open("came", "w").close()
time.sleep(600)' >port &
    server=$!
    wait_lines port 1
    silent=postgres://nobody@127.0.0.1:$(cat port)/none
}

sigterm_ends_a_service_with_0_also_before_it_is_connected() {
    for command in "subscribe a" "work mail --exec true"; do
        _silent_server
        # shellcheck disable=SC2086
        "$HOWDAH" $command --store "$silent" >out 2>err &
        pid=$!
        wait_until test -f came
        kill $pid
        ends $pid 0
        empty err
        kill $server
    done
    _silent_server
    "$HOWDAH" follow --store "$silent" >out 2>err &
    pid=$!
    wait_until test -f came
    kill $pid
    ends $pid 143
    kill $server
}

ctrl_c_while_waiting_for_input_stores_nothing() {
    mkfifo in
    "$HOWDAH" append --batch <in >out 2>err &
    pid=$!
    exec 3>in
    echo '{"stream":"s","type":"t"}' >&3
    wait_until catches $pid
    sleep 1 # nothing tells that it has read the line
    kill -INT $pid
    ends $pid 130
    exec 3>&-
    has err "nothing was stored"
    run 0 read
    empty out
}

ctrl_c_in_a_long_read_is_clean() {
    _fill 20000
    mkfifo pipe
    # A reader that does not read: the command waits in write.
    # shellcheck disable=SC2217
    sleep 60 <pipe &
    reader=$!
    "$HOWDAH" read >pipe 2>err &
    pid=$!
    wait_until catches $pid
    sleep 1 # nothing tells that the pipe is full
    kill -INT $pid
    ends $pid 130
    empty err
    kill $reader
}

a_pipe_gets_no_escape_sequences() {
    _fill 3
    for command in read status doctor settings "migrate status" help "read --help"; do
        # shellcheck disable=SC2086
        "$HOWDAH" $command >out 2>err
        if grep -q "$(printf '\033')" out err; then
            fail "$command writes escape sequences into a pipe"
        fi
    done
}

run_tests "$@"
