/*
 * publish.c - one round: several submissions into the store, a verdict for each.
 *
 * The usual round is one statement: everything that goes is merged into one batch
 * (engine/round.h).  If that cannot be stored as it is, versions and ids are looked up, for all at
 * once, and what can still go is tried again.
 *
 *   I1  Versions are read before ids.  So an id that is not found was not stored when the version
 *       was read, and its own append is not what has moved the stream.
 *   I2  What the store refuses without saying whose fault it is (a trigger's exception, a wait for
 *       a lock that is too long) is found by halves; a single submission is an ordinary append.
 *       So a bad one costs a few statements more, however many others are with it.
 *   I3  Each try answers somebody, is one of ATTEMPTS, or halves what is tried: rounds end.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "bus/publisher/publisher.h"
#include "engine/backoff.h"
#include "engine/round.h"

#define ATTEMPTS 3
#define REPEAT_FIRST_MS 20
#define REPEAT_MAX_MS 1000

/* ------------------------------------------------------------------- errors */

/* A wait for a lock was given up, for one that may be held for long. */
static bool is_blocked(const howdah_error *err)
{
    return strcmp(err->sqlstate, "55P03") == 0;
}

/* Whether an error is about what was to be stored.  Otherwise it is about the store. */
static bool is_about_one(int status, const howdah_error *err)
{
    switch (status) {
    case HOWDAH_CONFLICT:
    case HOWDAH_ID_REUSED:
    case HOWDAH_INVALID:
    case HOWDAH_LIMIT:
    case HOWDAH_NOT_FOUND:
    case HOWDAH_LOST:
    case HOWDAH_FAILED:
        return true;
    case HOWDAH_UNAVAILABLE: /* a stream for which many races were lost */
        return strcmp(err->sqlstate, "40001") == 0;
    case HOWDAH_TIMEOUT:
        return is_blocked(err);
    default:
        return false;
    }
}

static void answer(const hw_publishing *p, hw_submission **submission, int status,
                   const howdah_error *err)
{
    hw_submission *told = *submission;

    *submission = NULL;
    p->answer(p->ctx, told, status, err);
}

static void answer_stored(const hw_publishing *p, hw_submission **submission,
                          howdah_position *positions)
{
    const hw_submission *s = *submission;

    hw_append_give(s->events, s->n, positions, s->positions);
    answer(p, submission, HOWDAH_OK, NULL);
}

/* ------------------------------------------------------------------- a piece */

/* A part of the round that is tried together. */
typedef struct piece {
    const hw_publishing *p;
    hw_submission **submissions; /* as many as items of the round */
    hw_round round;
    howdah_position *positions; /* of the merged batch */
} piece;

static int piece_init(piece *c, const hw_publishing *p, hw_submission **submissions, size_t n,
                      howdah_error *reterr)
{
    const hw_batch **batches = hw_calloc(n, sizeof *batches);
    int s;

    *c = (piece){.p = p, .submissions = submissions};
    if (!batches)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < n; i++)
        batches[i] = &submissions[i]->batch;
    s = hw_round_init(&c->round, batches, n, reterr);
    hw_free(batches);
    if (s < 0)
        return s;
    c->positions = hw_calloc(c->round.events_n, sizeof *c->positions);
    return c->positions ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

static void piece_done(piece *c)
{
    hw_free(c->positions);
    hw_round_done(&c->round);
}

/* It takes no part any more: it was answered, or is left for an append of its own. */
static void end_item(piece *c, size_t i)
{
    c->round.items[i].verdict = HW_ROUND_OVER;
}

static void answer_those_that_went(piece *c)
{
    for (size_t i = 0; i < c->round.items_n; i++) {
        if (c->round.items[i].verdict != HW_ROUND_GOES)
            continue;
        answer_stored(c->p, &c->submissions[i], c->positions + c->round.items[i].at);
        end_item(c, i);
    }
}

/* --------------------------------------------------------------- looking up ids */

/* An event whose id is looked up. */
typedef struct wanted {
    hw_uuid id;
    uint32_t item;
    uint32_t event; /* of the item */
} wanted;

