/*
 * diff.c - what our knowledge has become between two moments.
 *
 *   I1  A family has changed exactly when a revision of it was recorded after the earlier moment
 *       and by the later one.  The newest of those is what is known at the later moment.
 *   I2  What was known before is asked for page by page, for all families of a page at once; a
 *       first revision has nothing before it.
 */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "bus/log/query.h"
#include "engine/rules.h"

/* Families at a time: one look for what was known before serves them all (I2). */
#define PAGE 256

typedef int (*diff_fn)(void *ctx, howdah_change change, const howdah_event *before,
                       const howdah_event *after);

/*
 * after[i] is what is known at the later moment, before[i] what was known of the same family at
 * the earlier one, NULL: nothing.
 */
typedef struct diff_walk {
    howdah_bus *bus;
    int64_t known_at_us;
    diff_fn fn;
    void *ctx;
    int64_t left; /* changes still wanted */
    bool stop;
    howdah_event *after[PAGE];
    howdah_event *before[PAGE];
    size_t n;
} diff_walk;

const char *howdah_change_name(howdah_change change)
{
    static const char *const names[] = {"added", "corrected", "retracted", "restored"};

    return change >= HOWDAH_CHANGE_ADDED && change <= HOWDAH_CHANGE_RESTORED ? names[change]
                                                                             : "unknown";
}

/* An event that was never corrected is a family of its own, by its id. */
static const hw_uuid *family_of(const howdah_event *event)
{
    return event->has_family ? &event->family : &event->id;
}

/*
 * The revisions that were known before, for the families of the page (I2).  The answer comes in
 * its own order, so each is put beside the change of its family.
 */
static int find_before(diff_walk *w, howdah_error *reterr)
{
    hw_times_query query = HW_TIMES_QUERY_INIT;
    hw_uuid families[PAGE];
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int s;

    query.view = HOWDAH_VIEW_AS_OF;
    query.retractions = true;
    query.unpinned = true; /* each family is asked for once */
    query.known_at = w->known_at_us;
    query.families = families;
    for (size_t i = 0; i < w->n; i++)
        if (w->after[i]->revision > 1)
            families[query.families_n++] = *family_of(w->after[i]);
    assert(query.families_n <= w->n);
    if (query.families_n == 0)
        return HOWDAH_OK;
    s = hw_reader_open_times(w->bus, &query, &reader, reterr);
    while (s == HOWDAH_OK) {
        s = howdah_reader_next(reader, &event, reterr);
        for (size_t i = 0; s == HOWDAH_OK && i < w->n; i++)
            if (hw_uuid_equal(family_of(w->after[i]), family_of(event))) {
                s = hw_event_clone(event, &w->before[i], reterr);
                break;
            }
    }
    howdah_reader_close(reader);
    return s == HOWDAH_END ? HOWDAH_OK : s;
}

/*
 * False: a reader who looks only at the two moments sees no difference, because the event was not
 * there at either (added and retracted in between, or retracted again).
 */
static bool compare(const howdah_event *before, const howdah_event *after,
                    howdah_change *ret_change)
{
    bool was = before && !before->retracts;

    if (after->retracts)
        *ret_change = HOWDAH_CHANGE_RETRACTED;
    else if (was)
        *ret_change = HOWDAH_CHANGE_CORRECTED;
    else
        *ret_change = before ? HOWDAH_CHANGE_RESTORED : HOWDAH_CHANGE_ADDED;
    return was || !after->retracts;
}

/* The limit counts what the caller sees: a family that compare() leaves out does not. */
static void hand_out(diff_walk *w)
{
    assert(w->n <= PAGE);
    for (size_t i = 0; i < w->n && !w->stop && w->left > 0; i++) {
        howdah_change change;

        if (!compare(w->before[i], w->after[i], &change))
            continue;
        w->left--;
        w->stop = w->fn(w->ctx, change, w->before[i], w->after[i]) != 0;
    }
}

