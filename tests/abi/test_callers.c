/*
 * test_callers.c - programs that were built with older and newer headers, by the sizes they pass.
 *
 * An older one knows the first members of a struct only.  Behind them lies what was on its stack:
 * SHARDS here, which no reader survives and no writer may touch.  A newer one knows more, and has
 * set it to 0, or to something that this library does not understand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <howdah/howdah.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS 0xA5
#define ROOM 1024
#define MANY 3 /* elements of an array */

typedef union space {
    size_t size;
    char bytes[ROOM];
    max_align_t aligned;
} space;

/* A struct as a caller of that size has it. */
static void lay(space *to, const void *whole, size_t whole_size, size_t size)
{
    memset(to->bytes, SHARDS, sizeof to->bytes);
    if (size > whole_size)
        memset(to->bytes, 0, size);
    memcpy(to->bytes, whole, size < whole_size ? size : whole_size);
    to->size = size;
}

/* Nothing behind the size was touched, and the size is as it was. */
static void assert_left_alone(const space *given, size_t size)
{
    assert_int_equal(given->size, size);
    for (size_t i = size; i < ROOM; i++)
        assert_int_equal((unsigned char)given->bytes[i], SHARDS);
}

typedef struct fixture {
    howdah_bus *bus;
    char dir[32]; /* of a file, which a publisher needs */
    char url[64];
    howdah_event *event;
    char id[HOWDAH_UUID_SIZE];
} fixture;

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)event;
    (void)delivery;
    (*(int *)ctx)++;
    return HOWDAH_HANDLED;
}

static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    (void)job;
    (*(int *)ctx)++;
    return howdah_work_complete(work, NULL);
}

static int setup(void **state)
{
    static fixture f;
    howdah_builder *b = NULL;

    memset(&f, 0, sizeof f);
    assert_int_equal(howdah_open("sqlite::memory:", NULL, &f.bus, NULL), HOWDAH_OK);
    assert_int_equal(howdah_migrate(f.bus, NULL, NULL), HOWDAH_OK);
    assert_int_equal(howdah_builder_new(&b, NULL), HOWDAH_OK);
    howdah_builder_set_stream(b, "s");
    howdah_builder_set_type(b, "t");
    assert_int_equal(howdah_builder_build(b, &f.event, NULL), HOWDAH_OK);
    assert_int_equal(howdah_append(f.bus, f.event, NULL, NULL, NULL), HOWDAH_OK);
    howdah_event_id(f.event, f.id);
    howdah_builder_free(b);
    *state = &f;
    return 0;
}

static int setup_file(void **state)
{
    howdah_bus *bus = NULL;
    fixture *f;

    (void)setup(state);
    f = *state;
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/howdah-abi.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->url, sizeof f->url, "sqlite:%s/log.db", f->dir);
    assert_int_equal(howdah_open(f->url, NULL, &bus, NULL), HOWDAH_OK);
    assert_int_equal(howdah_migrate(bus, NULL, NULL), HOWDAH_OK);
    assert_int_equal(howdah_close(bus), HOWDAH_OK);
    return 0;
}

static void remove_file(const fixture *f)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char path[64];

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/log.db%s", f->dir, suffixes[i]);
        (void)remove(path);
    }
    (void)remove(f->dir);
}

static int teardown(void **state)
{
    fixture *f = *state;

    if (f->dir[0])
        remove_file(f);

    howdah_event_free(f->event);
    howdah_close(f->bus);
    return 0;
}

/* ------------------------------------------------------------ what they pass */

/* Each call with options of that size; the status that it had. */
typedef int (*options_call)(fixture *f, space *options);

static int migrate(fixture *f, space *o)
{
    return howdah_migrate(f->bus, (howdah_migrate_options *)o, NULL);
}

static int append(fixture *f, space *o)
{
    return howdah_append(f->bus, f->event, (howdah_append_options *)o, NULL, NULL);
}

static int read_open(fixture *f, space *o)
{
    howdah_reader *reader = NULL;
    int s = howdah_reader_open(f->bus, (howdah_reader_options *)o, &reader, NULL);

    howdah_reader_close(reader);
    return s;
}

static int tail_open(fixture *f, space *o)
{
    howdah_tail *tail = NULL;
    int s = howdah_tail_open(f->bus, (howdah_tail_options *)o, &tail, NULL);

    howdah_tail_close(tail);
    return s;
}

