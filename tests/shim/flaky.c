/*
 * flaky.c - a store that fails on purpose, over any store.
 *
 * Each operation begins a call, which counts it and may fail it; is forwarded, unless it has
 * failed; and hands its outputs over, unless it has failed by then:
 *
 *     hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
 *     int64_t head = 0;
 *
 *     if (FORWARD(&c, head, &head) >= 0)
 *         *ret_head = head;
 *     return c.status;
 *
 *   I1  Every operation that talks to the store counts once; close and read_close do not.
 *   I2  An operation that is made to fail leaves its outputs alone, also when the inner store has
 *       carried it out; what that one handed over is freed here.
 *   I3  An operation that fails by itself is passed on as it is.
 */
#include "flaky.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "flaky_call.h"

typedef struct flaky_store {
    hw_store store;
    hw_store_ops ops; /* ours, but with the inner store's name */
    hw_store *inner;
    unsigned count;
    hw_flaky_op op; /* what the plan is about */
    unsigned left;  /* so many of those, and the plan is due */
    hw_flaky_mode mode;
} flaky_store;

typedef struct flaky_cursor {
    hw_cursor cursor;
    hw_cursor *inner;
} flaky_cursor;

/* A read has no outcome that could be unknown: it has failed. */
static int fail(hw_flaky_call *c)
{
    const char *when = c->mode == HW_FLAKY_AFTER ? "behind" : "before";

    c->status = hw_fail(c->reterr, HOWDAH_UNAVAILABLE, "made to fail %s the operation", when);
    if (c->what == HW_FLAKY_WRITES && c->mode != HW_FLAKY_BEFORE && c->reterr)
        c->reterr->flags = HOWDAH_OUTCOME_UNKNOWN;
    return c->status;
}

hw_flaky_call hw_flaky_begin_op(hw_store *store, hw_flaky_effect what, hw_flaky_op op,
                                howdah_error *reterr)
{
    flaky_store *f = (flaky_store *)(void *)store;
    hw_flaky_call c = {f->inner, reterr, what, HW_FLAKY_NEVER, HOWDAH_OK};

    f->count++;
    if (f->mode == HW_FLAKY_NEVER || (f->op != HW_FLAKY_OP_ANY && f->op != op) || --f->left > 0)
        return c;
    c.mode = f->mode;
    f->mode = HW_FLAKY_NEVER;
    if (c.mode != HW_FLAKY_AFTER)
        (void)fail(&c);
    return c;
}

hw_flaky_call hw_flaky_begin(hw_store *store, hw_flaky_effect what, howdah_error *reterr)
{
    return hw_flaky_begin_op(store, what, HW_FLAKY_OP_ANY, reterr);
}

int hw_flaky_end(hw_flaky_call *c, int status)
{
    c->status = status;
    return status >= 0 && c->mode == HW_FLAKY_AFTER ? fail(c) : status;
}

hw_store *hw_flaky_inner(hw_store *store)
{
    return ((flaky_store *)(void *)store)->inner;
}

/* The inner store's operation with its store, the arguments and reterr; the status it came to. */
#define FORWARD(c, op, ...)                                                                        \
    ((c)->status < 0                                                                               \
         ? (c)->status                                                                             \
         : hw_flaky_end((c), (c)->inner->ops->op((c)->inner, __VA_ARGS__, (c)->reterr)))

/* --------------------------------------------------------------- append, read */

static int flaky_append(hw_store *store, const hw_batch *batch, const hw_import_place *place,
                        howdah_position *ret_positions, hw_append_report *report,
                        howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_APPEND, reterr);
    hw_append_report told = {.outcome = HW_APPEND_STORED};
    howdah_position *positions = ret_positions;

    if (c.mode == HW_FLAKY_AFTER) {
        positions = hw_calloc(batch->n, sizeof *positions);
        if (!positions)
            return hw_fail_no_memory(reterr);
    }
    if (FORWARD(&c, append, batch, place, positions, &told) >= 0)
        *report = told;
    if (positions != ret_positions)
        hw_free(positions);
    return c.status;
}

