/*
 * holes.c - which numbers of the log may still appear.
 *
 * A number that is missing below a visible one is a hole: its transaction is open, or it was rolled
 * back.  The holders of the log's sequence tell which (engine/hole_holders.h).  Most holes live for
 * milliseconds: they are in the frontier, and every read of the edge looks into them.  A
 * transaction that stays open makes others of all numbers that it may have drawn: they are put
 * aside, into a set that stands still (engine/still_holes.h), and cost nothing until it ends.
 *
 *   I1  Every number up to the frontier's high, and above "low", is visible, dead, in a hole of the
 *       frontier, or stands still.
 *
 *   I2  What stands still was drawn before the last look, so that only those can fill it whom the
 *       looks know.  When one of them has gone, the numbers that it may have drawn are looked for
 *       at once: those that are visible become holes again, and so are read; the others are dead,
 *       or somebody else may have drawn them.
 *
 *   I3  A stream's later version is appended by somebody who saw the earlier one.  So rows of the
 *       edge that were read while all is open that was open before do not depend on what stands
 *       still; if somebody has gone meanwhile, they are not used, and are read again after I2.  The
 *       same for what a subscription reads that may have been missing before.  Whatever stands
 *       still is not given out by way of any other read, even if it has become visible.
 *
 *   I4  What was proven is written down for those who come later (proven), and is read by them: no
 *       history is proven twice.  Below it nothing has to be looked for but its holes.
 *
 *   I5  A subscription owes what stands still up to its high.  It has the set that it has been
 *       given last; what left the set since then, and is visible, it is told by "late", or by the
 *       store.  A set that is older than the subscription's row can have numbers in it that an
 *       owner before has handled: after a take-over there is a look before the first page.
 *
 *   I6  A bus with a subscription that waits for holes, or skips them by the clock, puts nothing
 *       aside: such a one needs each hole with its age.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "bus/subscription/subscription.h"

#define LOOK_EVERY_MS 20
/* While nothing but what stands still is missing: the transaction that ends it mostly rings. */
#define LOOK_STILL_MS 100
/* On a standby: how often is asked what others have proven. */
#define STANDBY_MS 1000
/* A hole that has lived so long is put aside, with all that have lived for a while: each time the
   whole set is made anew, and stored anew by every subscription.  So are all when there are too
   many. */
#define YOUNG_MS 1000
#define A_WHILE_MS 250
#define YOUNG_MAX 256
/* Writers mostly end within this time; until then a look back at all numbers is put off. */
#define PATIENCE_MS 200
#define PROVE_EVERY_MS 2000
#define PROVE_LEAST 1000 /* numbers that are worth writing it down again */
/* So many ranges of a subscription are asked for one by one; more are found by a walk. */
#define SIFT_BY_ROWS 64

/* -------------------------------------------------------------------- looks */

/* What a statement has told counts only if it came from the log that all else here came from. */
static int still_there(howdah_bus *bus, int told, howdah_error *reterr)
{
    int s = hw_log_reader_check_session(bus, reterr);

    return s < 0 ? s : told;
}

/* Asks who holds the sequence, and how many numbers were drawn.  HOWDAH_END when this server
   cannot tell: it is a standby. */
static int look(howdah_bus *bus, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    hw_holder *seen = NULL;
    int64_t drawn = 0;
    size_t n = 0;
    int s = hw_sub_ops_of(bus)->holders(bus->store, &drawn, &seen, &n, reterr);

    reader->standby = s == HOWDAH_END;
    if (s >= 0)
        s = still_there(bus, s, reterr);
    if (s == HOWDAH_OK)
        s = hw_holders_look(&reader->holders, drawn, seen, n, reterr);
    hw_free(seen);
    reader->look_ms = hw_clock_mono_ms();
    return s;
}

/* A new set with a new version.  Pages and subscriptions share sets and tell them apart by
   version, so no version is used twice, not even for "none". */