/* There is no such table: that it gets as far as to look says that the options were taken. */
static int import(fixture *f, space *o)
{
    int s = howdah_import(f->bus, (howdah_import_options *)o, NULL, NULL);

    return s == HOWDAH_NOT_FOUND ? HOWDAH_OK : s;
}

static int subscribe(fixture *f, space *o)
{
    howdah_subscription *sub = NULL;
    int s = howdah_subscribe(f->bus, (howdah_subscribe_options *)o, &sub, NULL);

    if (s >= 0)
        s = howdah_subscription_wait(sub, 10000, NULL);
    return s < 0 ? s : howdah_unsubscribe(sub, NULL);
}

static int on_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    (void)ctx;
    (void)dead_letter;
    return 0;
}

static int dead_letters(fixture *f, space *o)
{
    return howdah_dead_letters_walk(f->bus, (howdah_dead_letters_options *)o, on_dead_letter, NULL,
                                    NULL);
}

static int push(fixture *f, space *o)
{
    return howdah_queue_push(f->bus, "q", (howdah_new_job *)o, NULL, NULL);
}

static int claim(fixture *f, space *o)
{
    howdah_jobs *jobs = NULL;
    int s = howdah_queue_claim(f->bus, "q", 1, (howdah_claim_options *)o, &jobs, NULL);

    howdah_jobs_free(jobs);
    return s == HOWDAH_END ? HOWDAH_OK : s;
}

static int work(fixture *f, space *o)
{
    howdah_worker *worker = NULL;
    int s = howdah_worker_new(f->bus, (howdah_worker_options *)o, &worker, NULL);

    if (s >= 0)
        s = howdah_worker_run(worker, 0, NULL);
    howdah_worker_free(worker);
    return s;
}

static int queue_configure(fixture *f, space *o)
{
    return howdah_queue_configure(f->bus, "q", (howdah_queue_options *)o, NULL);
}

static int on_logged(void *ctx, const howdah_job *job)
{
    (void)ctx;
    (void)job;
    return 0;
}

static int queue_history(fixture *f, space *o)
{
    return howdah_queue_history_walk(f->bus, "q", (howdah_queue_history_options *)o, on_logged,
                                     NULL, NULL);
}

static int bind(fixture *f, space *o)
{
    int s = howdah_queue_bind(f->bus, "q", "t", (howdah_bind_options *)o, NULL);

    return s == HOWDAH_END ? HOWDAH_OK : s;
}

static int correct(fixture *f, space *o)
{
    return howdah_correct(f->bus, (howdah_correction *)o, NULL, NULL);
}

static int query(fixture *f, space *o)
{
    int64_t n = 0;
    int s = howdah_query_count(f->bus, (howdah_query_options *)o, &n, NULL, NULL);

    assert_true(s < 0 || n > 0);
    return s;
}

static int on_change(void *ctx, howdah_change change, const howdah_event *before,
                     const howdah_event *after)
{
    (void)ctx;
    (void)change;
    (void)before;
    (void)after;
    return 0;
}

static int diff(fixture *f, space *o)
{
    return howdah_diff(f->bus, (howdah_diff_options *)o, on_change, NULL, NULL, NULL);
}

static int snapshot(fixture *f, space *o)
{
    return howdah_snapshot_store(f->bus, (howdah_snapshot *)o, 0, NULL);
}

static int purge(fixture *f, space *o)
{
    return howdah_purge(f->bus, (howdah_purge_options *)o, NULL, NULL);
}

static int publisher(fixture *f, space *o)
{
    howdah_publisher *publisher = NULL;
    int s = howdah_publisher_new(f->url, NULL, (howdah_publisher_options *)o, &publisher, NULL);

    howdah_publisher_free(publisher);
    return s;
}

static int publish(fixture *f, space *o)
{
    howdah_publisher *publisher = NULL;
    const howdah_event *events[] = {f->event};
    int s = howdah_publisher_new(f->url, NULL, NULL, &publisher, NULL);

    if (s >= 0)
        s = howdah_publisher_append(publisher, events, 1, (howdah_append_options *)o, NULL, NULL);
    howdah_publisher_free(publisher);
    return s;
}

