/*
 * test_flaky.c - a store that fails on purpose, over a tiny store in memory.
 *
 * The fake counts what reaches it and answers every operation with fixed values, so that a test
 * sees what was carried out, what was handed back and what was left alone.
 */
#include "unit.h"

#include "flaky.h"

typedef struct fake {
    hw_store store;
    unsigned done; /* operations carried out */
    unsigned appended;
    unsigned open_cursors;
    unsigned closed;
    int status; /* what operations answer instead of HOWDAH_OK */
} fake;

static fake the_fake;

static int answer(hw_store *store, howdah_error *reterr)
{
    assert_ptr_equal(store, &the_fake.store);
    the_fake.done++;
    if (the_fake.status < 0)
        return hw_fail(reterr, the_fake.status, "the fake fails");
    return the_fake.status;
}

static void fake_close(hw_store *store)
{
    assert_ptr_equal(store, &the_fake.store);
    the_fake.closed++;
}

static int fake_append(hw_store *store, const hw_batch *batch, const hw_import_place *place,
                       howdah_position *ret_positions, hw_append_report *report,
                       howdah_error *reterr)
{
    int s = answer(store, reterr);

    assert_null(place);
    if (s < 0)
        return s;
    the_fake.appended += (unsigned)batch->n;
    for (size_t i = 0; i < batch->n; i++)
        ret_positions[i].global_sequence = 100 + (int64_t)i;
    *report = (hw_append_report){HW_APPEND_UNEXPECTED, 3, 4};
    return s;
}

static int fake_stream_versions(hw_store *store, const hw_str *streams, size_t n,
                                int64_t *ret_versions, howdah_error *reterr)
{
    assert_int_equal(n, 1);
    assert_str_is(streams[0], "s");
    *ret_versions = 5;
    return answer(store, reterr);
}

static int fake_read_open(hw_store *store, const hw_query *query, hw_cursor **ret_cursor,
                          howdah_error *reterr)
{
    static hw_cursor cursor;
    int s = answer(store, reterr);

    assert_i64_equal((int64_t)query->batch, 17);
    if (s < 0)
        return s;
    cursor.store = store;
    *ret_cursor = &cursor;
    the_fake.open_cursors++;
    return s;
}

static int fake_read_next(hw_cursor *cursor, const howdah_event **ret_events, size_t *ret_n,
                          howdah_error *reterr)
{
    static howdah_event events[2];
    int s = answer(cursor->store, reterr);

    if (s != HOWDAH_OK)
        return s;
    *ret_events = events;
    *ret_n = 2;
    return s;
}

static void fake_read_close(hw_cursor *cursor)
{
    assert_ptr_equal(cursor->store, &the_fake.store);
    the_fake.open_cursors--;
}

static int fake_tree(hw_store *store, const hw_uuid *id, hw_uuid **ret_ids, int **ret_depths,
                     size_t *ret_n, howdah_error *reterr)
{
    int s = answer(store, reterr);

    assert_int_equal(id->b[0], 9);
    if (s < 0)
        return s;
    *ret_ids = hw_calloc(1, sizeof **ret_ids);
    *ret_depths = hw_calloc(1, sizeof **ret_depths);
    *ret_n = 1;
    return s;
}

static int fake_head(hw_store *store, int64_t *ret_head, howdah_error *reterr)
{
    *ret_head = 6;
    return answer(store, reterr);
}

static int fake_migrate(hw_store *store, hw_note_fn note, void *note_ctx, howdah_error *reterr)
{
    assert_null(note);
    assert_ptr_equal(note_ctx, &the_fake);
    return answer(store, reterr);
}

static int fake_migrate_status(hw_store *store, hw_step_fn fn, void *ctx, howdah_error *reterr)
{
    assert_null(fn);
    assert_ptr_equal(ctx, &the_fake);
    return answer(store, reterr);
}

static int fake_import_columns(hw_store *store, hw_import_source *source,
                               int (*fn)(void *ctx, const char *column), void *ctx,
                               howdah_error *reterr)
{
    assert_null(fn);
    assert_null(source);
    assert_ptr_equal(ctx, &the_fake);
    return answer(store, reterr);
}

