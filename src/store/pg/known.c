/*
 * known.c - versions that this session knows to be stored.
 *
 * That a stream is at version N takes two things: N is there, N + 1 is not.  The second is for the
 * unique key to say; the first need not be looked up again by a session that has committed N itself
 * or has read it: events do not go away.
 *
 *   I1  Only what is committed is known: nothing of a caller's transaction, and nothing outlives
 *       the connection, for the next server may be one that was promoted without it.
 *   I2  Nothing is known behind a pooler: the connection to it stays whole while the server behind
 *       it is replaced by one that lacks the last versions, and nobody tells us.  One that
 *       passes itself off as the server is found out by the statements that it does not keep.
 *   I3  Streams share the slots, the later one wins: forgetting costs a look-up, never correctness.
 */
#include <string.h>

#include "base/mem.h"
#include "store/pg/pg.h"

#define SLOTS 1024

struct hw_pg_known {
    int64_t version; /* 0: the slot is free */
    size_t len;
    char stream[256];
};

static struct hw_pg_known *slot_of(hw_pg *pg, hw_str stream)
{
    size_t hash = stream.len;

    for (size_t i = 0; i < stream.len; i++)
        hash = hash * 31 + (unsigned char)stream.s[i];
    return &pg->known[hash % SLOTS];
}

static bool is_same(const struct hw_pg_known *slot, hw_str stream)
{
    return slot->len == stream.len && memcmp(slot->stream, stream.s, stream.len) == 0;
}

bool hw_pg_is_known(hw_pg *pg, hw_str stream, int64_t version)
{
    const struct hw_pg_known *slot;

    if (!pg->known || pg->unprepared || stream.len >= sizeof slot->stream)
        return false;
    slot = slot_of(pg, stream);
    return slot->version == version && is_same(slot, stream);
}

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
