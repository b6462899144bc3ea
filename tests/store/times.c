/* times.c - appending, correcting and asking, for the tests of store/times.h. */
#include "times.h"

#include <stdio.h>

#include "engine/batch.h"

const hw_times_ops *times_ops(const ss *t)
{
    assert_non_null(t->store->ops->times);
    return t->store->ops->times;
}

/* ---- events */

howdah_event a_fact(const char *stream, const char *type)
{
    howdah_event event;

    hw_event_init(&event);
    assert_true(hw_uuid_v7(&event.id));
    event.stream = S(stream);
    event.type = S(type);
    event.data = S("{}");
    return event;
}

howdah_event a_fact_at(const char *stream, const char *type, int64_t valid_time_us)
{
    howdah_event event = a_fact(stream, type);

    event.valid_time_us = valid_time_us;
    return event;
}

howdah_event a_correction_of(const howdah_event *event)
{
    howdah_event next = *event;

    assert_true(event->global_sequence > 0);
    assert_true(hw_uuid_v7(&next.id));
    next.global_sequence = next.version = HOWDAH_ABSENT;
    next.recorded_at_us = HW_TIME_ABSENT;
    next.has_corrects = next.has_family = true;
    next.corrects = event->id;
    next.family = event->has_family ? event->family : event->id;
    next.revision = event->revision + 1;
    next.reason = S("a slip");
    next.retracts = false;
    return next;
}

howdah_event a_retraction_of(const howdah_event *event)
{
    howdah_event next = a_correction_of(event);

    next.retracts = true;
    next.data = S("null");
    next.content_type = HW_STR_NULL;
    return next;
}

static hw_append_outcome try_all(hw_store *store, howdah_event *events, size_t n)
{
    const howdah_event *list[64];
    howdah_position positions[64];
    hw_append_report report = {.outcome = HW_APPEND_STORED};
    hw_batch batch;

    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++)
        list[i] = &events[i];
    ok(hw_batch_init(&batch, list, n, HOWDAH_EXPECT_ANY, &ss_error));
    ok(store->ops->append(store, &batch, NULL, positions, &report, &ss_error));
    hw_batch_done(&batch);
    /* A store that compares by itself says it of the position. */
    if (report.outcome == HW_APPEND_STORED && positions[0].already_stored)
        return HW_APPEND_ID_TAKEN;
    for (size_t i = 0; report.outcome == HW_APPEND_STORED && i < n; i++) {
        events[i].global_sequence = positions[i].global_sequence;
        events[i].version = positions[i].version;
        events[i].recorded_at_us = positions[i].recorded_at_us;
        if (events[i].valid_time_us == HW_TIME_ABSENT)
            events[i].valid_time_us = positions[i].recorded_at_us;
    }
    return report.outcome;
}

hw_append_outcome times_try(hw_store *store, howdah_event *event)
{
    return try_all(store, event, 1);
}

void times_put_all(const ss *t, howdah_event *events, size_t n)
{
    assert_int_equal(try_all(t->store, events, n), HW_APPEND_STORED);
}

void times_put(const ss *t, howdah_event *event)
{
    times_put_all(t, event, 1);
}

/* ---- queries */

typedef int (*event_fn)(void *ctx, const howdah_event *event);

static void walk(const ss *t, const hw_times_query *query, event_fn fn, void *ctx)
{
    const hw_times_ops *ops = times_ops(t);
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    size_t n = 0;
    int s;

    ok(ops->query_open(t->store, query, &cursor, &ss_error));
    while ((s = cursor->store->ops->read_next(cursor, &events, &n, &ss_error)) == HOWDAH_OK) {
        assert_true(n > 0 && (query->batch == 0 || n <= query->batch));
        for (size_t i = 0; i < n; i++)
            (void)fn(ctx, &events[i]);
    }
    expect(s, HOWDAH_END);
    cursor->store->ops->read_close(cursor);
}

static char found[16384];

static int add_data(void *ctx, const howdah_event *event)
{
    size_t len = strlen(found);

    (void)ctx;
    assert_int_equal(event->data.s[event->data.len], '\0');
    (void)snprintf(found + len, sizeof found - len, "%s%s", len > 0 ? " " : "", event->data.s);
    return 0;
}

static int add_sequence(void *ctx, const howdah_event *event)
{
    size_t len = strlen(found);

    (void)ctx;
    (void)snprintf(found + len, sizeof found - len, "%s%lld", len > 0 ? " " : "",
                   (long long)event->global_sequence);
    return 0;
}

const char *times_data(const ss *t, const hw_times_query *query)
{
    found[0] = '\0';
    walk(t, query, add_data, NULL);
    return found;
}

const char *times_sequences(const ss *t, const hw_times_query *query)
{
    found[0] = '\0';
    walk(t, query, add_sequence, NULL);
    return found;
}

howdah_event *times_load(const ss *t, const hw_uuid *id)
{
    hw_query query = {.ids = id, .ids_n = 1};
    const howdah_event *events = NULL;
    howdah_event *copy = NULL;
    hw_cursor *cursor = NULL;
    size_t n = 0;

    ok(t->store->ops->read_open(t->store, &query, &cursor, &ss_error));
    expect(t->store->ops->read_next(cursor, &events, &n, &ss_error), HOWDAH_OK);
    assert_int_equal(n, 1);
    ok(hw_event_clone(events, &copy, &ss_error));
    t->store->ops->read_close(cursor);
    return copy;
}

int64_t times_count(const ss *t, const hw_times_query *query)
{
    int64_t n = -1;

    ok(times_ops(t)->count(t->store, query, &n, &ss_error));
    return n;
}

howdah_knowledge times_knowledge(const ss *t, int64_t known_at)
{
    howdah_knowledge knowledge = HOWDAH_KNOWLEDGE_INIT;

    ok(times_ops(t)->knowledge(t->store, known_at, &knowledge, &ss_error));
    assert_true(knowledge.known_at_us == known_at);
    return knowledge;
}

hw_times_query all_events(void)
{
    hw_times_query query = HW_TIMES_QUERY_INIT;

    return query;
}

hw_times_query as_of(int64_t valid_at, int64_t known_at)
{
    hw_times_query query = all_events();

    query.view = HOWDAH_VIEW_AS_OF;
    query.valid_at = valid_at;
    query.known_at = known_at;
    return query;
}

/* ---- purges */

static howdah_purge_record purge(const ss *t, hw_purge what)
{
    howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;

    what.reason = S("asked to be forgotten");
    what.actor = S("clerk");
    ok(times_ops(t)->purge(t->store, &what, &record, &ss_error));
    return record;
}

howdah_purge_record purge_ids(const ss *t, const hw_uuid *ids, size_t n, bool families)
{
    return purge(t, (hw_purge){.ids = ids, .ids_n = n, .families = families});
}

howdah_purge_record purge_stream(const ss *t, const char *stream)
{
    return purge(t, (hw_purge){.stream = S(stream)});
}