static int make_still(hw_log_reader *reader, hw_ranges *ranges, howdah_error *reterr)
{
    hw_still *still = NULL;
    int s = ranges->n > 0 ? hw_still_new(ranges, ++reader->versions, &still, reterr) : HOWDAH_OK;

    if (s < 0)
        return s;
    if (!still) /* that there is none is a version as well */
        reader->versions++;
    assert(!still || still->version == reader->versions);
    hw_still_drop(reader->still);
    reader->still = still;
    return HOWDAH_OK;
}

/* ----------------------------------------------------- what became of them */

typedef struct gap_walk {
    hw_ranges *out;
    int status;
    howdah_error *reterr;
} gap_walk;

static int on_gap(void *ctx, hw_range range)
{
    gap_walk *w = ctx;

    w->status = hw_ranges_add(w->out, range.first, range.last, w->reterr);
    return w->status < 0;
}

/* Of first..last, the numbers without a row, added to out. */
static int find_gaps(howdah_bus *bus, hw_range range, hw_ranges *out, howdah_error *reterr)
{
    gap_walk w = {out, HOWDAH_OK, reterr};
    int s = hw_sub_ops_of(bus)->gaps(bus->store, range.first, range.last, on_gap, &w, reterr);

    if (s >= 0)
        s = still_there(bus, s, reterr);
    return s < 0 ? s : w.status;
}

/* Splits numbers that were missing by what the store has now. */
static int look_for(howdah_bus *bus, const hw_ranges *numbers, hw_ranges *ret_visible,
                    hw_ranges *ret_missing, howdah_error *reterr)
{
    hw_ranges gaps = HW_RANGES_INIT;
    int s = HOWDAH_OK;

    if (numbers->n > 0) /* one walk from the first to the last */
        s = find_gaps(bus, (hw_range){numbers->items[0].first, numbers->items[numbers->n - 1].last},
                      &gaps, reterr);
    if (s >= 0)
        s = hw_ranges_subtract(ret_visible, numbers, &gaps, reterr);
    if (s >= 0)
        s = hw_ranges_intersect(ret_missing, numbers, &gaps, reterr);
    hw_ranges_done(&gaps);
    return s;
}

/* Visible numbers become holes of the frontier: the next read of the edge brings their rows. */
static int wake(hw_log_reader *reader, const hw_ranges *visible, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < visible->n; i++)
        s = hw_frontier_add(&reader->frontier, visible->items[i].first, visible->items[i].last, now,
                            reterr);
    return s;
}

/* Scratch sets of one calculation.  They are freed together, so that no path forgets one. */
typedef struct sets {
    hw_ranges touched;
    hw_ranges visible;
    hw_ranges missing;
    hw_ranges alive;
    hw_ranges rest;
    hw_ranges still;
} sets;

static void sets_done(sets *s)
{
    hw_ranges_done(&s->touched);
    hw_ranges_done(&s->visible);
    hw_ranges_done(&s->missing);
    hw_ranges_done(&s->alive);
    hw_ranges_done(&s->rest);
    hw_ranges_done(&s->still);
}

/* I2: somebody has gone who may have drawn numbers that stand still. */
static int free_still(howdah_bus *bus, sets *x, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    const hw_ranges *still = hw_still_ranges(reader->still);
    int s;

    assert(x->touched.n > 0); /* else there is nothing to look for */
    s = look_for(bus, &x->touched, &x->visible, &x->missing, reterr);
    if (s >= 0)
        s = hw_ranges_intersect(&x->alive, &x->missing, &reader->holders.alive, reterr);
    if (s >= 0)
        s = hw_ranges_subtract(&x->rest, still, &x->touched, reterr);
    if (s >= 0)
        s = hw_ranges_unite(&x->still, &x->rest, &x->alive, reterr);
    if (s >= 0)
        s = wake(reader, &x->visible, reterr);
    if (s >= 0)
        s = make_still(reader, &x->still, reterr);
    if (s >= 0)
        hw_late_note(&reader->late, reader->versions, &x->visible);
    return s;
}

