#!/bin/bash
H=./build-test/src/cli/howdah
S="$HOWDAH_TEST_PG"
T=${1:-20}
$H --store "$S" init >/dev/null
cat > /tmp/attack/burn.sql <<E
\set n random(1,40)
BEGIN; SELECT nextval('howdah.events_global_sequence_seq') FROM generate_series(1,1); ROLLBACK;
E
cat > /tmp/attack/one.sql <<E
SELECT nextval('vseq') AS v \gset
BEGIN;
INSERT INTO howdah.events (stream, version, type, data) SELECT 's' || :client_id, 1 + count(*), 't', 'null' FROM howdah.events WHERE stream = 's' || :client_id;
COMMIT;
E
psql -q "$S" -c "CREATE SEQUENCE vseq"
$H --store "$S" append a t '{}' >/dev/null
$H --store "$S" subscribe s1 --json --checkpoint batched > /tmp/attack/r1.out 2>/tmp/attack/r1.err &
P=$!
$H --store "$S" follow --json --since 0 > /tmp/attack/r1.follow 2>/tmp/attack/r1.ferr &
F=$!
sleep 0.5
( echo "BEGIN; INSERT INTO howdah.events (stream, version, type, data) VALUES ('open', 1, 't', 'null'); SELECT pg_sleep($((T+8)));"; echo "COMMIT;" ) | psql -q "$S" >/dev/null &
Q=$!
sleep 2
pgbench -n -f /tmp/attack/burn.sql -c 2 -T $T "$S" > /tmp/attack/burn.log 2>&1 &
B=$!
pgbench -n -f /tmp/attack/one.sql -c 8 -T $T "$S" > /tmp/attack/one.log 2>&1
wait $B
sleep 3
python3 /tmp/attack/check.py "before the open one ended"
wait $Q
sleep 3
psql -qAt "$S" -c "select global_sequence, stream, version from howdah.events order by 1" > /tmp/attack/truth
python3 /tmp/attack/check.py "after" /tmp/attack/truth
kill $P $F; wait $P $F
grep tps /tmp/attack/burn.log /tmp/attack/one.log
grep -v "are missing for\|kept waiting" /tmp/attack/r1.err | head