typedef struct lookup {
    piece *c;
    wanted *wanted; /* sorted by id */
    size_t n;
    hw_uuid *ids;               /* each one once */
    howdah_position *positions; /* per event of the round */
    size_t *stored_n;           /* per item */
} lookup;

/* Any order will do, as long as sorting and searching share it. */
static int compare_wanted(const void *a, const void *b)
{
    return memcmp(((const wanted *)a)->id.b, ((const wanted *)b)->id.b, sizeof(hw_uuid));
}

static void lookup_done(lookup *l)
{
    hw_free(l->wanted);
    hw_free(l->ids);
    hw_free(l->positions);
    hw_free(l->stored_n);
}

/* Of those that go nothing need be looked up once they are stored: they are over by then. */
static int lookup_init(lookup *l, piece *c, howdah_error *reterr)
{
    const hw_round *round = &c->round;

    *l = (lookup){.c = c};
    l->wanted = hw_calloc(round->events_n, sizeof *l->wanted);
    l->ids = hw_calloc(round->events_n, sizeof *l->ids);
    l->positions = hw_calloc(round->events_n, sizeof *l->positions);
    l->stored_n = hw_calloc(round->items_n, sizeof *l->stored_n);
    if (!l->wanted || !l->ids || !l->positions || !l->stored_n)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < round->items_n; i++) {
        const hw_batch *batch = round->items[i].batch;

        for (size_t e = 0; round->items[i].verdict != HW_ROUND_OVER && e < batch->n; e++)
            l->wanted[l->n++] = (wanted){batch->events[e]->id, (uint32_t)i, (uint32_t)e};
    }
    qsort(l->wanted, l->n, sizeof *l->wanted, compare_wanted);
    return HOWDAH_OK;
}

/* The first one that wants this id; there may be several, behind one another. */
static wanted *first_that_wants(const lookup *l, const hw_uuid *id)
{
    wanted key = {.id = *id};
    wanted *found = bsearch(&key, l->wanted, l->n, sizeof key, compare_wanted);

    while (found && found > l->wanted && compare_wanted(found - 1, &key) == 0)
        found--;
    return found;
}

/* The same event, or a mistake of the one who sent it. */
static void match_stored(lookup *l, const howdah_event *stored)
{
    wanted *w = first_that_wants(l, &stored->id);

    for (; w && w < l->wanted + l->n && compare_wanted(w, &(wanted){.id = stored->id}) == 0; w++) {
        const hw_round_item *item = &l->c->round.items[w->item];
        howdah_error err = HOWDAH_ERROR_INIT;
        int s;

        if (item->verdict == HW_ROUND_OVER)
            continue;
        s = hw_append_match(item->batch->events[w->event], w->event, stored,
                            &l->positions[item->first + w->event], &err);
        if (s >= 0) {
            l->stored_n[w->item]++;
            continue;
        }
        answer(l->c->p, &l->c->submissions[w->item], s, &err);
        end_item(l->c, w->item);
    }
}

static int read_stored(lookup *l, howdah_error *reterr)
{
    hw_store *store = l->c->p->store;
    hw_query query = {.ids = l->ids, .batch = 1000};
    hw_cursor *cursor = NULL;
    int s;

    for (size_t i = 0; i < l->n; i++)
        if (i == 0 || compare_wanted(&l->wanted[i - 1], &l->wanted[i]) != 0)
            l->ids[query.ids_n++] = l->wanted[i].id;
    s = store->ops->read_open(store, &query, &cursor, reterr);
    while (s == HOWDAH_OK) {
        const howdah_event *events = NULL;
        size_t n = 0;

        s = store->ops->read_next(cursor, &events, &n, reterr);
        for (size_t i = 0; s == HOWDAH_OK && i < n; i++)
            match_stored(l, &events[i]);
    }
    if (cursor)
        store->ops->read_close(cursor);
    return s == HOWDAH_END ? HOWDAH_OK : s;
}

