H=./build-test/src/cli/howdah; S="$HOWDAH_TEST_PG"; N=$1
$H --store "$S" init --quiet >/dev/null; $H --store "$S" append a t '{}' >/dev/null
$H --store "$S" follow --json --since 0 > /tmp/attack/b.f 2>/tmp/attack/b.ferr & F=$!
$H --store "$S" subscribe s1 --json --checkpoint batched > /tmp/attack/b.s 2>/tmp/attack/b.serr & P=$!
sleep 1
psql -q "$S" -c "INSERT INTO howdah.events (stream, version, type, data) SELECT 'big', g, 't', 'null' FROM generate_series(1,$N) AS g WHERE nextval('howdah.events_global_sequence_seq') IS NOT NULL;"
for i in 1 2 3 4 5; do sleep 2; echo "follow $(wc -l < /tmp/attack/b.f) sub $(wc -l < /tmp/attack/b.s)"; done; gdb -p $P -batch -ex bt 2>/dev/null | grep "^#" | head -12; psql -q "$S" -c "select subscriber_id,high,cardinality(owed),cardinality(still) from howdah.subscriptions"
kill -0 $F && echo "follower lives"; kill -0 $P && echo "subscriber lives"
cat /tmp/attack/b.ferr /tmp/attack/b.serr | grep -v "are missing" | head
kill $F $P
