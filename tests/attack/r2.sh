#!/bin/bash
# one open tx draws 2N numbers, uses every second; another session commits in between
H=./build-test/src/cli/howdah
S="$HOWDAH_TEST_PG"
N=${1:-150000}
$H --store "$S" init >/dev/null
$H --store "$S" append a t '{}' >/dev/null
$H --store "$S" subscribe s1 --json --checkpoint batched > /tmp/attack/r2.out 2>/tmp/attack/r2.err &
P=$!
sleep 1
( echo "BEGIN; INSERT INTO howdah.events (stream, version, type, data) SELECT 'big', g, 't', 'null' FROM generate_series(1,$N) AS g WHERE nextval('howdah.events_global_sequence_seq') IS NOT NULL;"; sleep ${2:-6}; echo "COMMIT;" ; sleep 1) | psql -q "$S" &
Q=$!
sleep 3
$H --store "$S" append a t '{}' >/dev/null
wait $Q
$H --store "$S" append a t '{}' >/dev/null
for i in 1 2 3 4 5 6 7 8 9 10; do sleep 3; wc -l < /tmp/attack/r2.out; done
tail -5 /tmp/attack/r2.err
kill $P; wait $P
psql -q "$S" -c "select subscriber_id, high, cardinality(owed), cardinality(still), status, reason from howdah.subscriptions" -c "select upto, cardinality(holes) from howdah.settled" -c "select count(*) from howdah.events"