/* Tries the sizes that an older, this and a newer caller have. */
static void try_sizes(fixture *f, options_call call, const void *whole, size_t size,
                      size_t oldest_size)
{
    space o;

    for (size_t older = oldest_size; older <= size; older += sizeof(size_t)) {
        lay(&o, whole, size, older);
        assert_int_equal(call(f, &o), HOWDAH_OK);
        assert_left_alone(&o, older);
    }
    lay(&o, whole, size, size + 64);
    assert_int_equal(call(f, &o), HOWDAH_OK);
    lay(&o, whole, size, size + 64);
    o.bytes[size + 63] = 1;
    assert_int_equal(call(f, &o), HOWDAH_MISUSE);
    lay(&o, whole, size, size + 1);
    assert_int_equal(call(f, &o), HOWDAH_MISUSE);
    lay(&o, whole, size, sizeof(size_t));
    assert_int_equal(call(f, &o), HOWDAH_MISUSE);
    lay(&o, whole, size, 0);
    assert_int_equal(call(f, &o), HOWDAH_MISUSE);
}

/* From the member that has to be there on, each member more is a version of its own. */
#define END_OF(type, member)                                                                       \
    ((offsetof(type, member) + sizeof(((type *)NULL)->member) + 7U) & ~(size_t)7)
#define TRY(f, call, whole, oldest)                                                                \
    try_sizes(f, call, &(whole), sizeof(whole), END_OF(__typeof__(whole), oldest))

static void options_of_the_log_may_be_of_another_age(void **state)
{
    fixture *f = *state;
    howdah_migrate_options m = HOWDAH_MIGRATE_OPTIONS_INIT;
    howdah_append_options a = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_reader_options r = HOWDAH_READER_OPTIONS_INIT;
    howdah_tail_options t = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_import_options i = HOWDAH_IMPORT_OPTIONS_INIT;

    i.table = "no_such_table";
    TRY(f, migrate, m, note);
    TRY(f, append, a, expected_version);
    TRY(f, read_open, r, stream);
    TRY(f, tail_open, t, pattern);
    TRY(f, import, i, table);
}

static void options_of_a_publisher_may_be_of_another_age(void **state)
{
    fixture *f = *state;
    howdah_publisher_options p = HOWDAH_PUBLISHER_OPTIONS_INIT;
    howdah_append_options a = HOWDAH_APPEND_OPTIONS_INIT;

    TRY(f, publisher, p, sessions);
    TRY(f, publish, a, expected_version);
}

static void options_of_a_subscription_may_be_of_another_age(void **state)
{
    fixture *f = *state;
    howdah_subscribe_options s = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_dead_letters_options l = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    int handled = 0;

    s.subscriber_id = "p";
    s.handler = on_event;
    s.ctx = &handled;
    TRY(f, subscribe, s, ctx);
    assert_int_equal(handled, 1);
    TRY(f, dead_letters, l, subscriber_id);
}

static void options_of_queues_may_be_of_another_age(void **state)
{
    fixture *f = *state;
    howdah_new_job j = HOWDAH_NEW_JOB_INIT;
    howdah_claim_options c = HOWDAH_CLAIM_OPTIONS_INIT;
    howdah_worker_options w = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_queue_options q = HOWDAH_QUEUE_OPTIONS_INIT;
    howdah_queue_history_options l = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    howdah_bind_options b = HOWDAH_BIND_OPTIONS_INIT;
    int handled = 0;

    w.queue = "q";
    w.handler = on_job;
    w.ctx = &handled;
    TRY(f, push, j, data_len);
    TRY(f, claim, c, lease_ms);
    TRY(f, work, w, ctx);
    TRY(f, queue_configure, q, abandon_after_ms);
    TRY(f, queue_history, l, status);
    TRY(f, bind, b, key);
}

static void options_of_two_times_may_be_of_another_age(void **state)
{
    fixture *f = *state;
    howdah_correction c = HOWDAH_CORRECTION_INIT;
    howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_diff_options d = HOWDAH_DIFF_OPTIONS_INIT;
    howdah_snapshot s = HOWDAH_SNAPSHOT_INIT;
    howdah_purge_options p = HOWDAH_PURGE_OPTIONS_INIT;
    const char *ids[] = {f->id};

    c.event_id = f->id;
    c.reason = "because";
    c.data = "{}";
    c.data_len = 2;
    d.known_at_us = 1;
    s.stream = "s";
    s.version = 1;
    s.data = "{}";
    s.data_len = 2;
    p.ids = ids;
    p.ids_n = 1;
    p.reason = "because";
    TRY(f, correct, c, data_len);
    TRY(f, query, q, view);
    TRY(f, diff, d, known_at_us);
    TRY(f, snapshot, s, data_len);
    TRY(f, purge, p, reason);
}

