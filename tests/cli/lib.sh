#!/bin/sh
# lib.sh - a tiny harness for tests of the command, in plain POSIX sh.
#
#   HOWDAH              the command under test
#   HOWDAH_TEST_STORE   sqlite (default) or postgresql
#   HOWDAH_TEST_PG      the server's URL, for postgresql
#
# A test is a function of the script whose name is a sentence; helpers start with "_".  A script
# ends with: run_tests "$@".  It prints TAP; "sh test_read.sh NAME..." runs the named tests only.
# Each test runs in a shell of its own with "set -eu" and a directory of its own, after setup().

# The tests are called by name only, and use variables that are set here.
# shellcheck disable=SC2034,SC2317

: "${HOWDAH:?HOWDAH must be the path of the command}"
case $HOWDAH in
/*) ;;
*) HOWDAH=$(pwd)/$HOWDAH ;;
esac

: "${HOWDAH_TEST_STORE:=sqlite}"
unset NO_COLOR COLUMNS LINES HOWDAH_STORE HOWDAH_SCHEMA
LC_ALL=C.UTF-8
TERM=xterm
export HOWDAH LC_ALL TERM

ROOT=$(cd "$(dirname "$0")/../.." && pwd)

# ---------------------------------------------------------------- stores

random_hex() {
    od -An -N8 -tx1 /dev/urandom | tr -d ' \n'
}

# A bus of its own that does not exist yet: in HOWDAH_STORE and HOWDAH_SCHEMA.
fresh_store() {
    if [ "$HOWDAH_TEST_STORE" = postgresql ]; then
        HOWDAH_STORE=${HOWDAH_TEST_PG:?postgresql needs HOWDAH_TEST_PG}
        HOWDAH_SCHEMA=t_$(random_hex)
    else
        HOWDAH_STORE=sqlite:$WORK/$(random_hex).db
        HOWDAH_SCHEMA=howdah
    fi
    export HOWDAH_STORE HOWDAH_SCHEMA
}

# What a script's tests start with; a script may define its own.  A bus is made once a script: a copy of it takes
# a quarter of the time.
setup() {
    if [ -e "$WORK/template" ]; then
        HOWDAH_SCHEMA=$(cat "$WORK/template")
    else
        make_template
    fi
    if on_sqlite; then
        HOWDAH_STORE=sqlite:$WORK/$(random_hex).db
        cp "$WORK/template.db" "${HOWDAH_STORE#sqlite:}"
    else
        HOWDAH_STORE=$(in_database "${HOWDAH_SCHEMA}_copy")
        on_server "DROP DATABASE IF EXISTS ${HOWDAH_SCHEMA}_copy WITH (FORCE)" \
            "CREATE DATABASE ${HOWDAH_SCHEMA}_copy TEMPLATE $HOWDAH_SCHEMA $copy_strategy"
    fi
    export HOWDAH_STORE HOWDAH_SCHEMA
}

# Its schema, and on PostgreSQL its database, has the name that is in $WORK/template.
make_template() {
    fresh_store
    if on_sqlite; then
        HOWDAH_STORE=sqlite:$WORK/template.db
    else
        on_server "CREATE DATABASE $HOWDAH_SCHEMA $copy_strategy"
        HOWDAH_STORE=$(in_database "$HOWDAH_SCHEMA")
    fi
    "$HOWDAH" init --quiet >/dev/null
    echo "$HOWDAH_SCHEMA" >"$WORK/template"
}

drop_template() {
    if [ -e "$WORK/template" ] && ! on_sqlite; then
        name=$(cat "$WORK/template")
        on_server "DROP DATABASE IF EXISTS ${name}_copy WITH (FORCE)" "DROP DATABASE $name WITH (FORCE)"
    fi
}

# 13 and 14 know no other way to copy, and no word for it.
copy_strategy='STRATEGY file_copy'
case ${HOWDAH_TEST_PG_MAJOR:-} in
13 | 14) copy_strategy= ;;
esac

# in_database NAME: the URL of another database of the server.
in_database() {
    echo "$HOWDAH_TEST_PG" | sed "s|/howdah_test?|/$1?|"
}

# on_server STATEMENT...: each in a transaction of its own.
on_server() {
    for statement in "$@"; do
        shift
        set -- "$@" -c "$statement"
    done
    PGOPTIONS='-c client_min_messages=warning' psql -X -q -v ON_ERROR_STOP=1 "$@" "$HOWDAH_TEST_PG" 2>&1
}

on_sqlite() {
    [ "$HOWDAH_TEST_STORE" = sqlite ]
}

# SQL on the store's database itself.
sql() {
    if on_sqlite; then
        sqlite3 "${HOWDAH_STORE#sqlite:}" "$1"
    else
        psql -X -q -At -v ON_ERROR_STOP=1 -c "$1" "$HOWDAH_STORE"
    fi
}

# ---------------------------------------------------------------- running the command

# run CODE ARGUMENT...: runs the command; its exit code must be CODE.  stdout is in ./out, stderr in
# ./err.
run() {
    wanted=$1
    shift
    code=0
    "$HOWDAH" "$@" >out 2>err || code=$?
    if [ "$code" -ne "$wanted" ]; then
        echo "exit code $code instead of $wanted of: howdah $*"
        cat out err
        return 1
    fi
}

# as_supervised: from here on howdah is started as some supervisors do it, with signals that are ignored or
# blocked.
as_supervised() {
    cat >supervised <<END
#!/usr/bin/env python3
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD])
os.execv("$HOWDAH", ["howdah"] + sys.argv[1:])
END
    chmod +x supervised
    HOWDAH=$PWD/supervised
}

# in_terminal COLUMNS COMMAND: runs a shell command in a terminal of that width; what it shows is in
# ./out, without carriage returns.  The result is the command's.
in_terminal() {
    code=0
    script -qec "stty cols $1 rows 24; $2" /dev/null >raw </dev/null || code=$?
    tr -d '\r' <raw >out
    return "$code"
}

# ---------------------------------------------------------------- judging

fail() {
    echo "$*"
    for f in out err; do
        if [ -f "$f" ]; then
            echo "--- $f:"
            head -c 2000 "$f"
        fi
    done
    return 1
}

# equals ACTUAL EXPECTED
equals() {
    [ "$1" = "$2" ] || fail "got:    $1
wanted: $2"
}

# has FILE TEXT: a line of the file contains the text.
has() {
    grep -qF -e "$2" "$1" || fail "$1 does not contain: $2"
}

has_not() {
    if grep -qF -e "$2" "$1"; then
        fail "$1 contains: $2"
    fi
}

empty() {
    if [ -s "$1" ]; then
        fail "$1 is not empty"
    fi
}

# field NAME [FILE]: the value of a scalar member, one line an object, strings without quotes.
field() {
    sed -n 's/.*"'"$1"'":\("\([^"]*\)"\|[^,}]*\).*/\1/p' "${2:-out}" | sed 's/^"\(.*\)"$/\1/'
}