/* What was read stays unread when it is made to fail behind the operation (I2). */
static int flaky_stream_versions(hw_store *store, const hw_str *streams, size_t n,
                                 int64_t *ret_versions, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    int64_t *versions = hw_calloc(n, sizeof *versions);

    if (!versions)
        return hw_fail_no_memory(reterr);
    if (FORWARD(&c, stream_versions, streams, n, versions) >= 0)
        memcpy(ret_versions, versions, n * sizeof *versions);
    hw_free(versions);
    return c.status;
}

int hw_flaky_cursor(hw_store *store, hw_cursor *inner, int status, hw_cursor **ret_cursor,
                    howdah_error *reterr)
{
    flaky_cursor *mine = status >= 0 ? hw_calloc(1, sizeof *mine) : NULL;

    if (!mine) {
        if (inner)
            inner->store->ops->read_close(inner);
        return status < 0 ? status : hw_fail_no_memory(reterr);
    }
    mine->cursor.store = store;
    mine->inner = inner;
    *ret_cursor = &mine->cursor;
    return status;
}

static int flaky_read_open(hw_store *store, const hw_query *query, hw_cursor **ret_cursor,
                           howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    hw_cursor *inner = NULL;
    int s = FORWARD(&c, read_open, query, &inner);

    return hw_flaky_cursor(store, inner, s, ret_cursor, reterr);
}

static int flaky_read_next(hw_cursor *cursor, const howdah_event **ret_events, size_t *ret_n,
                           howdah_error *reterr)
{
    flaky_cursor *mine = (flaky_cursor *)(void *)cursor;
    hw_flaky_call c = hw_flaky_begin(cursor->store, HW_FLAKY_READS, reterr);
    const howdah_event *events = NULL;
    size_t n = 0;

    if (c.status >= 0)
        (void)hw_flaky_end(&c, c.inner->ops->read_next(mine->inner, &events, &n, reterr));
    if (c.status == HOWDAH_OK) {
        cursor->more = mine->inner->more;
        *ret_events = events;
        *ret_n = n;
    }
    return c.status;
}

static void flaky_read_close(hw_cursor *cursor)
{
    flaky_cursor *mine = (flaky_cursor *)(void *)cursor;

    if (!cursor)
        return;
    mine->inner->store->ops->read_close(mine->inner);
    hw_free(mine);
}

static int flaky_tree(hw_store *store, const hw_uuid *id, hw_uuid **ret_ids, int **ret_depths,
                      size_t *ret_n, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    hw_uuid *ids = NULL;
    int *depths = NULL;
    size_t n = 0;

    if (FORWARD(&c, tree, id, &ids, &depths, &n) < 0) {
        hw_free(ids);
        hw_free(depths);
        return c.status;
    }
    *ret_ids = ids;
    *ret_depths = depths;
    *ret_n = n;
    return c.status;
}

static int flaky_head(hw_store *store, int64_t *ret_head, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    int64_t head = 0;

    if (FORWARD(&c, head, &head) >= 0)
        *ret_head = head;
    return c.status;
}

static int flaky_first_since(hw_store *store, int64_t time_us, int64_t *ret_sequence,
                             howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    int64_t sequence = 0;

    if (FORWARD(&c, first_since, time_us, &sequence) >= 0)
        *ret_sequence = sequence;
    return c.status;
}

/* --------------------------------------------------------------------- schema */

static int flaky_migrate(hw_store *store, hw_note_fn note, void *note_ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return FORWARD(&c, migrate, note, note_ctx);
}

static int flaky_migrate_status(hw_store *store, hw_step_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return FORWARD(&c, migrate_status, fn, ctx);
}

/* --------------------------------------------------------------------- import */

static int flaky_import_columns(hw_store *store, hw_import_source *source,
                                int (*fn)(void *ctx, const char *column), void *ctx,
                                howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return FORWARD(&c, import_columns, source, fn, ctx);
}

static int flaky_import_place(hw_store *store, hw_str source, hw_buf *ret_buf,
                              hw_import_place *ret_place, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    hw_import_place place = {.rows = 0};

    (void)FORWARD(&c, import_place, source, ret_buf, &place);
    if (c.status < 0 && c.mode == HW_FLAKY_AFTER)
        hw_buf_clear(ret_buf);
    if (c.status == HOWDAH_OK)
        *ret_place = place;
    return c.status;
}