/* After a look; *ret_touched: there was something to be looked for. */
static int heed_look(howdah_bus *bus, bool *ret_touched, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    sets x = {0};
    int s = hw_ranges_intersect(&x.touched, hw_still_ranges(reader->still), &reader->holders.freed,
                                reterr);

    *ret_touched = s >= 0 && x.touched.n > 0;
    if (*ret_touched)
        s = free_still(bus, &x, reterr);
    sets_done(&x);
    return s;
}

/*
 * After a look, and after each walk over numbers: a walk takes several statements, and a
 * transaction that ends meanwhile may show one of its numbers to it and not the other.
 * *ret_freed: there was something.
 */
static int heed_freed(howdah_bus *bus, bool *ret_freed, howdah_error *reterr)
{
    bool touched = true;
    int s = heed_look(bus, &touched, reterr);

    *ret_freed = s >= 0 && touched;
    while (s == HOWDAH_OK && touched) {
        s = look(bus, reterr);
        if (s == HOWDAH_OK)
            s = heed_look(bus, &touched, reterr);
    }
    if (s < 0) /* the look has told who has gone, and will not tell it again: start anew */
        hw_log_reader_reset(bus);
    return s;
}

/* Soon while holes of the frontier keep subscriptions waiting; less often for what stands still,
   because a writer that ends usually rings. */
int64_t hw_holes_next_ms(const hw_log_reader *reader)
{
    if (!reader->started || (reader->frontier.holes_n == 0 && !reader->still))
        return INT64_MAX;
    if (reader->standby)
        return reader->look_ms + STANDBY_MS;
    return reader->look_ms + (reader->frontier.holes_n > 0 ? LOOK_EVERY_MS : LOOK_STILL_MS);
}

int64_t hw_holes_first_still(const hw_log_reader *reader, int64_t above)
{
    const hw_ranges *still = hw_still_ranges(reader->still);
    size_t i = hw_ranges_find(still, above + 1);

    if (i == still->n)
        return INT64_MAX;
    return still->items[i].first > above ? still->items[i].first : above + 1;
}

/* On a standby only what was proven on its primary, and has come here, is known. */
static int ask_proven(howdah_bus *bus, hw_ranges *ret_alive, howdah_error *reterr)
{
    int64_t upto = 0;
    int s = hw_sub_ops_of(bus)->proven(bus->store, &upto, ret_alive, reterr);

    bus->service->reader.look_ms = hw_clock_mono_ms();
    if (s >= 0)
        s = still_there(bus, s, reterr);
    if (s >= 0)
        s = hw_ranges_add(ret_alive, upto + 1, INT64_MAX, reterr);
    return s;
}

/* A look that followed the rows of the round before (I3) comes before those of the next. */
static bool is_news(const hw_log_reader *reader)
{
    return !reader->standby && reader->frontier.holes_n > 0 &&
           reader->holders.looks != reader->judged_by;
}

/*
 * The evidence of a round.  It has to be older than the rows: somebody who is gone by now, and
 * whose numbers the rows do not show, has rolled back.  *ret_alive: the numbers that may still
 * appear.
 */
int hw_holes_look(howdah_bus *bus, bool *ret_looked, hw_ranges *ret_alive, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    bool freed = false;
    int s = HOWDAH_OK;

    *ret_looked = false;
    if (hw_clock_mono_ms() >= hw_holes_next_ms(reader)) {
        s = look(bus, reterr);
        if (s == HOWDAH_END)
            s = ask_proven(bus, ret_alive, reterr);
        else if (s == HOWDAH_OK)
            s = heed_freed(bus, &freed, reterr);
    } else if (!is_news(reader)) {
        return HOWDAH_OK;
    }
    if (s == HOWDAH_OK && !reader->standby) {
        s = hw_ranges_copy(ret_alive, &reader->holders.alive, reterr);
        reader->judged_by = reader->holders.looks;
    }
    reader->drawn_before = reader->holders.drawn;
    *ret_looked = s == HOWDAH_OK;
    return s < 0 ? s : HOWDAH_OK;
}