/* ------------------------------------------------------------- what they get */

typedef int (*info_call)(fixture *f, void *ret);

static int subscription_info(fixture *f, void *ret)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    int handled = 0;
    int s;

    o.subscriber_id = "p";
    o.handler = on_event;
    o.ctx = &handled;
    assert_int_equal(howdah_subscribe(f->bus, &o, &sub, NULL), HOWDAH_OK);
    s = howdah_subscription_info_get(sub, ret);
    assert_int_equal(howdah_unsubscribe(sub, NULL), HOWDAH_OK);
    return s;
}

static int worker_info(fixture *f, void *ret)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_worker *worker = NULL;
    int s;

    o.queue = "q";
    o.handler = on_job;
    assert_int_equal(howdah_worker_new(f->bus, &o, &worker, NULL), HOWDAH_OK);
    s = howdah_worker_info_get(worker, ret);
    howdah_worker_free(worker);
    return s;
}

static int setting_info(fixture *f, void *ret)
{
    (void)f;
    return howdah_settings_describe(0, ret);
}

static int queue_setting_info(fixture *f, void *ret)
{
    (void)f;
    return howdah_queue_settings_describe(0, ret);
}

static int upcast_counts(fixture *f, void *ret)
{
    return howdah_upcast_counts_get(f->bus, ret);
}

static int knowledge(fixture *f, void *ret)
{
    howdah_reader *reader = NULL;
    int s;

    assert_int_equal(howdah_query_open(f->bus, NULL, &reader, NULL), HOWDAH_OK);
    s = howdah_reader_knowledge(reader, ret);
    howdah_reader_close(reader);
    return s;
}

static int purge_record(fixture *f, void *ret)
{
    howdah_purge_options o = HOWDAH_PURGE_OPTIONS_INIT;

    o.stream = "s";
    o.reason = "because";
    return howdah_purge(f->bus, &o, ret, NULL);
}

static int position(fixture *f, void *ret)
{
    return howdah_append(f->bus, f->event, NULL, ret, NULL);
}

static int corrected(fixture *f, void *ret)
{
    howdah_correction c = HOWDAH_CORRECTION_INIT;

    c.event_id = f->id;
    c.reason = "because";
    c.data = "{}";
    c.data_len = 2;
    return howdah_correct(f->bus, &c, ret, NULL);
}

static int pushed(fixture *f, void *ret)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;

    return howdah_queue_push(f->bus, "q", &job, ret, NULL);
}

static int counted(fixture *f, void *ret)
{
    int64_t n = 0;

    return howdah_query_count(f->bus, NULL, &n, ret, NULL);
}

static int failure(fixture *f, void *ret)
{
    howdah_event *event = NULL;

    return howdah_event_get(f->bus, "x", &event, ret) == HOWDAH_INVALID ? HOWDAH_OK : HOWDAH_FAILED;
}

static int published(fixture *f, void *ret)
{
    howdah_publisher *publisher = NULL;
    const howdah_event *events[] = {f->event};
    int s = howdah_publisher_new(f->url, NULL, NULL, &publisher, NULL);

    if (s >= 0)
        s = howdah_publisher_append(publisher, events, 1, NULL, ret, NULL);
    howdah_publisher_free(publisher);
    return s;
}

static int publisher_counts(fixture *f, void *ret)
{
    howdah_publisher *publisher = NULL;
    int s = howdah_publisher_new(f->url, NULL, NULL, &publisher, NULL);

    if (s >= 0)
        s = howdah_publisher_counts_get(publisher, ret);
    howdah_publisher_free(publisher);
    return s;
}

/* Whatever the caller's size is, no byte behind it is written, and those before it are the same. */
static void get_sizes(fixture *f, info_call call, size_t size)
{
    space whole;
    space less;

    memset(whole.bytes, SHARDS, sizeof whole.bytes);
    whole.size = size;
    assert_int_equal(call(f, &whole), HOWDAH_OK);
    assert_left_alone(&whole, size);
    for (size_t older = 2 * sizeof(size_t); older < size; older += sizeof(size_t)) {
        memset(less.bytes, SHARDS, sizeof less.bytes);
        less.size = older;
        assert_int_equal(call(f, &less), HOWDAH_OK);
        assert_left_alone(&less, older);
    }
    memset(less.bytes, SHARDS, sizeof less.bytes);
    less.size = size < ROOM - 8 ? size + 8 : size;
    assert_int_equal(call(f, &less), HOWDAH_OK);
    for (size_t i = size; i < ROOM; i++)
        assert_int_equal((unsigned char)less.bytes[i], SHARDS);
}

