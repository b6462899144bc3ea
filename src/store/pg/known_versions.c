/*
 * known_versions.c - versions that this session knows to be stored.
 *
 * That a stream is at version N means two things: N is there, and N + 1 is not.  The unique key
 * decides the second; the first need not be looked up again by a session that has committed N
 * itself or has read it: events do not go away.
 *
 *   I1  Only what is committed is known: nothing of a caller's transaction, and nothing outlives
 *       the connection, for the next server may be one that was promoted without it.
 *   I2  Nothing is known behind a pooler: the connection to it stays whole while the server behind
 *       it is replaced by one that lacks the last versions, and nobody tells us.  A pooler that
 *       looks like the server is noticed when it does not keep our prepared statements.
 *   I3  Streams share the slots, the later one wins: forgetting costs a look-up, never correctness.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "store/pg/pg.h"

#define SLOTS 1024

struct hw_pg_known {
    int64_t version; /* 0: the slot is free */
    size_t len;
    char stream[256];
};

/* I3: one slot for each hash, no chain. */
static struct hw_pg_known *slot_of(hw_pg *pg, hw_str stream)
{
    size_t hash = stream.len;

    assert(pg->known);
    for (size_t i = 0; i < stream.len; i++)
        hash = hash * 31 + (unsigned char)stream.s[i];
    return &pg->known[hash % SLOTS];
}

static bool is_same(const struct hw_pg_known *slot, hw_str stream)
{
    return slot->len == stream.len && memcmp(slot->stream, stream.s, stream.len) == 0;
}

/*
 * I1, I2.  Only the very version counts: a later one known means that the expectation is unmet.
 */
bool hw_pg_is_known(hw_pg *pg, hw_str stream, int64_t version)
{
    const struct hw_pg_known *slot;

    assert(version > 0);
    if (!pg->known || pg->unprepared || stream.len >= sizeof slot->stream)
        return false;
    slot = slot_of(pg, stream);
    return slot->version == version && is_same(slot, stream);
}

/*
 * I1, I2: unprepared stands for a pooler, noticed or not.  An older version does not replace a
 * newer one.
 */
void hw_pg_know(hw_pg *pg, hw_str stream, int64_t version)
{
    struct hw_pg_known *slot;

    if (pg->caller_owned || pg->unprepared || !pg->conn || stream.len >= sizeof slot->stream)
        return;
    if (!pg->known)
        pg->known = hw_calloc(SLOTS, sizeof *pg->known);
    if (!pg->known)
        return; /* then it is looked up */
    slot = slot_of(pg, stream);
    if (is_same(slot, stream) && slot->version > version)
        return;
    slot->version = version;
    slot->len = stream.len;
    memcpy(slot->stream, stream.s, stream.len);
}

void hw_pg_know_nothing(hw_pg *pg)
{
    hw_free(pg->known);
    pg->known = NULL;
}