static int fake_import_place(hw_store *store, hw_str source, hw_buf *ret_buf,
                             hw_import_place *ret_place, howdah_error *reterr)
{
    assert_str_is(source, "t");
    hw_buf_puts(ret_buf, "text");
    ret_place->rows = 8;
    return answer(store, reterr);
}

static int fake_import_rows(hw_store *store, const hw_import_source *source,
                            const hw_import_place *after, size_t n, const hw_import_row **ret_rows,
                            size_t *ret_n, howdah_error *reterr)
{
    static hw_import_row rows[1];

    assert_null(source);
    assert_null(after);
    assert_i64_equal((int64_t)n, 10);
    *ret_rows = rows;
    *ret_n = 1;
    return answer(store, reterr);
}

static int fake_import_total(hw_store *store, const hw_import_source *source, int64_t *ret_total,
                             howdah_error *reterr)
{
    assert_null(source);
    *ret_total = 9;
    return answer(store, reterr);
}

static int fake_status(hw_store *store, hw_fact_fn fn, void *ctx, howdah_error *reterr)
{
    assert_null(fn);
    assert_ptr_equal(ctx, &the_fake);
    return answer(store, reterr);
}

static int fake_doctor(hw_store *store, hw_finding_fn fn, void *ctx, howdah_error *reterr)
{
    assert_null(fn);
    assert_ptr_equal(ctx, &the_fake);
    return answer(store, reterr);
}

static const hw_store_ops fake_ops = {
    .name = "fake",
    .close = fake_close,
    .append = fake_append,
    .stream_versions = fake_stream_versions,
    .read_open = fake_read_open,
    .read_next = fake_read_next,
    .read_close = fake_read_close,
    .tree = fake_tree,
    .head = fake_head,
    .migrate = fake_migrate,
    .migrate_status = fake_migrate_status,
    .import_columns = fake_import_columns,
    .import_place = fake_import_place,
    .import_rows = fake_import_rows,
    .import_total = fake_import_total,
    .numbers = fake_doctor,
    .status = fake_status,
    .doctor = fake_doctor,
};

/* ---------------------------------------------- every operation, called alike */

/* All outputs of all operations, at values that no operation gives. */
typedef struct outputs {
    howdah_position position;
    hw_append_report report;
    int64_t number;
    uint64_t unsigned_number;
    hw_cursor *cursor;
    const howdah_event *events;
    const hw_import_row *rows;
    hw_uuid *ids;
    int *depths;
    size_t n;
    hw_buf buf;
    hw_import_place place;
} outputs;

/* An operation that was carried out must have changed some output, unless it has none. */
typedef int (*op_fn)(hw_store *store, outputs *out, howdah_error *reterr);

static int op_append(hw_store *store, outputs *out, howdah_error *reterr)
{
    howdah_event event;
    const howdah_event *list = &event;
    hw_batch batch;
    int s;

    hw_event_init(&event);
    event.stream = HW_STR_LIT("s");
    assert_int_equal(hw_batch_init(&batch, &list, 1, HOWDAH_EXPECT_ANY, NULL), HOWDAH_OK);
    s = store->ops->append(store, &batch, NULL, &out->position, &out->report, reterr);
    hw_batch_done(&batch);
    if (s >= 0) {
        assert_i64_equal(out->position.global_sequence, 100);
        assert_int_equal(out->report.outcome, HW_APPEND_UNEXPECTED);
        assert_i64_equal((int64_t)out->report.stream_no, 3);
        assert_i64_equal(out->report.actual_version, 4);
    }
    return s;
}

static int op_migrate(hw_store *store, outputs *out, howdah_error *reterr)
{
    (void)out;
    return store->ops->migrate(store, NULL, &the_fake, reterr);
}

static int op_stream_versions(hw_store *store, outputs *out, howdah_error *reterr)
{
    int s = store->ops->stream_versions(store, &HW_STR_LIT("s"), 1, &out->number, reterr);

    assert_i64_equal(out->number, s < 0 ? -1 : 5);
    return s;
}