static void what_is_filled_in_ends_where_the_callers_struct_ends(void **state)
{
    fixture *f = *state;

    get_sizes(f, subscription_info, sizeof(howdah_subscription_info));
    get_sizes(f, worker_info, sizeof(howdah_worker_info));
    get_sizes(f, setting_info, sizeof(howdah_setting_info));
    get_sizes(f, queue_setting_info, sizeof(howdah_queue_setting_info));
    get_sizes(f, upcast_counts, sizeof(howdah_upcast_counts));
    get_sizes(f, knowledge, sizeof(howdah_knowledge));
    get_sizes(f, purge_record, sizeof(howdah_purge_record));
    get_sizes(f, position, sizeof(howdah_position));
    get_sizes(f, corrected, sizeof(howdah_position));
    get_sizes(f, pushed, sizeof(howdah_pushed));
    get_sizes(f, counted, sizeof(howdah_knowledge));
    get_sizes(f, failure, sizeof(howdah_error));
}

static void what_a_publisher_fills_in_ends_where_the_callers_struct_ends(void **state)
{
    fixture *f = *state;
    howdah_publisher_counts without = {0};

    get_sizes(f, published, sizeof(howdah_position));
    get_sizes(f, publisher_counts, sizeof(howdah_publisher_counts));
    assert_int_equal(publisher_counts(f, &without), HOWDAH_MISUSE);
}

static void a_struct_without_a_size_gets_nothing(void **state)
{
    fixture *f = *state;
    howdah_subscription_info i = {0};
    howdah_worker_info w = {0};
    howdah_setting_info s = {0};
    howdah_queue_setting_info q = {0};
    howdah_upcast_counts u = {0};
    howdah_knowledge k = {0};

    assert_int_equal(subscription_info(f, &i), HOWDAH_MISUSE);
    assert_null(i.subscriber_id);
    assert_int_equal(worker_info(f, &w), HOWDAH_MISUSE);
    assert_int_equal(setting_info(f, &s), HOWDAH_MISUSE);
    assert_null(s.key);
    assert_int_equal(queue_setting_info(f, &q), HOWDAH_MISUSE);
    assert_null(q.key);
    assert_int_equal(upcast_counts(f, &u), HOWDAH_MISUSE);
    assert_int_equal(knowledge(f, &k), HOWDAH_MISUSE);
}

/* ------------------------------------------------------------ arrays of them */

/* The bytes of a caller whose elements are of that size; only the first one says so. */
static void lay_array(space *to, size_t size)
{
    memset(to->bytes, SHARDS, sizeof to->bytes);
    to->size = size;
}

static size_t size_at(const space *array, size_t index, size_t stride)
{
    size_t size = 0;

    memcpy(&size, array->bytes + index * stride, sizeof size);
    return size;
}

/* The part of a member that a caller of that size has, as the library wrote it. */
static void assert_member(const space *array, size_t index, size_t stride, size_t offset,
                          const void *wanted, size_t len)
{
    if (offset + len <= stride)
        assert_memory_equal(array->bytes + index * stride + offset, wanted, len);
}

static void assert_array_ends(const space *array, size_t stride, size_t known)
{
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(size_at(array, i, stride), stride);
        for (size_t at = known; at < stride; at++)
            assert_int_equal((unsigned char)array->bytes[i * stride + at], SHARDS);
    }
    for (size_t at = MANY * stride; at < ROOM; at++)
        assert_int_equal((unsigned char)array->bytes[at], SHARDS);
}

/* Three events of one stream, which is new. */
static void append_three(fixture *f, const char *stream, void *ret, int wanted)
{
    howdah_event *events[MANY] = {NULL};
    howdah_builder *b = NULL;

    assert_int_equal(howdah_builder_new(&b, NULL), HOWDAH_OK);
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, "t");
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(howdah_builder_build(b, &events[i], NULL), HOWDAH_OK);
    assert_int_equal(
        howdah_append_batch(f->bus, (const howdah_event *const *)events, MANY, NULL, ret, NULL),
        wanted);
    for (size_t i = 0; i < MANY; i++)
        howdah_event_free(events[i]);
    howdah_builder_free(b);
}