/*
 * Answers what is stored already.  What is stored in part is left for an append of its own, which
 * knows what to do with the rest.
 */
static int look_up_ids(piece *c, howdah_error *reterr)
{
    lookup l;
    int s = lookup_init(&l, c, reterr);

    if (s >= 0 && l.n > 0)
        s = read_stored(&l, reterr);
    for (size_t i = 0; s >= 0 && i < c->round.items_n; i++) {
        if (c->round.items[i].verdict == HW_ROUND_OVER || l.stored_n[i] == 0)
            continue;
        if (l.stored_n[i] == c->round.items[i].batch->n)
            answer_stored(c->p, &c->submissions[i], l.positions + c->round.items[i].first);
        end_item(c, i);
    }
    lookup_done(&l);
    return s;
}

/* ------------------------------------------------------------- what was refused */

/* The event that carries the expectation: the first of its stream. */
static void answer_conflict(piece *c, size_t i)
{
    const hw_round_item *item = &c->round.items[i];
    const hw_batch_stream *stream = &item->batch->streams[item->stream_no];
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t actual = hw_round_actual(&c->round, i, c->positions);
    int s = hw_batch_conflict(stream->name, stream->expected, actual, &err);
    size_t first = 0;

    while (item->batch->stream_no[first] != item->stream_no)
        first++;
    hw_error_at(&err, first);
    answer(c->p, &c->submissions[i], s, &err);
}

/*
 * What did not go: refused, unless it is stored already.  A repeated id that is not stored now is
 * stored in part, or somebody may not read: an append of its own will tell.
 */
static int end_those_left(piece *c, bool looked_up, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    bool left = false;
    int s = HOWDAH_OK;

    for (size_t i = 0; i < c->round.items_n; i++)
        left = left || c->round.items[i].verdict != HW_ROUND_OVER;
    if (left && !looked_up)
        s = look_up_ids(c, &err);
    if (s == HOWDAH_DENIED)
        return HOWDAH_OK;
    if (s < 0) {
        hw_error_copy(reterr, &err);
        return s;
    }
    for (size_t i = 0; i < c->round.items_n; i++)
        if (c->round.items[i].verdict == HW_ROUND_REFUSED)
            answer_conflict(c, i);
    return HOWDAH_OK;
}

/* I1.  Only of streams of which somebody expects something. */
static int look_up_versions(piece *c, howdah_error *reterr)
{
    hw_round *round = &c->round;
    hw_str *names = hw_calloc(round->streams_n, sizeof *names);
    size_t *numbers = hw_calloc(round->streams_n, sizeof *numbers);
    int64_t *versions = hw_calloc(round->streams_n, sizeof *versions);
    size_t n = 0;
    int s = HOWDAH_OK;

    if (!names || !numbers || !versions)
        s = hw_fail_no_memory(reterr);
    for (size_t i = 0; s >= 0 && i < round->streams_n; i++) {
        if (!round->streams[i].asked)
            continue;
        names[n] = round->streams[i].name;
        numbers[n++] = i;
    }
    if (s >= 0 && n > 0)
        s = c->p->store->ops->stream_versions(c->p->store, names, n, versions, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++)
        hw_round_know(round, numbers[i], versions[i]);
    hw_free(names);
    hw_free(numbers);
    hw_free(versions);
    return s;
}

/* --------------------------------------------------------------------- a try */

/* What became of a piece, when nothing went wrong with the store. */
typedef enum progress {
    CARRIED, /* what is not answered wants an append of its own */
    TOO_MANY /* the races that were lost, and so it should be halved */
} progress;