/* I5: a subscription that was just taken over must not get numbers as "still missing" that the
   owner before it has handled. */
int hw_holes_refresh(howdah_bus *bus, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    bool freed = false;
    int s;

    if (!reader->still || reader->standby)
        return HOWDAH_OK;
    s = look(bus, reterr);
    return s == HOWDAH_OK ? heed_freed(bus, &freed, reterr) : s;
}

/* I3: rows are sound if nobody ended between the look before them and this one who may have drawn
   numbers that stand still.  The numbers of those who did end are noted in freed_from. */
int hw_holes_confirm(howdah_bus *bus, bool *ret_sound, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    bool freed = false;
    int s = HOWDAH_OK;

    reader->freed_from = INT64_MAX;
    if (reader->still) {
        s = look(bus, reterr);
        if (s == HOWDAH_OK)
            s = heed_freed(bus, &freed, reterr);
        if (s == HOWDAH_OK && reader->holders.freed.n > 0)
            reader->freed_from = reader->holders.freed.items[0].first;
    }
    *ret_sound = !freed && !(reader->still && reader->holders.unsure);
    return s < 0 ? s : HOWDAH_OK;
}

/* I6: strict order waits for each hole, and gap_policy=timeout needs the age of each. */
static bool needs_every_hole(const howdah_bus *bus)
{
    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (sub->options.ordering == HOWDAH_ORDERING_STRICT ||
            sub->options.gap_policy == HOWDAH_GAP_TIMEOUT)
            return true;
    }
    return false;
}

static bool has_lived(const hw_hole *hole, int64_t ms)
{
    return hw_clock_mono_ms() - hole->since_ms >= ms;
}

/* Making a new set is dear, so it waits for a hole that is worth it; younger ones then go with
   it. */
static bool has_old_hole(const hw_frontier *f)
{
    for (size_t i = 0; i < f->holes_n; i++) {
        if (has_lived(&f->holes[i], YOUNG_MS))
            return true;
    }
    return false;
}

/*
 * The highest number up to which holes are to be put aside; 0: none.  Not those whose holder has
 * gone since the rows were read that lack them: they may be visible by now (I2).  Nor those that
 * were drawn after the look before these rows: the transaction that drew them can have ended
 * unseen.  Nor those that the rows did not get to.
 */
static int64_t put_aside_upto(const hw_log_reader *reader)
{
    const hw_frontier *f = &reader->frontier;
    bool many = f->holes_n > YOUNG_MAX;
    int64_t most =
        reader->drawn_before < reader->freed_from ? reader->drawn_before : reader->freed_from - 1;
    int64_t upto = 0;

    if (!many && !has_old_hole(f))
        return 0;
    if (most > reader->read_upto)
        most = reader->read_upto;
    for (size_t i = 0; i < f->holes_n && f->holes[i].last <= most; i++) {
        if (many || has_lived(&f->holes[i], A_WHILE_MS))
            upto = f->holes[i].last;
    }
    return upto;
}

/* Called after the verdict: a hole that is left has a holder that stays open.  Every read of the
   edge looks into every hole, so holes that live long are taken out of its way. */
int hw_holes_put_aside(howdah_bus *bus, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    int64_t upto = reader->standby ? 0 : put_aside_upto(reader);
    sets x = {0};
    int s;

    if (upto == 0 || needs_every_hole(bus))
        return HOWDAH_OK;
    s = hw_frontier_put_aside(&reader->frontier, upto, &x.rest, reterr);
    if (s >= 0)
        s = hw_ranges_unite(&x.still, hw_still_ranges(reader->still), &x.rest, reterr);
    if (s >= 0)
        s = make_still(reader, &x.still, reterr);
    sets_done(&x);
    return s;
}

/* ------------------------------------------------------------------ coverage */

/* Two statements have told what is proven and where the log ends.  If an older copy of the log
   took its place between them, under the same name, the first can be above the second. */
