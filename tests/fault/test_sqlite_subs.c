/*
 * test_sqlite_subs.c - what moves a subscription, on a file system that fails its nth operation.
 *
 * For every operation and every n, until it gets through untouched:
 *
 *   - success means that it is stored, a failure without OUTCOME_UNKNOWN that it is not, all of it;
 *   - after that, on a healthy file system, the same operation succeeds, and what is stored by then
 *     is stored once;
 *   - integrity_check is ok.
 *
 * And who waits for the disk, and who need not.
 */
#include "engine/batch.h"
#include "engine/event.h"
#include "sqlite_help.h"
#include "sqlite_vfs.h"
#include "store/store.h"
#undef skip /* of cmocka: it is a member of hw_sub_ops */

static howdah_error error = HOWDAH_ERROR_INIT;

#define SUB hw_str_of("s")

typedef struct scene {
    const place *p;
    hw_store *store;
    int64_t token;
    howdah_event event;
} scene;

static hw_store *open_store(const place *p)
{
    hw_config config = {.url = p->url, .statement_timeout_ms = 10000, .busy_timeout_ms = 1000};
    hw_store *store = NULL;

    must(hw_store_open(&config, &store, &error), &error);
    return store;
}

static int keep_token(void *ctx, const hw_sub_row *row)
{
    *(int64_t *)ctx = row->token;
    return 0;
}

static int take(scene *s, hw_store *store)
{
    hw_take take = {SUB, HOWDAH_INSTANCE_SINGLE, hw_str_of("me"), 0};

    return store->ops->subs->take(store, &take, keep_token, &s->token, &error);
}

static void append_event(scene *s)
{
    const howdah_event *const list = &s->event;
    hw_append_report report;
    howdah_position position = HOWDAH_POSITION_INIT;
    hw_batch batch;

    hw_event_init(&s->event);
    assert_true(hw_uuid_v7(&s->event.id));
    s->event.stream = hw_str_of("a");
    s->event.type = hw_str_of("a.b");
    s->event.data = hw_str_of("{}");
    must(hw_batch_init(&batch, &list, 1, HOWDAH_EXPECT_ANY, &error), &error);
    must(s->store->ops->append(s->store, &batch, NULL, &position, &report, &error), &error);
    hw_batch_done(&batch);
    s->event.global_sequence = position.global_sequence;
    s->event.version = position.version;
    s->event.recorded_at_us = position.recorded_at_us;
}

static scene begin(const place *p)
{
    scene s = {.p = p};

    empty_directory(p->dir);
    s.store = open_store(p);
    must(s.store->ops->migrate(s.store, NULL, NULL, &error), &error);
    append_event(&s);
    must(s.store->ops->subs->create(s.store, SUB, &HW_FILTER_ALL, 0, NULL, 0, NULL, &error),
         &error);
    must(take(&s, s.store), &error);
    raw_exec(p->file, "CREATE TABLE effects (n)");
    return s;
}

static hw_checkpoint checkpoint_of(const scene *s)
{
    return (hw_checkpoint){.subscriber_id = SUB,
                           .token = s->token,
                           .high = s->event.global_sequence,
                           .anchor = {s->event.global_sequence, s->event.id}};
}

/* ---------------------------------------------------------- the operations */

static int do_checkpoint(scene *s, hw_store *store)
{
    hw_checkpoint c = checkpoint_of(s);
    hw_sub_news news;

    return store->ops->subs->checkpoint(store, &c, 1, 0, &news, &error);
}

static int do_dead_letter(scene *s, hw_store *store)
{
    hw_checkpoint c = checkpoint_of(s);

    return store->ops->subs->dead_letter(store, &c, &s->event, hw_str_of("e"), 3, NULL, &error);
}

static int do_skip(scene *s, hw_store *store)
{
    hw_checkpoint c = checkpoint_of(s);

    return store->ops->subs->skip(store, &c, (hw_range){1, 1}, 5, hw_str_of("r"), &error);
}

static int do_release(scene *s, hw_store *store)
{
    return store->ops->subs->release(store, &(hw_hold){SUB, s->token, HW_STR_NULL},
                                     HOWDAH_INSTANCE_SINGLE, &error);
}

static int do_handler(scene *s, hw_store *store)
{
    hw_checkpoint c = checkpoint_of(s);
    int status = store->ops->subs->begin(store, HW_STR_NULL, &error);

    if (status < 0)
        return status;
    if (sqlite3_exec(store->ops->subs->handle(store), "INSERT INTO effects VALUES (1)", NULL, NULL,
                     NULL) != SQLITE_OK) {
        store->ops->subs->rollback(store);
        return hw_fail(&error, HOWDAH_FAILED, "the handler failed");
    }
    return store->ops->subs->commit(store, &c, &error);
}

#define MOVED "(SELECT high = 1 AND anchor_sequence = 1 FROM howdah_subscriptions)"

/* What tells whether it is stored: 1 or 0; anything else is half of it. */
typedef struct operation {
    const char *name;
    int (*act)(scene *s, hw_store *store);
    const char *stored_sql;
    bool repeatable; /* done twice is done once */
} operation;