static void an_array_of_positions_may_be_of_another_age(void **state)
{
    const size_t ours = sizeof(howdah_position);
    fixture *f = *state;
    space array;
    char stream[16];

    for (size_t size = 2 * sizeof(size_t); size <= ours + 64; size += sizeof(size_t)) {
        (void)snprintf(stream, sizeof stream, "n-%zu", size);
        lay_array(&array, size);
        append_three(f, stream, &array, HOWDAH_OK);
        assert_array_ends(&array, size, ours);
        for (size_t i = 0; i < MANY; i++) {
            int64_t version = (int64_t)i + 1;

            assert_member(&array, i, size, offsetof(howdah_position, version), &version,
                          sizeof version);
        }
    }
}

static int push_three(fixture *f, void *ret)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    const howdah_new_job *jobs[MANY] = {&job, &job, &job};

    return howdah_queue_push_batch(f->bus, "q", jobs, MANY, ret, NULL);
}

static void an_array_of_pushed_jobs_may_be_of_another_age(void **state)
{
    const size_t ours = sizeof(howdah_pushed);
    fixture *f = *state;
    space array;
    int64_t id = 0;

    for (size_t size = 2 * sizeof(size_t); size <= ours + 64; size += sizeof(size_t)) {
        lay_array(&array, size);
        assert_int_equal(push_three(f, &array), HOWDAH_OK);
        assert_array_ends(&array, size, ours);
        for (size_t i = 0; i < MANY; i++) {
            id++;
            assert_member(&array, i, size, offsetof(howdah_pushed, id), &id, sizeof id);
        }
    }
}

/* Claims three jobs and lays their acks as a caller of that size would. */
static void lay_acks(fixture *f, space *array, size_t stride)
{
    howdah_jobs *jobs = NULL;

    assert_int_equal(push_three(f, NULL), HOWDAH_OK);
    assert_int_equal(howdah_queue_claim(f->bus, "q", MANY, NULL, &jobs, NULL), HOWDAH_OK);
    memset(array->bytes, SHARDS, sizeof array->bytes);
    for (size_t i = 0; i < MANY; i++) {
        const howdah_job *job = howdah_jobs_at(jobs, i);
        howdah_job_ack ack = HOWDAH_JOB_ACK_INIT;

        ack.size = i == 0 ? stride : 0;
        ack.id = howdah_job_id(job);
        ack.token = howdah_job_token(job);
        memset(array->bytes + i * stride, 0, stride);
        memcpy(array->bytes + i * stride, &ack, stride < sizeof ack ? stride : sizeof ack);
    }
    howdah_jobs_free(jobs);
}

static int ack_three(fixture *f, space *array)
{
    return howdah_jobs_ack(f->bus, (howdah_job_ack *)array, MANY, NULL);
}

static void an_array_of_acks_may_be_of_another_age(void **state)
{
    const size_t ours = sizeof(howdah_job_ack);
    const howdah_ack_outcome done = HOWDAH_ACKED_DONE;
    fixture *f = *state;
    space array;

    for (size_t size = END_OF(howdah_job_ack, token); size <= ours + 64; size += sizeof(size_t)) {
        lay_acks(f, &array, size);
        assert_int_equal(ack_three(f, &array), HOWDAH_OK);
        for (size_t i = 0; i < MANY; i++)
            assert_member(&array, i, size, offsetof(howdah_job_ack, outcome), &done, sizeof done);
        for (size_t at = MANY * size; at < ROOM; at++)
            assert_int_equal((unsigned char)array.bytes[at], SHARDS);
    }
}

static void an_ack_that_asks_for_what_we_do_not_know_changes_nothing(void **state)
{
    const size_t size = sizeof(howdah_job_ack) + 64;
    fixture *f = *state;
    space array;

    lay_acks(f, &array, size);
    array.bytes[MANY * size - 1] = 1;
    assert_int_equal(ack_three(f, &array), HOWDAH_MISUSE);
    array.bytes[MANY * size - 1] = 0;
    assert_int_equal(ack_three(f, &array), HOWDAH_OK);
}