static int prove_below(hw_log_reader *reader, int64_t top, howdah_error *reterr)
{
    if (reader->proven > top)
        reader->proven = top;
    return hw_ranges_remove(&reader->proven_holes, top + 1, INT64_MAX, reterr);
}

/* The reader begins at the end of the log.  What is below is covered later, and only as far down
   as some subscription needs (hw_holes_cover()). */
static int start(howdah_bus *bus, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    hw_anchor top = {.sequence = 0};
    int s;

    if (reader->started)
        return HOWDAH_OK;
    hw_log_reader_reset(bus);
    s = hw_sub_ops_of(bus)->proven(bus->store, &reader->proven, &reader->proven_holes, reterr);
    if (s >= 0)
        s = hw_log_reader_last(bus, 0, &top, reterr);
    if (s >= 0)
        s = still_there(bus, s, reterr);
    if (s >= 0)
        s = prove_below(reader, top.sequence, reterr);
    if (s < 0)
        return s;
    hw_frontier_init(&reader->frontier, top.sequence);
    reader->top = top;
    reader->low = top.sequence;
    reader->proven_upto = reader->proven;
    reader->proven_still = reader->proven_holes.n > 0 ? UINT64_MAX : 0; /* not as we would say it */
    reader->started = true;
    return HOWDAH_OK;
}

/* What nobody has proven yet: above what is proven, up to low. */
static hw_ranges unproven(const hw_log_reader *reader, hw_range *room)
{
    *room = (hw_range){reader->proven + 1, reader->low};
    return (hw_ranges){room, reader->low > reader->proven ? 1 : 0, 1};
}

/* The gaps of these ranges, each walked for itself. */
static int walk(howdah_bus *bus, const hw_ranges *ranges, hw_ranges *out, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    hw_ranges_clear(out);
    for (size_t i = 0; s >= 0 && i < ranges->n; i++)
        s = find_gaps(bus, ranges->items[i], out, reterr);
    return s;
}

/*
 * A standby cannot see who holds the sequence on the primary.  So every gap stays a hole until
 * the primary has proven it dead.  Only as much is covered as is needed: where no subscription
 * runs on the primary nothing is proven, and there may be very many gaps.
 */
static int cover_standby(howdah_bus *bus, int64_t low, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    hw_range room;
    hw_ranges unknown = unproven(reader, &room);
    sets x = {0};
    int s;

    if (unknown.n > 0 && room.first <= low)
        room.first = low + 1;
    s = walk(bus, &unknown, &x.missing, reterr);
    if (s >= 0)
        s = hw_ranges_unite(&x.still, &x.missing, &reader->proven_holes, reterr);
    if (s >= 0 && low > 0)
        s = hw_ranges_remove(&x.still, 1, low, reterr);
    if (s >= 0) /* what is above is known */
        s = hw_ranges_remove(&x.still, reader->low + 1, INT64_MAX, reterr);
    if (s >= 0)
        s = wake(reader, &x.still, reterr);
    if (s >= 0)
        reader->low = low;
    if (s == HOWDAH_LIMIT)
        (void)hw_advise(reterr, s,
                        "run a subscription on the primary server: it proves which of "
                        "the missing numbers are dead");
    sets_done(&x);
    return s;
}

/* These numbers below low may still appear: those that were drawn before the look stand still,
   the others become holes (I2). */
static int keep_below(howdah_bus *bus, const hw_ranges *holes, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    int64_t drawn = needs_every_hole(bus) ? 0 : reader->holders.drawn;
    sets x = {0};
    int s = hw_ranges_copy(&x.rest, holes, reterr);

    if (s >= 0 && drawn < INT64_MAX)
        s = hw_ranges_remove(&x.rest, drawn + 1, INT64_MAX, reterr);
    if (s >= 0)
        s = hw_ranges_subtract(&x.alive, holes, &x.rest, reterr);
    if (s >= 0)
        s = wake(reader, &x.alive, reterr);
    if (s >= 0)
        s = hw_ranges_unite(&x.still, &x.rest, hw_still_ranges(reader->still), reterr);
    if (s >= 0 && x.rest.n > 0)
        s = make_still(reader, &x.still, reterr);
    sets_done(&x);
    return s;
}