/* Copies live for one page only: a diff over years takes no more memory than one over a day. */
static void forget(diff_walk *w)
{
    for (size_t i = 0; i < w->n; i++) {
        hw_event_free(w->after[i]);
        hw_event_free(w->before[i]);
        w->after[i] = w->before[i] = NULL;
    }
    w->n = 0;
}

/*
 * HOWDAH_OK: there may be more; HOWDAH_END: that was all.  What was read before an error is not
 * handed out: the page is incomplete.
 */
static int walk_page(diff_walk *w, howdah_reader *reader, howdah_error *reterr)
{
    const howdah_event *event = NULL;
    int read = HOWDAH_OK;
    int s;

    assert(w->n == 0);
    while (read == HOWDAH_OK && w->n < PAGE) {
        read = howdah_reader_next(reader, &event, reterr);
        if (read == HOWDAH_OK)
            read = hw_event_clone(event, &w->after[w->n], reterr);
        if (read == HOWDAH_OK)
            w->n++;
    }
    s = read < 0 ? read : find_before(w, reterr);
    if (s >= 0)
        hand_out(w);
    forget(w);
    return s < 0 ? s : read;
}

/*
 * The query that finds what was recorded between the moments (I1).  Without "to" it is what is
 * known now, pinned to one moment; with a "to" whose knowledge is final nothing can be added, and
 * the pin is not needed.
 */
static int ask(howdah_bus *bus, const howdah_diff_options *o, hw_query_call *q,
               howdah_error *reterr)
{
    howdah_query_options options = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_knowledge now = HOWDAH_KNOWLEDGE_INIT;
    int s;

    if (o->known_at_us == HOWDAH_NO_TIME)
        return hw_fail_field(reterr, HOWDAH_INVALID, "known_at", "is required");
    if (o->limit < 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "limit", "must be 0 or more");
    if (o->to_us != HOWDAH_NO_TIME && o->to_us < o->known_at_us)
        return hw_fail_field(reterr, HOWDAH_INVALID, "to", "is before known_at");
    s = hw_knowledge_ask(bus, "known_at", o->known_at_us, &now, reterr);
    if (s < 0)
        return s;
    options.view = HOWDAH_VIEW_AS_OF;
    options.stream = o->stream;
    options.type = o->type;
    options.pattern = o->pattern;
    options.recorded_from_us = o->known_at_us + 1;
    s = hw_query_call_make(bus, &options, "howdah_diff", q, reterr);
    if (s >= 0 && o->to_us != HOWDAH_NO_TIME)
        s = hw_knowledge_ask(bus, "to", o->to_us, &q->knowledge, reterr);
    q->query.known_at = o->to_us;
    q->query.unpinned = o->to_us != HOWDAH_NO_TIME && q->knowledge.final;
    q->query.retractions = true;
    return s;
}

/* The caller's function is given copies, which live until it returns. */
int howdah_diff(howdah_bus *bus, const howdah_diff_options *options, diff_fn fn, void *ctx,
                howdah_knowledge *ret_knowledge, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_diff_options own = HOWDAH_DIFF_OPTIONS_INIT;
    diff_walk w = {.fn = fn, .ctx = ctx};
    howdah_reader *reader = NULL;
    hw_query_call q;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_diff", reterr);

    if (s < 0)
        return s;
    if (!options || !fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_diff: an argument is NULL");
    s = hw_times_check(bus, "howdah_diff", reterr);
    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_diff", reterr);
    if (s >= 0)
        s = hw_sized_check(ret_knowledge, "howdah_diff", reterr);
    options = &own;
    if (s >= 0)
        s = ask(bus, options, &q, reterr);
    if (s < 0)
        return s;
    w.bus = bus;
    w.known_at_us = options->known_at_us;
    w.left = options->limit > 0 ? options->limit : INT64_MAX;
    s = hw_reader_open_times(bus, &q.query, &reader, reterr);
    while (s == HOWDAH_OK && !w.stop && w.left > 0)
        s = walk_page(&w, reader, reterr);
    howdah_reader_close(reader);
    if (s < 0)
        return s;
    hw_knowledge_give(&q.knowledge, ret_knowledge);
    return HOWDAH_OK;
}