static int op_read_open(hw_store *store, outputs *out, howdah_error *reterr)
{
    hw_query query = {.batch = 17};
    int s = store->ops->read_open(store, &query, &out->cursor, reterr);

    if (s >= 0) {
        assert_ptr_equal(out->cursor->store, store);
        store->ops->read_close(out->cursor);
        out->cursor = NULL;
    }
    return s;
}

static int op_tree(hw_store *store, outputs *out, howdah_error *reterr)
{
    const hw_uuid id = {{9}};
    int s = store->ops->tree(store, &id, &out->ids, &out->depths, &out->n, reterr);

    if (s >= 0) {
        assert_i64_equal((int64_t)out->n, 1);
        hw_free(out->ids);
        hw_free(out->depths);
    }
    return s;
}

static int op_head(hw_store *store, outputs *out, howdah_error *reterr)
{
    int s = store->ops->head(store, &out->number, reterr);

    assert_i64_equal(out->number, s < 0 ? -1 : 6);
    return s;
}

static int op_migrate_status(hw_store *store, outputs *out, howdah_error *reterr)
{
    (void)out;
    return store->ops->migrate_status(store, NULL, &the_fake, reterr);
}

static int op_import_columns(hw_store *store, outputs *out, howdah_error *reterr)
{
    (void)out;
    return store->ops->import_columns(store, NULL, NULL, &the_fake, reterr);
}

static int op_import_place(hw_store *store, outputs *out, howdah_error *reterr)
{
    int s = store->ops->import_place(store, HW_STR_LIT("t"), &out->buf, &out->place, reterr);

    /* A failure of the inner store itself may leave text in the buffer. */
    if (s < 0 && the_fake.status < 0)
        hw_buf_clear(&out->buf);
    assert_string_equal(hw_buf_str(&out->buf), s < 0 ? "" : "text");
    assert_i64_equal(out->place.rows, s < 0 ? 0 : 8);
    hw_buf_done(&out->buf);
    return s;
}

static int op_import_rows(hw_store *store, outputs *out, howdah_error *reterr)
{
    int s = store->ops->import_rows(store, NULL, NULL, 10, &out->rows, &out->n, reterr);

    assert_i64_equal((int64_t)out->n, s < 0 ? 0 : 1);
    assert_int_equal(out->rows == NULL, s < 0);
    return s;
}

static int op_import_total(hw_store *store, outputs *out, howdah_error *reterr)
{
    int s = store->ops->import_total(store, NULL, &out->number, reterr);

    assert_i64_equal(out->number, s < 0 ? -1 : 9);
    return s;
}

static int op_status(hw_store *store, outputs *out, howdah_error *reterr)
{
    (void)out;
    return store->ops->status(store, NULL, &the_fake, reterr);
}

static int op_numbers(hw_store *store, outputs *out, howdah_error *reterr)
{
    (void)out;
    return store->ops->numbers(store, NULL, &the_fake, reterr);
}

static int op_doctor(hw_store *store, outputs *out, howdah_error *reterr)
{
    (void)out;
    return store->ops->doctor(store, NULL, &the_fake, reterr);
}

static const struct {
    op_fn call;
    bool writes;
} ops[] = {
    {op_append, true},          {op_migrate, true},         {op_stream_versions, false},
    {op_read_open, false},      {op_tree, false},           {op_head, false},
    {op_migrate_status, false}, {op_import_columns, false}, {op_import_place, false},
    {op_import_rows, false},    {op_import_total, false},   {op_status, false},
    {op_numbers, false},        {op_doctor, false},
};

static hw_store *open_flaky(void)
{
    hw_store *store = NULL;

    the_fake = (fake){.store = {.ops = &fake_ops}};
    assert_int_equal(hw_flaky_open(&the_fake.store, &store, NULL), HOWDAH_OK);
    return store;
}

static int run(hw_store *store, size_t op, outputs *out, howdah_error *err)
{
    static const outputs untouched = {.number = -1, .unsigned_number = 1, .buf = HW_BUF_INIT(100)};

    *out = untouched;
    *err = (howdah_error)HOWDAH_ERROR_INIT;
    return ops[op].call(store, out, err);
}

/* ----------------------------------------------------------------------- tests */

