#!/bin/sh
# test_harness.sh - the harness itself: a test that fails is seen to fail.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

LIB=$(cd "$(dirname "$0")" && pwd)/lib.sh

setup() {
    :
}

# A script with one test whose body is the argument; the result is the script's.
_script() {
    printf '. "%s"\nsetup() {\n    :\n}\na_test() {\n    %s\n    true\n}\nrun_tests "$@"\n' "$LIB" "$1" >script.sh
    sh script.sh >out 2>err
}

_fails() {
    if _script "$1"; then
        fail "it passed: $1"
    fi
    has out "not ok 1 - a_test"
}

a_good_test_passes() {
    _script 'run 0 --version'
    has out "ok 1 - a_test"
}

a_command_that_fails_in_the_middle_fails_the_test() {
    _fails false
}

a_wrong_exit_code_fails_the_test() {
    _fails 'run 0 nonsense'
    _fails 'run 2 --version'
}

every_assertion_can_fail() {
    _fails 'equals a b'
    _fails 'echo a >out; has out b'
    _fails 'echo a >out; has_not out a'
    _fails 'echo a >out; empty out'
    # shellcheck disable=SC2016
    _fails 'echo $unset_variable'
    _fails 'in_terminal 80 "exit 3"'
}

run_tests "$@"