static const operation operations[] = {
    {"checkpoint", do_checkpoint, "SELECT " MOVED, true},
    {"dead_letter", do_dead_letter,
     "SELECT (" MOVED " + (SELECT count(*) FROM howdah_dead_letters)) / 2.0", true},
    {"skip", do_skip, "SELECT (" MOVED " + (SELECT count(*) FROM howdah_skips)) / 2.0", true},
    {"take", take, "SELECT token = 2 FROM howdah_subscriptions", false},
    {"release", do_release, "SELECT owner IS NULL FROM howdah_subscriptions", true},
    {"handler", do_handler, "SELECT (" MOVED " + (SELECT count(*) FROM effects)) / 2.0", false},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* --------------------------------------------------------------- the sweep */

static bool is_stored(const place *p, const operation *o)
{
    char text[64];

    raw_text(p->file, o->stored_sql, text, sizeof text);
    if (strcmp(text, "0") != 0 && strcmp(text, "0.0") != 0 && strcmp(text, "1") != 0 &&
        strcmp(text, "1.0") != 0)
        fail_msg("%s: half of it is stored: %s", o->name, text);
    return text[0] == '1';
}

/* One run; false when there was nothing left to fail. */
static bool run(const place *p, const operation *o, fault_plan plan)
{
    scene s = begin(p);
    char verdict[64];
    bool unknown;
    bool stored;
    unsigned failed;
    int status;

    fault_vfs_arm(plan);
    status = o->act(&s, s.store);
    failed = fault_vfs_failed();
    fault_vfs_disarm();
    unknown = status < 0 && (error.flags & HOWDAH_OUTCOME_UNKNOWN);
    stored = is_stored(p, o);
    if (!unknown && stored != (status >= 0))
        fail_msg("%s: kinds %u, nth %u: said %s (%s), stored %d", o->name, plan.kinds, plan.nth,
                 howdah_status_name(status), status < 0 ? error.message : "", stored);
    if (o->repeatable || !stored)
        must(o->act(&s, s.store), &error);
    assert_true(is_stored(p, o));
    s.store->ops->close(s.store);
    raw_text(p->file, "PRAGMA integrity_check", verdict, sizeof verdict);
    assert_string_equal(verdict, "ok");
    return failed > 0;
}

static void sweep(const place *p, unsigned kinds, fault_error how)
{
    for (size_t i = 0; i < OPERATIONS; i++)
        for (int forever = 0; forever < 2; forever++) {
            fault_plan plan = {kinds, 1, forever != 0, how};

            while (run(p, &operations[i], plan))
                plan.nth++;
        }
}

static void a_failing_write_stores_all_or_nothing_and_says_which(void **state)
{
    sweep(*state, FAULT_WRITE, FAULT_IOERR);
    sweep(*state, FAULT_WRITE, FAULT_FULL);
    sweep(*state, FAULT_WRITE, FAULT_TORN);
}

static void a_failing_sync_stores_all_or_nothing_and_says_which(void **state)
{
    sweep(*state, FAULT_SYNC, FAULT_IOERR);
}

static void a_failing_shared_index_stores_all_or_nothing_and_says_which(void **state)
{
    sweep(*state, FAULT_SHM, FAULT_IOERR);
}

/* How often an operation waits for the disk. */
static unsigned syncs_of(scene *s, int (*act)(scene *s, hw_store *store))
{
    unsigned n;

    fault_vfs_arm((fault_plan){FAULT_SYNC, 0, false, FAULT_IOERR});
    must(act(s, s->store), &error);
    n = fault_vfs_count();
    fault_vfs_disarm();
    return n;
}

static int do_append(scene *s, hw_store *store)
{
    (void)store;
    append_event(s);
    return HOWDAH_OK;
}

static void a_checkpoint_does_not_wait_for_the_disk_and_all_else_still_does(void **state)
{
    scene s = begin(*state);

    for (int i = 0; i < 3; i++) {
        assert_true(syncs_of(&s, do_append) > 0);
        assert_int_equal(syncs_of(&s, do_checkpoint), 0);
        assert_true(syncs_of(&s, do_append) > 0);
        assert_int_equal(syncs_of(&s, do_checkpoint), 0);
        assert_int_equal(syncs_of(&s, do_checkpoint), 0);
        assert_true(syncs_of(&s, do_dead_letter) > 0);
        assert_int_equal(syncs_of(&s, do_checkpoint), 0);
        assert_true(syncs_of(&s, do_handler) > 0);
        assert_int_equal(syncs_of(&s, do_checkpoint), 0);
        assert_true(syncs_of(&s, take) > 0);
    }
    s.store->ops->close(s.store);
}

/* Before the first commit of a connection nobody knows whether there is a write-ahead log. */
static void without_a_write_ahead_log_a_checkpoint_waits(void **state)
{
    scene s = begin(*state);

    s.store->ops->close(s.store);
    raw_exec(s.p->file, "PRAGMA journal_mode = DELETE");
    s.store = open_store(s.p);
    assert_true(syncs_of(&s, do_checkpoint) > 0);
    assert_true(syncs_of(&s, do_checkpoint) > 0);
    s.store->ops->close(s.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_failing_write_stores_all_or_nothing_and_says_which),
        TEST(a_failing_sync_stores_all_or_nothing_and_says_which),
        TEST(a_failing_shared_index_stores_all_or_nothing_and_says_which),
        TEST(a_checkpoint_does_not_wait_for_the_disk_and_all_else_still_does),
        TEST(without_a_write_ahead_log_a_checkpoint_waits),
    };

    if (!fault_vfs_install())
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