static int64_t events_of(fixture *f)
{
    int64_t n = 0;

    assert_int_equal(howdah_query_count(f->bus, NULL, &n, NULL, NULL), HOWDAH_OK);
    return n;
}

/* Nothing was stored: what is stored without an answer would be stored twice. */
static void an_array_without_a_size_is_refused_before_anything_is_stored(void **state)
{
    static const size_t wrong[] = {0, 4, sizeof(size_t), 8 * sizeof(size_t) + 1, 1 << 20};
    fixture *f = *state;
    int64_t before = events_of(f);
    howdah_jobs *jobs = NULL;
    space array;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lay_array(&array, wrong[i]);
        append_three(f, "never", &array, HOWDAH_MISUSE);
        assert_int_equal(position(f, &array), HOWDAH_MISUSE);
        assert_int_equal(corrected(f, &array), HOWDAH_MISUSE);
        assert_int_equal(purge_record(f, &array), HOWDAH_MISUSE);
        assert_int_equal(push_three(f, &array), HOWDAH_MISUSE);
        assert_int_equal(pushed(f, &array), HOWDAH_MISUSE);
        assert_int_equal(counted(f, &array), HOWDAH_MISUSE);
        assert_int_equal(ack_three(f, &array), HOWDAH_MISUSE);
        assert_int_equal(array.size, wrong[i]);
        for (size_t at = sizeof(size_t); at < ROOM; at++)
            assert_int_equal((unsigned char)array.bytes[at], SHARDS);
    }
    assert_int_equal(events_of(f), before);
    assert_int_equal(howdah_queue_claim(f->bus, "q", MANY, NULL, &jobs, NULL), HOWDAH_END);
}

static void arrays_may_be_left_out_and_may_be_empty(void **state)
{
    fixture *f = *state;
    howdah_position none = {0};
    howdah_pushed no_job = {0};

    append_three(f, "n", NULL, HOWDAH_OK);
    assert_int_equal(push_three(f, NULL), HOWDAH_OK);
    assert_int_equal(howdah_append_batch(f->bus, NULL, 0, NULL, &none, NULL), HOWDAH_OK);
    assert_int_equal(howdah_queue_push_batch(f->bus, "q", NULL, 0, &no_job, NULL), HOWDAH_OK);
    assert_int_equal(howdah_jobs_ack(f->bus, NULL, 0, NULL), HOWDAH_OK);
}

static void a_setting_that_the_caller_has_no_room_for_is_refused(void **state)
{
    howdah_queue_options whole = HOWDAH_QUEUE_OPTIONS_INIT;
    space o;

    (void)state;
    lay(&o, &whole, sizeof whole, offsetof(howdah_queue_options, hold_key));
    assert_int_equal(howdah_queue_options_set((howdah_queue_options *)&o, "history", "1h", NULL),
                     HOWDAH_OK);
    assert_int_equal(howdah_queue_options_set((howdah_queue_options *)&o, "hold_key", "true", NULL),
                     HOWDAH_MISUSE);
    assert_left_alone(&o, offsetof(howdah_queue_options, hold_key));
    assert_int_equal(howdah_queue_options_get((howdah_queue_options *)&o, "history"), 3600000);
    assert_int_equal(howdah_queue_options_get((howdah_queue_options *)&o, "hold_key"),
                     HOWDAH_ABSENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(options_of_the_log_may_be_of_another_age, setup, teardown),
        cmocka_unit_test_setup_teardown(options_of_a_publisher_may_be_of_another_age, setup_file,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            what_a_publisher_fills_in_ends_where_the_callers_struct_ends, setup_file, teardown),
        cmocka_unit_test_setup_teardown(options_of_a_subscription_may_be_of_another_age, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(options_of_queues_may_be_of_another_age, setup, teardown),
        cmocka_unit_test_setup_teardown(options_of_two_times_may_be_of_another_age, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_filled_in_ends_where_the_callers_struct_ends, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_struct_without_a_size_gets_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(an_array_of_positions_may_be_of_another_age, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_array_of_pushed_jobs_may_be_of_another_age, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_array_of_acks_may_be_of_another_age, setup, teardown),
        cmocka_unit_test_setup_teardown(an_ack_that_asks_for_what_we_do_not_know_changes_nothing,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_array_without_a_size_is_refused_before_anything_is_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(arrays_may_be_left_out_and_may_be_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(a_setting_that_the_caller_has_no_room_for_is_refused, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