/* Finds what may still appear below low.  *ret_wait: some open transaction may have drawn a part
   of it, and the caller is still patient: most end soon, and then there is nothing to count. */
static int cover(howdah_bus *bus, bool patient, bool *ret_wait, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    hw_range room;
    hw_ranges unknown = unproven(reader, &room);
    sets x = {0};
    bool freed = false;
    int s;

    assert(!reader->standby); /* it cannot tell who is alive: see cover_standby() */
    s = hw_ranges_intersect(&x.touched, &unknown, &reader->holders.alive, reterr);
    *ret_wait = s >= 0 && patient && x.touched.n > 0;
    if (s >= 0 && !*ret_wait) {
        /* What was a hole when it was written down may be visible by now. */
        s = hw_ranges_intersect(&x.alive, &reader->proven_holes, &reader->holders.alive, reterr);
        if (s >= 0)
            s = look_for(bus, &x.alive, &x.visible, &x.missing, reterr);
        if (s >= 0)
            s = walk(bus, &x.touched, &x.still, reterr);
        if (s >= 0)
            s = hw_ranges_unite(&x.rest, &x.missing, &x.still, reterr);
        if (s >= 0)
            s = keep_below(bus, &x.rest, reterr);
        if (s >= 0)
            s = look(bus, reterr);
        if (s >= 0)
            s = heed_freed(bus, &freed, reterr);
        if (s >= 0)
            reader->low = 0;
    }
    sets_done(&x);
    return s;
}

/*
 * Numbers up to the frontier were drawn before this look.  Where no open transaction may have
 * drawn them, everything that is not visible is dead, and there is nothing to look for.  Only
 * when a transaction stays open are the missing numbers that it may have drawn found one by one.
 */
int hw_holes_cover(howdah_bus *bus, int64_t low, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    int64_t now = hw_clock_mono_ms();
    bool freed = false;
    bool wait = false;
    int s = start(bus, reterr);

    if (s < 0 || low >= reader->low)
        return s;
    s = reader->standby ? HOWDAH_END : look(bus, reterr);
    if (s == HOWDAH_END)
        return cover_standby(bus, low, reterr);
    if (s >= 0)
        s = heed_freed(bus, &freed, reterr);
    if (s < 0)
        return s;
    if (reader->cover_ms == 0)
        reader->cover_ms = now;
    s = cover(bus, now - reader->cover_ms < PATIENCE_MS, &wait, reterr);
    if (s >= 0 && !wait)
        reader->cover_ms = 0;
    return s < 0 ? s : wait ? HOWDAH_END : HOWDAH_OK;
}

/* ------------------------------------------------------------- written down */

/* The number up to which all is proven but for what stands still; 0: not known. */
static int64_t proven(const hw_log_reader *reader)
{
    if (reader->low > 0)
        return 0;
    return reader->frontier.holes_n > 0 ? reader->frontier.holes[0].first - 1
                                        : reader->frontier.high;
}

/*
 * Whether the holes have to be written with the mark.  Another bus may have written its own since:
 * up to its mark, which is not below ours, it has proven all but them.  So ours need not be there
 * if they are the same as they were and none is above the mark that they came with.
 */
static bool holes_moved(const hw_log_reader *reader)
{
    const hw_ranges *still = hw_still_ranges(reader->still);

    return (reader->still ? reader->still->version : 0) != reader->proven_still ||
           (still->n > 0 && still->items[still->n - 1].last > reader->proven_upto);
}

/* I4.  Every few seconds, and only if enough was proven since: it is a write, and a process that
   starts without it only has more to look through. */