static int try_piece(piece *c, progress *ret_progress, howdah_error *reterr)
{
    hw_store *store = c->p->store;

    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        hw_append_report report = {HW_APPEND_STORED, 0, HOWDAH_ABSENT};
        int s;

        *ret_progress = CARRIED;
        hw_round_plan(&c->round);
        if (c->round.batch.n == 0)
            return end_those_left(c, attempt > 0, reterr);
        s = store->ops->append(store, &c->round.batch, NULL, c->positions, &report, reterr);
        if (s < 0 || report.outcome == HW_APPEND_NOT_COMBINED)
            return s;
        if (report.outcome == HW_APPEND_STORED) {
            answer_those_that_went(c);
            return end_those_left(c, false, reterr);
        }
        s = look_up_versions(c, reterr);
        if (s >= 0)
            s = look_up_ids(c, reterr);
        if (s < 0)
            return s;
    }
    *ret_progress = TOO_MANY;
    return HOWDAH_OK;
}

static void note_lock_wait(hw_publishing *p)
{
    p->lock_waits -= p->lock_waits > 0;
}

size_t hw_stream_slot(hw_str stream)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < stream.len; i++)
        hash = (hash ^ (unsigned char)stream.s[i]) * 16777619u;
    return (hash ^ hash >> 16) % HW_STREAM_SLOTS;
}

/* publisher.h I6: it is to step aside, and nobody may overtake it in its streams. */
static void block(hw_publishing *p, hw_submission *submission)
{
    submission->blocked = true;
    for (size_t i = 0; i < submission->batch.streams_n; i++)
        p->held[hw_stream_slot(submission->batch.streams[i].name)] = true;
}

static bool is_behind_a_blocked_one(const hw_publishing *p, const hw_submission *submission)
{
    for (size_t i = 0; i < submission->batch.streams_n; i++)
        if (p->held[hw_stream_slot(submission->batch.streams[i].name)])
            return true;
    return false;
}

/* Alone it is an ordinary append, with all its patience. */
static int try_one(hw_publishing *p, hw_submission **submission, howdah_error *reterr)
{
    hw_submission *sub = *submission;
    howdah_append_options options = {sizeof options, sub->expected};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_append_to(p->store, p->interrupt, p->payload_bytes_max, sub->events, sub->n,
                         &options, NULL, sub->positions, &err);

    if (s < 0 && is_blocked(&err)) {
        note_lock_wait(p);
        block(p, sub);
        return HOWDAH_OK;
    }
    if (s >= 0) {
        answer(p, submission, HOWDAH_OK, NULL);
    } else if (is_about_one(s, &err) && !(err.flags & HOWDAH_OUTCOME_UNKNOWN)) {
        answer(p, submission, s, &err);
        s = HOWDAH_OK;
    } else {
        hw_error_copy(reterr, &err);
    }
    return s;
}

/* Those that are left of a piece, behind one another, so that a round takes them in. */
static size_t close_ranks(hw_submission **submissions, size_t n)
{
    size_t left = 0;

    for (size_t i = 0; i < n; i++) {
        hw_submission *submission = submissions[i];

        submissions[i] = NULL;
        if (submission)
            submissions[left++] = submission;
    }
    return left;
}

static int try_many(const hw_publishing *p, hw_submission **submissions, size_t n,
                    progress *ret_progress, howdah_error *reterr)
{
    piece c;
    int s = piece_init(&c, p, submissions, n, reterr);

    if (s >= 0)
        s = try_piece(&c, ret_progress, reterr);
    piece_done(&c);
    return s;
}

/* ------------------------------------------------------- unknown outcomes (I4) */

/* Whether another try can tell what became of the one before. */
static bool may_repeat(const hw_publishing *p, int status, unsigned attempt)
{
    int64_t pause_ms = hw_backoff_ms(REPEAT_FIRST_MS, REPEAT_MAX_MS, attempt, 50, hw_random_u32());

    if (status != HOWDAH_UNAVAILABLE && status != HOWDAH_TIMEOUT && status != HOWDAH_READ_ONLY)
        return false;
    return hw_clock_mono_ms() + pause_ms < p->until_ms &&
           hw_sleep(p->interrupt, pause_ms, NULL) >= 0;
}

/* Nobody could be asked in time. */
static void answer_unknown(const hw_publishing *p, hw_submission **submissions, size_t n,
                           const howdah_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (submissions[i])
            answer(p, &submissions[i], err->status, err);
}