lines() {
    wc -l <"$1" | tr -d ' '
}

# ---------------------------------------------------------------- waiting

# wait_until COMMAND...: runs it until it succeeds, a minute at most.
wait_until() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "still not so: $*"
        sleep 0.05
    done
}

# ends PID CODE: a process of this shell has ended so.  Not in $(...), which would be another shell.
ends() {
    code=0
    wait "$1" || code=$?
    equals "$code" "$2"
}

# catches PID: it has handlers for SIGINT and SIGTERM.
catches() {
    grep -q '^SigCgt:.*[4-7c-f]..[2367abef]$' "/proc/$1/status"
}

# has_taken_term PID: no SIGTERM is on its way to it.
has_taken_term() {
    ! grep -q '^ShdPnd:.*[4-7c-f]...$' "/proc/$1/status"
}

_has_lines() {
    [ "$(lines "$1")" -ge "$2" ]
}

# wait_lines FILE N: until the file has that many lines.
wait_lines() {
    wait_until _has_lines "$1" "$2"
}

# sub_field NAME FIELD: of a subscription as it is stored.
sub_field() {
    "$HOWDAH" sub show "$1" >sub.json 2>/dev/null || :
    field "$2" sub.json
}

_is_owned() {
    "$HOWDAH" sub show "$1" 2>/dev/null | grep -q '"owner":"'
}

# wait_owned NAME: until somebody runs that subscription.
wait_owned() {
    wait_until _is_owned "$1"
}

# events N [TYPE]: appends n events to the stream s, with n in their data.
events() {
    awk -v n="$1" -v type="${2:-t}" 'BEGIN { for (i = 1; i <= n; i++)
        print "{\"stream\":\"s\",\"type\":\"" type "\",\"data\":{\"n\":" i "}}" }' |
        "$HOWDAH" append --batch --quiet >/dev/null
}

# ---------------------------------------------------------------- the end of a script

_names() {
    sed -n 's/^\([a-z][a-z0-9_]*\)() {$/\1/p' "$0" | grep -v '^setup$'
}

_one() {
    mkdir "$WORK/$1"
    cd "$WORK/$1" || exit 1
    (
        set -eu
        setup
        "$1"
    ) >"$WORK/$1.log" 2>&1
}

run_tests() {
    if [ $# -eq 0 ]; then
        # shellcheck disable=SC2046
        set -- $(_names)
    fi
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/howdah-cli.XXXXXX") || exit 1
    trap 'drop_template; rm -rf "$WORK"' EXIT
    trap 'exit 130' INT TERM
    echo "1..$#"
    number=0
    failed=0
    for name in "$@"; do
        number=$((number + 1))
        # Not "if _one": a shell ignores -e inside a condition, and no test could fail.
        _one "$name"
        code=$?
        if [ $code -eq 0 ]; then
            echo "ok $number - $name"
        else
            echo "not ok $number - $name"
            sed 's/^/# /' "$WORK/$name.log"
            failed=$((failed + 1))
        fi
    done
    [ "$failed" -eq 0 ]
}
