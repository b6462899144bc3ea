/*
 * sparse_read.c - the events of a pattern that matches little, found by the index of types.
 *
 * The index on (type, global_sequence) is jumped through from one type to the next; of each type
 * that the pattern matches, it gives the numbers in order.  The table is not looked at.
 *
 *   I1  Called inside one read transaction: all types are seen as of one moment.  Otherwise an
 *       event of a type that was looked at early could be missing before a later event of a type
 *       that was looked at late.
 *   I2  What is found are the lowest numbers of all matching types together, or (backward) the
 *       highest: a caller that has taken them has missed nothing before the last.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pattern.h"
#include "store/sqlite/sqlite.h"

#define TYPES_MAX 4096 /* distinct types that are looked at; with more the log is walked */

#define NEXT_TYPE_SQL "SELECT type FROM main.howdah_events WHERE type > ?1 ORDER BY type LIMIT 1"
#define OF_TYPE_SQL(direction)                                                                     \
    "SELECT global_sequence FROM main.howdah_events WHERE type = ?1"                               \
    " AND global_sequence BETWEEN ?2 AND ?3 ORDER BY global_sequence" direction " LIMIT ?4"

/* The first want numbers of the range, or the last ones, whose type the pattern matches. */
typedef struct gathering {
    hw_sqlite *store;
    hw_str pattern;
    bool backward;
    int64_t first; /* backward: nothing below it is wanted any more, */
    int64_t last;  /* else nothing above this */
    size_t want;
    int64_t *sequences; /* room for twice as many as wanted */
    size_t n;
    char type[1024]; /* the one that was looked at last */
} gathering;

static int rising(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int falling(const void *a, const void *b)
{
    return rising(b, a);
}

/* I2: sorts, and drops what is not among the first want.  From then on nothing beyond the last of
   them has to be looked for. */
static void cut(gathering *g)
{
    assert(g->n <= 2 * g->want);
    qsort(g->sequences, g->n, sizeof *g->sequences, g->backward ? falling : rising);
    if (g->n < g->want)
        return;
    g->n = g->want;
    if (g->backward)
        g->first = g->sequences[g->want - 1];
    else
        g->last = g->sequences[g->want - 1];
}

/* Of one type, at most want numbers: the sequences have room for those and for what was kept
   before. */
static int gather_type(gathering *g, hw_str type, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = g->backward ? hw_sqlite_stmt(g->store, HW_SLOT_OF_TYPE_BACK, OF_TYPE_SQL(" DESC"),
                                         &stmt, reterr)
                        : hw_sqlite_stmt(g->store, HW_SLOT_OF_TYPE, OF_TYPE_SQL(""), &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, type);
    (void)sqlite3_bind_int64(stmt, 2, g->first);
    (void)sqlite3_bind_int64(stmt, 3, g->last);
    (void)sqlite3_bind_int64(stmt, 4, (int64_t)g->want);
    while ((s = hw_sqlite_step(g->store, stmt, "read", reterr)) == HOWDAH_OK)
        g->sequences[g->n++] = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_clear_bindings(stmt);
    cut(g);
    return s < 0 ? s : HOWDAH_OK;
}

/* The next type after g->type that starts with the prefix.  HOWDAH_END: there is none. */
static int next_type(gathering *g, hw_str prefix, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    hw_str type;
    int s = hw_sqlite_stmt(g->store, HW_SLOT_NEXT_TYPE, NEXT_TYPE_SQL, &stmt, reterr);

    assert(prefix.s);
    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, hw_str_of(g->type));
    s = hw_sqlite_step(g->store, stmt, "read", reterr);
    if (s != HOWDAH_OK)
        return s;
    type = hw_sqlite_borrow(stmt, 0);
    /* A type that the schema does not allow would not fit: give the index up as for too many. */
    if (!type.s || type.len >= sizeof g->type || strlen(type.s) != type.len)
        s = HOWDAH_LIMIT;
    else if (type.len < prefix.len || memcmp(type.s, prefix.s, prefix.len) != 0)
        s = HOWDAH_END;
    else
        memcpy(g->type, type.s, type.len + 1);
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return s;
}

/* HOWDAH_END: too many types; walking the log is cheaper then. */
static int gather(gathering *g, hw_str prefix, howdah_error *reterr)
{
    for (int types = 0; types < TYPES_MAX; types++) {
        int s = next_type(g, prefix, reterr);

        if (s == HOWDAH_END)
            return HOWDAH_OK;
        if (s == HOWDAH_LIMIT)
            return HOWDAH_END;
        if (s >= 0 && hw_pattern_matches(g->pattern, hw_str_of(g->type)))
            s = gather_type(g, hw_str_of(g->type), reterr);
        if (s < 0)
            return s;
    }
    return HOWDAH_END;
}

/* The prefix is empty or ends with a dot, so it is no type itself: the first jump finds the first
   type after it. */
int hw_sqlite_gather(hw_sqlite *store, hw_str pattern, hw_range range, bool backward, size_t want,
                     int64_t *sequences, size_t *ret_n, howdah_error *reterr)
{
    gathering g = {.store = store,
                   .pattern = pattern,
                   .backward = backward,
                   .first = range.first,
                   .last = range.last,
                   .want = want};
    hw_str prefix = hw_pattern_prefix(pattern);
    int s;

    if (!prefix.s || prefix.len >= sizeof g.type)
        return HOWDAH_END;
    g.sequences = sequences;
    memcpy(g.type, prefix.s, prefix.len);
    s = gather(&g, prefix, reterr);
    *ret_n = g.n;
    return s;
}