int hw_holes_store_proven(howdah_bus *bus, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    int64_t now = hw_clock_mono_ms();
    int64_t upto = proven(reader);
    bool moved = holes_moved(reader);
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (reader->standby || now < reader->prove_ms || upto < reader->proven_upto ||
        (!moved && upto - reader->proven_upto < PROVE_LEAST))
        return HOWDAH_OK;
    reader->prove_ms = now + PROVE_EVERY_MS;
    s = hw_sub_ops_of(bus)->store_proven(bus->store, hw_str_of(bus->service->log), &reader->top,
                                         upto, moved ? hw_still_ranges(reader->still) : NULL, &err);
    if (s == HOWDAH_DENIED || s == HOWDAH_READ_ONLY) /* then somebody else does */
        return HOWDAH_OK;
    if (s < 0) {
        hw_error_copy(reterr, &err);
        return s;
    }
    reader->proven_upto = upto;
    reader->proven_still = reader->still ? reader->still->version : 0;
    return HOWDAH_OK;
}

/* ------------------------------------------------------------- subscriptions */

/* Some numbers are outstanding for a subscription, and the reader does not keep them any more.
   Of these: the ones that the subscription has to read. */
static int sift(howdah_bus *bus, const hw_ranges *left, sets *x, hw_ranges *out,
                howdah_error *reterr)
{
    const hw_frontier *f = &bus->service->reader.frontier;
    int s = HOWDAH_OK;

    if (left->n <= SIFT_BY_ROWS)
        return hw_ranges_copy(out, left, reterr);
    s = look_for(bus, left, &x->visible, &x->missing, reterr);
    hw_ranges_clear(&x->rest);
    for (size_t i = 0; s >= 0 && i < f->holes_n; i++)
        s = hw_ranges_add(&x->rest, f->holes[i].first, f->holes[i].last, reterr);
    /* The owner before was further than this reader: of what is above nothing is known here. */
    if (s >= 0 && f->high < INT64_MAX)
        s = hw_ranges_add(&x->rest, f->high + 1, INT64_MAX, reterr);
    if (s >= 0)
        s = hw_ranges_intersect(&x->alive, &x->missing, &x->rest, reterr);
    if (s >= 0)
        s = hw_ranges_unite(out, &x->visible, &x->alive, reterr);
    return s;
}

/* I5: the numbers that left the subscription's set on the way to the page's set, and are visible.
   HOWDAH_END: the reader does not remember that far back, and may_ask is false. */
static int left_behind(howdah_subscription *sub, const hw_page *page, bool may_ask, sets *x,
                       hw_ranges *out, howdah_error *reterr)
{
    hw_log_reader *reader = &sub->bus->service->reader;
    int s = hw_ranges_subtract(&x->touched, hw_still_ranges(sub->place.still),
                               hw_still_ranges(page->still), reterr);

    hw_ranges_clear(out);
    if (s < 0 || x->touched.n == 0)
        return s;
    s = hw_late_between(&reader->late, sub->place.still->version, page->still_version, &x->visible,
                        reterr);
    if (s == HOWDAH_OK)
        return hw_ranges_intersect(out, &x->touched, &x->visible, reterr);
    if (s == HOWDAH_END && may_ask)
        return sift(sub->bus, &x->touched, x, out, reterr);
    return s;
}

/* After this the subscription has the page's set as its own.  All or nothing: if it fails, the
   place still has its old set, and the page must not be offered. */
int hw_holes_adopt(howdah_subscription *sub, const hw_page *page, bool may_ask,
                   howdah_error *reterr)
{
    hw_ranges owes = HW_RANGES_INIT;
    sets x = {0};
    int s;

    if (sub->place.still == page->still)
        return HOWDAH_OK;
    s = left_behind(sub, page, may_ask, &x, &owes, reterr);
    if (s == HOWDAH_OK)
        s = hw_delivery_put_aside(&sub->d, hw_still_ranges(page->still), &owes, hw_clock_mono_ms(),
                                  reterr);
    if (s == HOWDAH_OK) {
        hw_still_drop(sub->place.still);
        sub->place.still = hw_still_share(page->still);
        sub->place.still_saved = false;
    }
    hw_ranges_done(&owes);
    sets_done(&x);
    return s;
}
