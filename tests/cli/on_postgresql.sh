#!/bin/sh
# on_postgresql.sh - runs a test script on PostgreSQL: on the server that is given, else on one of its
# own.
#
#   on_postgresql.sh SCRIPT [NAME...]
set -eu

HOWDAH_TEST_STORE=postgresql
export HOWDAH_TEST_STORE

if [ -n "${HOWDAH_TEST_PG:-}" ]; then
    exec sh "$@"
fi
exec "$(dirname "$0")/../../tools/with-pg" sh "$@"