static int flaky_import_rows(hw_store *store, const hw_import_source *source,
                             const hw_import_place *after, size_t n, const hw_import_row **ret_rows,
                             size_t *ret_n, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    const hw_import_row *rows = NULL;
    size_t rows_n = 0;

    if (FORWARD(&c, import_rows, source, after, n, &rows, &rows_n) >= 0) {
        *ret_rows = rows;
        *ret_n = rows_n;
    }
    return c.status;
}

static int flaky_import_total(hw_store *store, const hw_import_source *source, int64_t *ret_total,
                              howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    int64_t total = 0;

    if (FORWARD(&c, import_total, source, &total) >= 0)
        *ret_total = total;
    return c.status;
}

/* ------------------------------------------------------------- status, doctor */

static int flaky_status(hw_store *store, hw_fact_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return FORWARD(&c, status, fn, ctx);
}

static int flaky_numbers(hw_store *store, hw_finding_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return FORWARD(&c, numbers, fn, ctx);
}

static int flaky_doctor(hw_store *store, hw_finding_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return FORWARD(&c, doctor, fn, ctx);
}

/* ------------------------------------------------------------------- the shim */

static void flaky_close(hw_store *store)
{
    flaky_store *f = (flaky_store *)(void *)store;

    if (!store)
        return;
    f->inner->ops->close(f->inner);
    hw_free(f);
}

static const hw_store_ops flaky_ops = {
    .name = "flaky",
    .close = flaky_close,
    .append = flaky_append,
    .stream_versions = flaky_stream_versions,
    .read_open = flaky_read_open,
    .read_next = flaky_read_next,
    .read_close = flaky_read_close,
    .tree = flaky_tree,
    .head = flaky_head,
    .first_since = flaky_first_since,
    .migrate = flaky_migrate,
    .migrate_status = flaky_migrate_status,
    .import_columns = flaky_import_columns,
    .import_place = flaky_import_place,
    .import_rows = flaky_import_rows,
    .import_total = flaky_import_total,
    .numbers = flaky_numbers,
    .status = flaky_status,
    .doctor = flaky_doctor,
    .subs = &hw_flaky_sub_ops,
    .groups = &hw_flaky_group_ops,
    .queue = &hw_flaky_queue_ops,
    .times = &hw_flaky_times_ops,
    .registry = &hw_flaky_registry_ops,
};

int hw_flaky_open(hw_store *inner, hw_store **ret_store, howdah_error *reterr)
{
    flaky_store *f = hw_calloc(1, sizeof *f);

    if (!f)
        return hw_fail_no_memory(reterr);
    f->ops = flaky_ops;
    f->ops.name = inner->ops->name;
    if (!inner->ops->queue)
        f->ops.queue = NULL;
    if (!inner->ops->groups)
        f->ops.groups = NULL;
    if (!inner->ops->times)
        f->ops.times = NULL;
    if (!inner->ops->registry)
        f->ops.registry = NULL;
    f->store.ops = &f->ops;
    f->store.one_writer = inner->one_writer;
    f->store.alone = inner->alone;
    f->inner = inner;
    f->mode = HW_FLAKY_NEVER;
    *ret_store = &f->store;
    return HOWDAH_OK;
}

void hw_flaky_plan_op(hw_store *flaky, hw_flaky_op op, unsigned nth, hw_flaky_mode mode)
{
    flaky_store *f = (flaky_store *)(void *)flaky;

    assert(flaky->ops->close == flaky_close);
    assert(nth >= 1);
    f->op = op;
    f->left = nth;
    f->mode = mode;
}

void hw_flaky_plan(hw_store *flaky, unsigned nth, hw_flaky_mode mode)
{
    hw_flaky_plan_op(flaky, HW_FLAKY_OP_ANY, nth, mode);
}

bool hw_flaky_pending(const hw_store *flaky)
{
    assert(flaky->ops->close == flaky_close);
    return ((const flaky_store *)(const void *)flaky)->mode != HW_FLAKY_NEVER;
}

unsigned hw_flaky_count(const hw_store *flaky)
{
    assert(flaky->ops->close == flaky_close);
    return ((const flaky_store *)(const void *)flaky)->count;
}
