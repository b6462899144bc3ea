#!/bin/sh
# cppcheck.sh - cppcheck over library, command and examples.  Exceptions stand in the source, with a
# reason: /* cppcheck-suppress id ; why */.  ctuuninitvar takes every output parameter for an input.
#
#   tools/cppcheck.sh BUILD_DIRECTORY
set -eu

build=$1
cd "$(dirname "$0")/.."
mkdir -p "$build/cppcheck-cache"
exec cppcheck --quiet --enable=warning,performance,portability --error-exitcode=1 --inline-suppr \
    --std=c11 --language=c -D_GNU_SOURCE -D__GNUC__=12 -DHOWDAH_FAULT_POINTS -I include -I src \
    --suppress=missingIncludeSystem --suppress=unmatchedSuppression --suppress=ctuuninitvar \
    --cppcheck-build-dir="$build/cppcheck-cache" -j 2 src examples
