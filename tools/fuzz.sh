#!/bin/sh
# fuzz.sh - each fuzz target for some seconds, from the seeds in tests/fuzz/seeds.
#
#   tools/fuzz.sh DIRECTORY SECONDS [CORPUS]
#
# What was found on the way is kept in CORPUS (default: nowhere).  Output: TAP, a line a target.
set -eu

directory=$1
seconds=$2
corpus=${3:-}
root=$(cd "$(dirname "$0")/.." && pwd)
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT

number=0
failed=0
echo "1..3"
for name in bodies texts urls; do
    number=$((number + 1))
    place=${corpus:-$kept}/$name
    mkdir -p "$place"
    dictionary=
    [ ! -f "$root/tests/fuzz/$name.dict" ] || dictionary=-dict=$root/tests/fuzz/$name.dict
    if ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
        "$directory/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096 \
        ${dictionary:+"$dictionary"} -artifact_prefix="$kept/" "$place" "$root/tests/fuzz/seeds/$name" >"$kept/$name.log" 2>&1; then
        echo "ok $number - $name: nothing found in $seconds s"
    else
        echo "not ok $number - $name"
        sed 's/^/# /' "$kept/$name.log" | tail -n 60
        for found in "$kept"/crash-* "$kept"/timeout-* "$kept"/oom-* "$kept"/leak-*; do
            [ ! -f "$found" ] || base64 "$found" | sed 's/^/# /'
        done
        failed=1
    fi
done
exit $failed
