"""What a member of a group does that knows nothing but the SQL functions, one step at a time."""
from bus import Bus

bus = Bus("groups")
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
serial = 0


def fresh():
    """The name of a group, and the prefix of streams and types, that no other test has."""
    global serial
    serial += 1
    return "g%d" % serial


def append(name, streams, rounds=1):
    """Events of these streams in turn, type NAME.made; returns nothing."""
    bus.sql("SELECT {}.append('%s:' || x.s, '%s.made') FROM (SELECT u.s FROM generate_series(1, %d) AS i,"
            " unnest(ARRAY[%s]) WITH ORDINALITY AS u(s, o) ORDER BY i, u.o) AS x" % (name, name, rounds, ", ".join("'%s'" % s for s in streams)))


def subscribe(name, arguments=""):
    assert bus.one("SELECT {}.subscribe('%s', pattern => '%s.made'%s)" % (name, name, arguments)) == "t"


class Event(tuple):
    """token, attempt, sequence, stream without its prefix, version."""
    token, attempt, sequence, stream, version = (property(lambda self, i=i: self[i]) for i in range(5))


def fetch(name, n=100, session=None, arguments=""):
    rows = (session or bus).sql(
        "SELECT token, attempt, global_sequence, split_part(stream, ':', 2), version"
        " FROM {}.fetch('%s', %d%s)" % (name, n, arguments))
    return [Event((token, int(attempt), int(sequence), stream, int(version)))
            for token, attempt, sequence, stream, version in rows]


def ack(name, token, upto=None, session=None):
    return (session or bus).one("SELECT {}.ack('%s', '%s'%s)" % (name, token, ", %d" % upto if upto else "")) == "t"


def nack(name, event, error="no", after="NULL", session=None):
    return (session or bus).one("SELECT {}.group_nack('%s', '%s', %d, '%s', %s)"
                                % (name, event.token, event.sequence, error, after))


def drain(name, n=100, session=None):
    """All that comes, acked: stream and version, in the order in which it came."""
    got = []
    while True:
        batch = fetch(name, n, session)
        if not batch:
            return got
        got += [(e.stream, e.version) for e in batch]
        assert ack(name, batch[0].token, session=session)


def in_order(got):
    """Each stream from version 1 on, without a gap, each event once; returns how many."""
    seen = {}
    for stream, version in got:
        assert version == seen.get(stream, 0) + 1, (stream, version, seen.get(stream))
        seen[stream] = version
    return len(got)


def expire(name):
    """The leases of all batches that are out end now."""
    bus.sql("UPDATE {}.group_lots SET until = clock_timestamp() - interval '1 second' WHERE taken > 0;"
            "UPDATE {}.group_retries SET until = clock_timestamp() - interval '1 second' WHERE taken > 0")


def holes():
    return int(bus.one("SELECT count(*) FROM {}.group_holes"))


# ---- taking and acking