static void without_a_plan_everything_is_forwarded_and_counted(void **state)
{
    hw_store *store = open_flaky();
    unsigned n = 0;

    (void)state;
    assert_string_equal(store->ops->name, "fake");
    for (size_t op = 0; op < COUNT_OF(ops); op++) {
        outputs out;
        howdah_error err;

        assert_int_equal(run(store, op, &out, &err), HOWDAH_OK);
        assert_int_equal(hw_flaky_count(store), ++n);
        assert_int_equal(the_fake.done, n);
    }
    assert_int_equal(the_fake.open_cursors, 0);
    store->ops->close(store);
    assert_int_equal(the_fake.closed, 1);
}

static void a_failure_before_does_nothing_and_is_retryable(void **state)
{
    hw_store *store = open_flaky();

    (void)state;
    for (size_t op = 0; op < COUNT_OF(ops); op++) {
        unsigned done = the_fake.done;
        outputs out;
        howdah_error err;

        hw_flaky_plan(store, 1, HW_FLAKY_BEFORE);
        assert_int_equal(run(store, op, &out, &err), HOWDAH_UNAVAILABLE);
        assert_int_equal(err.flags, HOWDAH_RETRYABLE);
        assert_int_equal(the_fake.done, done);
        assert_i64_equal(out.position.global_sequence, 0);
        assert_null(out.cursor);
        /* Once only. */
        assert_int_equal(run(store, op, &out, &err), HOWDAH_OK);
        assert_int_equal(the_fake.done, done + 1);
    }
    assert_int_equal(the_fake.appended, 1);
    store->ops->close(store);
}

static void a_failure_before_can_pretend_not_to_know(void **state)
{
    hw_store *store = open_flaky();

    (void)state;
    for (size_t op = 0; op < COUNT_OF(ops); op++) {
        outputs out;
        howdah_error err;

        hw_flaky_plan(store, 1, HW_FLAKY_BEFORE_UNKNOWN);
        assert_int_equal(run(store, op, &out, &err), HOWDAH_UNAVAILABLE);
        assert_int_equal(err.flags, ops[op].writes ? HOWDAH_OUTCOME_UNKNOWN : HOWDAH_RETRYABLE);
        assert_int_equal(the_fake.done, 0);
    }
    store->ops->close(store);
}

static void a_failure_after_has_done_it_but_hands_nothing_out(void **state)
{
    unit_allocator a;
    hw_store *store;

    (void)state;
    unit_allocator_start(&a, 0);
    store = open_flaky();
    for (size_t op = 0; op < COUNT_OF(ops); op++) {
        unsigned done = the_fake.done;
        outputs out;
        howdah_error err;

        hw_flaky_plan(store, 1, HW_FLAKY_AFTER);
        assert_int_equal(run(store, op, &out, &err), HOWDAH_UNAVAILABLE);
        assert_int_equal(err.flags, ops[op].writes ? HOWDAH_OUTCOME_UNKNOWN : HOWDAH_RETRYABLE);
        assert_int_equal(the_fake.done, done + 1);
        assert_i64_equal(out.position.global_sequence, 0);
        assert_int_equal(out.report.outcome, HW_APPEND_STORED);
        assert_null(out.cursor);
        assert_null(out.ids);
    }
    assert_int_equal(the_fake.appended, 1);
    assert_int_equal(the_fake.open_cursors, 0);
    store->ops->close(store);
    unit_allocator_stop(&a);
}

static void an_operation_that_fails_by_itself_is_passed_on(void **state)
{
    hw_store *store = open_flaky();

    (void)state;
    the_fake.status = HOWDAH_DENIED;
    for (size_t op = 0; op < COUNT_OF(ops); op++) {
        outputs out;
        howdah_error err;

        assert_int_equal(run(store, op, &out, &err), HOWDAH_DENIED);
        assert_string_equal(err.message, "the fake fails");
        hw_flaky_plan(store, 1, HW_FLAKY_AFTER);
        assert_int_equal(run(store, op, &out, &err), HOWDAH_DENIED);
        assert_int_equal(err.flags, 0);
    }
    store->ops->close(store);
}