/* Those that this try has left may have been part of what got no answer. */
static void mark_doubtful(hw_submission **submissions, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (submissions[i])
            submissions[i]->doubtful = true;
}

/*
 * One try, and if its outcome is unknown, the same again.  As long as there is a doubt nothing else
 * than an answer of the store ends it; the error that is told is the one that made the doubt.
 */
static int carry(hw_publishing *p, hw_submission **submissions, size_t n, progress *ret_progress,
                 howdah_error *reterr)
{
    howdah_error doubt = HOWDAH_ERROR_INIT;

    for (unsigned attempt = 0;; attempt++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        size_t left = close_ranks(submissions, n);
        int s = HOWDAH_OK;

        *ret_progress = CARRIED;
        if (left == 1)
            s = try_one(p, submissions, &err);
        else if (left > 1)
            s = try_many(p, submissions, left, ret_progress, &err);
        if (s >= 0)
            return s;
        if (err.flags & HOWDAH_OUTCOME_UNKNOWN) {
            doubt = err;
            mark_doubtful(submissions, left);
        }
        if (!(doubt.flags & HOWDAH_OUTCOME_UNKNOWN)) {
            hw_error_copy(reterr, &err);
            return s;
        }
        if (!may_repeat(p, s, attempt)) {
            answer_unknown(p, submissions, left, &doubt);
            return HOWDAH_OK;
        }
    }
}

/* ------------------------------------------------------------------ the round */

/* One by one, what the piece has left. */
static int carry_rest(hw_publishing *p, hw_submission **submissions, size_t n, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && p->lock_waits > 0 && i < n; i++) {
        progress unused;

        if (!submissions[i] || submissions[i]->blocked)
            continue;
        if (is_behind_a_blocked_one(p, submissions[i]))
            block(p, submissions[i]);
        else
            s = carry(p, &submissions[i], 1, &unused, reterr);
    }
    return s;
}

/*
 * Moves to the end what is blocked, or behind what is blocked, each in its order; the first of them
 * is where the rest of the round ends now.
 */
static size_t set_aside(hw_publishing *p, hw_submission **submissions, size_t n)
{
    hw_submission *aside[HW_ROUND_EVENTS_MAX];
    size_t aside_n = 0;
    size_t left = 0;

    assert(n <= HW_ROUND_EVENTS_MAX);
    for (size_t i = 0; i < n; i++) {
        hw_submission *submission = submissions[i];

        if (submission && !submission->blocked && is_behind_a_blocked_one(p, submission))
            block(p, submission);
        if (submission && submission->blocked)
            aside[aside_n++] = submission;
        else
            submissions[left++] = submission;
    }
    memcpy(submissions + left, aside, aside_n * sizeof *aside);
    return left;
}

/* I2: half as many when something stands in the way, soon more again when nothing does. */
int hw_publish(hw_publishing *p, hw_submission **submissions, size_t n, howdah_error *reterr)
{
    size_t end = n;
    size_t size = n;

    for (size_t at = 0; at < end && p->lock_waits > 0;) {
        unsigned lock_waits = p->lock_waits;
        howdah_error err = HOWDAH_ERROR_INIT;
        size_t tried = size < end - at ? size : end - at;
        progress how = CARRIED;
        int s = carry(p, submissions + at, tried, &how, &err);

        if (tried > 1 && s < 0 && is_blocked(&err))
            note_lock_wait(p);
        if (tried > 1 && (how == TOO_MANY || (s < 0 && is_about_one(s, &err)))) {
            size = (tried + 1) / 2;
            continue;
        }
        if (s >= 0)
            s = carry_rest(p, submissions + at, tried, &err);
        if (s < 0) {
            hw_error_copy(reterr, &err);
            return s;
        }
        if (p->lock_waits < lock_waits)
            end = at + set_aside(p, submissions + at, end - at);
        else
            at += tried;
        size = 4 * tried;
    }
    for (size_t i = 0; i < n; i++)
        if (submissions[i])
            submissions[i]->blocked = true;
    return HOWDAH_OK;
}
