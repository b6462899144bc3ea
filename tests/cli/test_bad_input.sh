#!/bin/sh
# test_bad_input.sh - what is refused, by which exit code, and that nothing is stored.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_long() {
    head -c "$1" /dev/zero | tr '\0' 'x'
}

_refused() {
    run 6 append "$@"
}

_nothing_stored() {
    run 0 read
    empty out
}

bad_streams_are_refused() {
    _refused '' a.b
    has err stream
    _refused "$(_long 256)" a.b
    has err 256
    _refused "$(printf 'a\tb')" a.b
    _refused "$(printf 'a\177b')" a.b
    _refused "$(printf 'a\302\205b')" a.b
    _refused "$(printf 'a\377b')" a.b
    _nothing_stored
    run 0 append "$(_long 255)" a.b
}

bad_types_are_refused() {
    for type in '' . a. .a a..b 'a b' 'a/b' 'é' 'a.*' 'a.>' "$(_long 256)"; do
        _refused s "$type"
        has err type
    done
    _refused s "$(awk 'BEGIN { printf "a"; for (i = 1; i < 33; i++) printf ".a" }')"
    _nothing_stored
    run 0 append s "$(awk 'BEGIN { printf "a"; for (i = 1; i < 32; i++) printf ".a" }')"
}

bad_documents_are_refused() {
    for data in '' '{' '{a:1}' "{'a':1}" '[1,]' '{"a":1,}' NaN Infinity -Infinity 01 +1 .5 1. 1e '"' \
        '"\x"' '"\u12"' '"\u0000"' '"\ud800"' '"\udc00\ud800"' 'nul' 'true false' '/**/1' '"a' \
        "$(printf '"a\001b"')" "$(printf '"a\377b"')" "$(printf '\357\273\277{}')"; do
        _refused s a.b -- "$data"
        has err data
    done
    _nothing_stored
}

a_nul_byte_from_stdin_is_refused() {
    code=0
    printf '{"a":"\000"}' | "$HOWDAH" append s a.b - >out 2>err || code=$?
    equals "$code" 6
    _nothing_stored
}

depth_64_passes_and_65_does_not() {
    deep() {
        awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "["; for (i = 0; i < n; i++) printf "]" }'
    }
    run 0 append s a.b "$(deep 64)"
    _refused s a.b "$(deep 65)"
}

of_duplicate_keys_all_are_kept() {
    run 0 append s a.b '{"a":1,"a":2}'
    run 0 read
    has out '"data":{"a":1,"a":2}'
}

a_payload_over_the_limit_is_refused() {
    { printf '"'; _long 1048574; printf '"'; } >fits
    { printf '"'; _long 1048575; printf '"'; } >over
    run 0 append s a.b @fits
    _refused s a.b @over
    has err 1048576
    code=0
    "$HOWDAH" append s a.b - <over >out 2>err || code=$?
    equals "$code" 6
    run 0 append s a.b @over --set payload_bytes_max=2MiB
    run 6 append s a.b '"four"' --set payload_bytes_max=3
}

an_endless_payload_is_refused_before_it_is_read_whole() {
    code=0
    timeout 20 "$HOWDAH" append s a.b - </dev/zero >out 2>err || code=$?
    equals "$code" 6
    code=0
    timeout 20 "$HOWDAH" append --batch </dev/zero >out 2>err || code=$?
    equals "$code" 6
}

bad_ids_times_and_numbers_are_refused() {
    _refused s a.b --id nonsense
    has err id
    _refused s a.b --id 0198a1b2-0000-7000-8000-0000000000a
    _refused s a.b --causation nonsense
    has err causation
    for time in yesterday 2026-13-01T00:00:00Z 2026-02-30T00:00:00Z 2026-01-01 2026-01-01T00:00:00 \
        2026-01-01T25:00:00Z 0000-01-01T00:00:00Z; do
        _refused s a.b --valid-time "$time"
        has err time
    done
    for expect in -1 -2 1.5 9223372036854775808 one ''; do
        _refused s a.b --expect "$expect"
        has err expect
    done
    for version in 0 -1 2147483648 x; do
        _refused s a.b --schema-version "$version"
    done
    _refused s a.b --correlation ''
    _refused s a.b --actor "$(_long 256)"
    _refused s a.b --header "=v"
    _refused s a.b '{}' --bytes nonsense
    run 2 append s a.b --header nonsense
    _nothing_stored
}

bad_positions_are_refused() {
    for n in -1 x 1.5 9223372036854775808 '' ' 1' 0x10; do
        run 6 read --from "$n"
        has err from
        run 6 read --to "$n"
        run 6 read --since "$n"
        run 6 read --limit "$n"
        run 6 follow --since "$n"
    done
    run 6 read --pattern 'a..b'
    run 6 read --pattern 'a*'
    run 6 read --stream ''
    run 6 read --type 'a b'
    run 6 read --id nonsense
}

a_file_that_is_not_there_is_named() {
    _refused s a.b @no-such-file
    has err no-such-file
    _refused s a.b @.
}

an_unknown_setting_names_the_nearest() {
    run 6 read --set read_bach=5
    has err read_batch
    run 6 read --set read_batch=0
    run 6 read --set read_batch=many
    run 2 read --set read_batch
    HOWDAH_READ_BATCH=many run 6 read
    has err HOWDAH_READ_BATCH
}

unknown_options_and_commands_name_the_nearest() {
    run 2 append s a.b --expct 1
    has err "did you mean --expect?"
    run 2 trace --stream s
    has_not err "did you mean"
    run 2 purge --type t
    has_not err "did you mean"
    run 2 red
    has err "did you mean read?"
    run 2 top x
    has err "not in this version"
    run 2 append s a.b --quiet=yes
    run 2 append s a.b --id
    run 2 read -x
    run 2 append s
    run 2 append s a.b '{}' extra
    run 2 --stream a read
}

an_unknown_store_is_refused() {
    run 6 read --store mysql://localhost/x
    run 6 read --store ''
}

a_store_that_cannot_be_reached_exits_5() {
    run 5 read --store postgres://nobody@127.0.0.1:1/none --set connect_timeout=300ms
    run 5 append s a.b --store 'host=127.0.0.1 port=1 user=nobody' --set connect_timeout=300ms
    run 5 init --store sqlite:/nonexistent/directory/x.db
}

passwords_are_never_shown() {
    run 5 read --store 'postgres://u:geheim@127.0.0.1:1/none' --set connect_timeout=300ms
    has_not err geheim
    run 5 read --store 'host=127.0.0.1 port=1 password=geheim' --set connect_timeout=300ms
    has_not err geheim
    run 1 doctor --store 'postgres://u:geheim@127.0.0.1:1/none' --set connect_timeout=300ms
    has_not err geheim
    has_not out geheim
}

a_file_that_is_no_database_is_damaged() {
    if on_sqlite; then
        _long 5000 >no.db
        run 5 read --store sqlite:no.db
        run 5 init --store sqlite:no.db
    fi
}

a_read_only_file_is_refused_for_writing() {
    if on_sqlite && [ "$(id -u)" -ne 0 ]; then
        chmod a-w "${HOWDAH_STORE#sqlite:}"
        run 5 append s a.b
    fi
}

run_tests "$@"