static void the_nth_operation_fails_and_only_that_one(void **state)
{
    hw_store *store = open_flaky();
    int64_t head;

    (void)state;
    assert_int_equal(store->ops->head(store, &head, NULL), HOWDAH_OK);
    hw_flaky_plan(store, 3, HW_FLAKY_BEFORE);
    assert_int_equal(store->ops->head(store, &head, NULL), HOWDAH_OK);
    assert_int_equal(store->ops->head(store, &head, NULL), HOWDAH_OK);
    assert_int_equal(store->ops->head(store, &head, NULL), HOWDAH_UNAVAILABLE);
    assert_int_equal(store->ops->head(store, &head, NULL), HOWDAH_OK);
    assert_int_equal(hw_flaky_count(store), 5);
    hw_flaky_plan(store, 1, HW_FLAKY_BEFORE);
    hw_flaky_plan(store, 1, HW_FLAKY_NEVER); /* a plan can be taken back */
    assert_int_equal(store->ops->head(store, &head, NULL), HOWDAH_OK);
    store->ops->close(store);
}

static void a_cursor_goes_through_the_shim_too(void **state)
{
    hw_store *store = open_flaky();
    hw_query query = {.batch = 17};
    const howdah_event *events = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_cursor *cursor = NULL;
    size_t n = 0;

    (void)state;
    assert_int_equal(store->ops->read_open(store, &query, &cursor, NULL), HOWDAH_OK);
    assert_int_equal(the_fake.open_cursors, 1);
    hw_flaky_plan(store, 2, HW_FLAKY_AFTER);
    assert_int_equal(cursor->store->ops->read_next(cursor, &events, &n, NULL), HOWDAH_OK);
    assert_i64_equal((int64_t)n, 2);
    events = NULL;
    n = 0;
    assert_int_equal(store->ops->read_next(cursor, &events, &n, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    assert_null(events);
    assert_i64_equal((int64_t)n, 0);
    hw_flaky_plan(store, 1, HW_FLAKY_BEFORE);
    assert_int_equal(store->ops->read_next(cursor, &events, &n, NULL), HOWDAH_UNAVAILABLE);
    the_fake.status = HOWDAH_END;
    assert_int_equal(store->ops->read_next(cursor, &events, &n, NULL), HOWDAH_END);
    assert_null(events);
    assert_int_equal(hw_flaky_count(store), 5);
    assert_int_equal(the_fake.done, 4);
    store->ops->read_close(cursor);
    assert_int_equal(hw_flaky_count(store), 5);
    assert_int_equal(the_fake.open_cursors, 0);
    store->ops->close(store);
}

static void no_memory_leaves_the_inner_store_open_and_unharmed(void **state)
{
    unit_allocator a;
    unsigned n = 0;

    (void)state;
    do {
        hw_store *store = NULL;
        hw_query query = {.batch = 17};
        hw_cursor *cursor = NULL;
        int s;

        the_fake = (fake){.store = {.ops = &fake_ops}};
        unit_allocator_start(&a, ++n);
        s = hw_flaky_open(&the_fake.store, &store, NULL);
        if (s == HOWDAH_OK)
            s = store->ops->read_open(store, &query, &cursor, NULL);
        assert_int_equal(s, a.failed ? HOWDAH_NO_MEMORY : HOWDAH_OK);
        if (cursor)
            store->ops->read_close(cursor);
        assert_int_equal(the_fake.open_cursors, 0);
        assert_int_equal(the_fake.closed, 0);
        if (store)
            store->ops->close(store);
        unit_allocator_stop(&a);
    } while (a.failed);
    assert_int_equal(n, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_plan_everything_is_forwarded_and_counted),
        cmocka_unit_test(a_failure_before_does_nothing_and_is_retryable),
        cmocka_unit_test(a_failure_before_can_pretend_not_to_know),
        cmocka_unit_test(a_failure_after_has_done_it_but_hands_nothing_out),
        cmocka_unit_test(an_operation_that_fails_by_itself_is_passed_on),
        cmocka_unit_test(the_nth_operation_fails_and_only_that_one),
        cmocka_unit_test(a_cursor_goes_through_the_shim_too),
        cmocka_unit_test(no_memory_leaves_the_inner_store_open_and_unharmed),
    };

    return cmocka_run_group_tests_name("flaky", tests, NULL, NULL);
}
