/*
 * test_pg_subs.c - what PostgreSQL alone has to do for subscriptions: locks of sessions, leases,
 * tokens, checkpoints that leave nothing behind, and the transaction of a handler.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/pg/pg.h"
#include "test_pg_help.h"

#define ME HW_STR_LIT("projection:orders")

/* ---- small helpers */

typedef struct kept {
    int n;
    int64_t high;
    int64_t token;
    int64_t anchor;
    size_t outstanding_n;
    hw_range outstanding[8];
    bool held;
    bool has_owner;
    char owner[64];
    char pattern[64];
    char timeline[HW_TIMELINE_SIZE];
    hw_sub_status status;
    int64_t suspect_sequence;
    int64_t suspect_attempts;
    int64_t dead_letters;
    int64_t skips;
} kept;

static int keep(void *ctx, const hw_sub_row *row)
{
    kept *k = ctx;

    k->n++;
    k->high = row->high;
    k->token = row->token;
    k->anchor = row->anchor.sequence;
    k->outstanding_n = row->outstanding_n;
    for (size_t i = 0; i < row->outstanding_n && i < 8; i++)
        k->outstanding[i] = row->outstanding[i];
    k->held = row->held;
    k->has_owner = row->owner.s != NULL;
    (void)snprintf(k->owner, sizeof k->owner, "%s", row->owner.s ? row->owner.s : "");
    (void)snprintf(k->pattern, sizeof k->pattern, "%s",
                   row->filter.pattern.s ? row->filter.pattern.s : "");
    (void)snprintf(k->timeline, sizeof k->timeline, "%s", row->timeline.s);
    k->status = row->status;
    k->suspect_sequence = row->suspect_sequence;
    k->suspect_attempts = row->suspect_attempts;
    k->dead_letters = row->dead_letters;
    k->skips = row->skips;
    return 0;
}

static kept load(hw_store *store, hw_str id)
{
    kept k = {0};

    pgt_ok(store->ops->subs->load(store, id, keep, &k, &pgt_error));
    assert_int_equal(k.n, 1);
    return k;
}

static void make(hw_store *store, hw_str id)
{
    pgt_ok(store->ops->subs->create(store, id, &HW_FILTER_ALL, 0, NULL, 0, NULL, &pgt_error));
}

static int take(hw_store *store, hw_str id, howdah_instance instance, const char *owner, kept *k)
{
    hw_take t = {id, instance, hw_str_of(owner), 200};

    *k = (kept){0};
    return store->ops->subs->take(store, &t, keep, k, &pgt_error);
}

static int checkpoint(hw_store *store, hw_str id, int64_t token, int64_t high, hw_sub_news *news)
{
    hw_checkpoint c = {.subscriber_id = id, .token = token, .high = high};

    return store->ops->subs->checkpoint(store, &c, 1, 0, news, &pgt_error);
}

/* ---- rows */

static void what_is_created_is_loaded(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_range outstanding[] = {{3, 5}, {9, 9}};
    bool created = false;
    kept k;

    pgt_ok(store->ops->subs->create(store, ME, &(hw_filter){.pattern = HW_STR_LIT("order.*")}, 10,
                                    outstanding, 2, &created, &pgt_error));
    assert_true(created);
    k = load(store, ME);
    assert_int_equal(k.high, 10);
    assert_int_equal(k.outstanding_n, 2);
    assert_int_equal(k.outstanding[0].first, 3);
    assert_int_equal(k.outstanding[0].last, 5);
    assert_int_equal(k.outstanding[1].first, 9);
    assert_string_equal(k.pattern, "order.*");
    assert_false(k.has_owner);
    assert_false(k.held);
    pgt_ok(store->ops->subs->create(store, ME, &(hw_filter){.pattern = HW_STR_LIT("x")}, 99, NULL,
                                    0, &created, &pgt_error));
    assert_false(created);
    k = load(store, ME);
    assert_int_equal(k.high, 10);
    assert_string_equal(k.pattern, "x");
    assert_int_equal(store->ops->subs->load(store, HW_STR_LIT("nobody"), keep, &k, &pgt_error),
                     HOWDAH_NOT_FOUND);
    make(store, HW_STR_LIT("another"));
    k = (kept){0};
    pgt_ok(store->ops->subs->list(store, keep, &k, &pgt_error));
    assert_int_equal(k.n, 2);
    pgt_store_close(store);
}

static void a_lock_elects_one_owner_and_ends_with_its_session(void **state)
{
    pgt *t = *state;
    hw_store *a = pgt_store(t, NULL);
    hw_store *b = pgt_store(t, NULL);
    kept k;
    int64_t first;

    make(a, ME);
    assert_int_equal(take(a, HW_STR_LIT("nobody"), HOWDAH_INSTANCE_COORDINATED, "a", &k),
                     HOWDAH_NOT_FOUND);
    assert_int_equal(
        pgt_number(t, t->admin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0);
    pgt_ok(take(a, ME, HOWDAH_INSTANCE_COORDINATED, "a", &k));
    assert_false(k.has_owner);
    first = k.token;
    assert_true(first > 0);
    assert_int_equal(take(b, ME, HOWDAH_INSTANCE_COORDINATED, "b", &k), HOWDAH_END);
    assert_int_equal(take(b, ME, HOWDAH_INSTANCE_LEASE, "b", &k), HOWDAH_END);
    assert_true(load(b, ME).held);
    pgt_store_close(a);
    while (take(b, ME, HOWDAH_INSTANCE_COORDINATED, "b", &k) == HOWDAH_END)
        (void)usleep(1000);
    assert_string_equal(k.owner, "a");
    assert_true(k.token > first);
    pgt_store_close(b);
}

static void a_lock_shows_both_halves_of_the_md5(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    kept k;

    make(store, ME);
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_COORDINATED, "a", &k));
    assert_int_equal(
        pgt_number(t, t->admin,
                   "WITH k AS (SELECT md5(convert_to('%s', 'UTF8') || '\\x00'::bytea ||"
                   " 'projection:orders'::bytea) AS h) SELECT count(*) FROM pg_locks, k"
                   " WHERE locktype = 'advisory' AND objsubid = 2"
                   " AND classid::bigint = ('x' || substr(h, 1, 8))::bit(32)::bigint"
                   " AND objid::bigint = ('x' || substr(h, 9, 8))::bit(32)::bigint",
                   t->schema),
        1);
    /* Taken again by the session that has it: the token grows, the lock is not counted twice. */
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_COORDINATED, "a", &k));
    pgt_ok(store->ops->subs->release(store, &(hw_hold){ME, k.token, HW_STR_NULL},
                                     HOWDAH_INSTANCE_COORDINATED, &pgt_error));
    assert_int_equal(
        pgt_number(t, t->admin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0);
    assert_false(load(store, ME).has_owner);
    pgt_store_close(store);
}

static void a_lease_runs_out_by_the_database_clock(void **state)
{
    pgt *t = *state;
    hw_store *a = pgt_store(t, NULL);
    hw_store *b = pgt_store(t, NULL);
    hw_sub_news news;
    int64_t token;
    kept k;

    make(a, ME);
    pgt_ok(take(a, ME, HOWDAH_INSTANCE_LEASE, "a", &k));
    token = k.token;
    assert_int_equal(take(b, ME, HOWDAH_INSTANCE_LEASE, "b", &k), HOWDAH_END);
    assert_int_equal(take(b, ME, HOWDAH_INSTANCE_COORDINATED, "b", &k), HOWDAH_END);
    assert_int_equal(
        pgt_number(t, t->admin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0);
    for (int i = 0; i < 8; i++) {
        hw_checkpoint c = {.subscriber_id = ME, .token = token};

        (void)usleep(50000);
        pgt_ok(a->ops->subs->poll(a, &c, 1, 200, &news, &pgt_error));
        assert_false(news.lost);
        assert_int_equal(take(b, ME, HOWDAH_INSTANCE_LEASE, "b", &k), HOWDAH_END);
    }
    while (take(b, ME, HOWDAH_INSTANCE_LEASE, "b", &k) == HOWDAH_END)
        (void)usleep(5000);
    assert_string_equal(k.owner, "a");
    assert_true(k.token > token);
    pgt_ok(checkpoint(a, ME, token, 5, &news));
    assert_true(news.lost);
    assert_int_equal(load(b, ME).high, 0);
    pgt_store_close(a);
    pgt_store_close(b);
}

static void behind_a_pooler_a_lease_takes_the_place_of_the_lock(void **state)
{
    pgt *t = *state;
    hw_store *a = pgt_store(t, NULL);
    hw_store *b = pgt_store(t, NULL);
    kept k;

    assert_false(((hw_pg *)a)->pooled);
    ((hw_pg *)a)->pooled = true;
    make(a, ME);
    pgt_ok(take(a, ME, HOWDAH_INSTANCE_COORDINATED, "a", &k));
    assert_int_equal(
        pgt_number(t, t->admin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0);
    assert_true(load(b, ME).held);
    assert_int_equal(take(b, ME, HOWDAH_INSTANCE_COORDINATED, "b", &k), HOWDAH_END);
    assert_int_equal(a->ops->subs->listen(a, true, NULL, 0, &pgt_error), HOWDAH_END);
    /* One that is noticed only when another backend has our lock. */
    while (take(b, ME, HOWDAH_INSTANCE_COORDINATED, "b", &k) == HOWDAH_END)
        (void)usleep(5000);
    pgt_ok(b->ops->subs->release(b, &(hw_hold){ME, k.token, HW_STR_NULL},
                                 HOWDAH_INSTANCE_COORDINATED, &pgt_error));
    ((hw_pg *)b)->backend_pid++;
    pgt_ok(take(b, ME, HOWDAH_INSTANCE_COORDINATED, "b", &k));
    assert_true(((hw_pg *)b)->pooled);
    assert_int_equal(pgt_number(t, t->admin,
                                "SELECT count(*) FROM {subscriptions} WHERE token = %lld"
                                " AND lease_until IS NOT NULL",
                                (long long)k.token),
                     1);
    pgt_store_close(a);
    pgt_store_close(b);
}

static void the_server_looks_for_clients_that_are_gone(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, pgt_env("HOWDAH_TEST_PG_TCP"));
    PGconn *conn = ((hw_pg *)store)->conn;

    assert_string_equal(
        pgt_text(t, conn,
                 "SELECT concat_ws(' ', current_setting('tcp_keepalives_idle'),"
                 " current_setting('tcp_keepalives_interval'),"
                 " current_setting('tcp_keepalives_count'), current_setting('tcp_user_timeout'))"),
        "5 2 3 10000");
    assert_string_equal(
        pgt_text(t, conn,
                 "SELECT coalesce(current_setting('client_connection_check_interval',"
                 " true), '1s')"),
        "1s");
    pgt_store_close(store);
}

/* Its backend is in the middle of something, and does not read from the socket. */
static void an_owner_killed_in_its_handler_is_followed_within_seconds(void **state)
{
    pgt *t = *state;
    hw_store *b = pgt_store(t, NULL);
    int64_t start;
    pid_t pid;
    kept k;

    if (PQserverVersion(t->admin) < 140000) { /* cannot be told to look */
        pgt_store_close(b);
        return;
    }
    make(b, ME);
    pid = fork();
    if (pid == 0) {
        hw_store *a = pgt_store(t, NULL);

        pgt_ok(take(a, ME, HOWDAH_INSTANCE_COORDINATED, "a", &k));
        PQclear(PQexec(((hw_pg *)a)->conn, "SELECT pg_sleep(600)"));
        _exit(0);
    }
    pgt_wait_for(t, t->admin, 1,
                 "SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep'");
    assert_int_equal(take(b, ME, HOWDAH_INSTANCE_COORDINATED, "b", &k), HOWDAH_END);
    start = pgt_now_ms();
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    while (take(b, ME, HOWDAH_INSTANCE_COORDINATED, "b", &k) == HOWDAH_END &&
           pgt_now_ms() - start < 10000)
        (void)usleep(10000);
    assert_string_equal(k.owner, "a");
    print_message("# followed after %lld ms\n", (long long)(pgt_now_ms() - start));
    pgt_store_close(b);
}

static void tokens_grow_through_removal(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    hw_sub_news news;
    int64_t token;
    kept k;

    make(store, ME);
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_COORDINATED, "a", &k));
    token = k.token;
    assert_int_equal(store->ops->subs->remove(store, ME, &pgt_error), HOWDAH_CONFLICT);
    pgt_ok(store->ops->subs->reset(store, ME, 7, NULL, 0, &pgt_error));
    pgt_ok(checkpoint(store, ME, token, 9, &news));
    assert_true(news.lost);
    assert_int_equal(load(store, ME).high, 7);
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_COORDINATED, "a", &k));
    pgt_ok(store->ops->subs->release(store, &(hw_hold){ME, k.token, HW_STR_NULL},
                                     HOWDAH_INSTANCE_COORDINATED, &pgt_error));
    pgt_ok(store->ops->subs->remove(store, ME, &pgt_error));
    assert_int_equal(store->ops->subs->remove(store, ME, &pgt_error), HOWDAH_NOT_FOUND);
    make(store, ME);
    token = k.token;
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_SINGLE, "a", &k));
    assert_true(k.token > token);
    pgt_store_close(store);
}

static void status_and_suspects_are_kept(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_sub_ops *subs = store->ops->subs;
    kept k;

    make(store, ME);
    assert_int_equal(subs->set_status(store, &(hw_hold){HW_STR_LIT("nobody"), 0, HW_STR_NULL},
                                      HW_SUB_PAUSED, HW_STR_LIT("why"), &pgt_error),
                     HOWDAH_NOT_FOUND);
    pgt_ok(subs->set_status(store, &(hw_hold){ME, 0, HW_STR_NULL}, HW_SUB_PAUSED, HW_STR_LIT("why"),
                            &pgt_error));
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_SINGLE, "a", &k));
    assert_int_equal(k.status, HW_SUB_PAUSED);
    pgt_ok(subs->set_status(store, &(hw_hold){ME, k.token, HW_STR_NULL}, HW_SUB_HALTED,
                            HW_STR_LIT("x"), &pgt_error));
    assert_int_equal(subs->set_status(store, &(hw_hold){ME, k.token + 1, HW_STR_NULL},
                                      HW_SUB_ACTIVE, HW_STR_NULL, &pgt_error),
                     HOWDAH_LOST);
    pgt_ok(subs->suspect(store, &(hw_hold){ME, k.token, HW_STR_NULL}, 12, 2, &pgt_error));
    assert_int_equal(
        subs->suspect(store, &(hw_hold){ME, k.token + 1, HW_STR_NULL}, 1, 1, &pgt_error),
        HOWDAH_LOST);
    k = load(store, ME);
    assert_int_equal(k.status, HW_SUB_HALTED);
    assert_int_equal(k.suspect_sequence, 12);
    assert_int_equal(k.suspect_attempts, 2);
    pgt_store_close(store);
}

/* ---- checkpoints */

#define MANY 100

static void a_hundred_checkpoints_are_one_statement_and_hot(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    hw_checkpoint c[MANY];
    hw_sub_news news[MANY];
    char names[MANY][24];
    const hw_range outstanding[] = {{1, 1}, {3, 4}, {6, 9}};

    for (int i = 0; i < MANY; i++) {
        kept k;

        (void)snprintf(names[i], sizeof names[i], "sub-%03d", i);
        make(store, hw_str_of(names[i]));
        pgt_ok(take(store, hw_str_of(names[i]), HOWDAH_INSTANCE_SINGLE, "a", &k));
        c[i] = (hw_checkpoint){.subscriber_id = hw_str_of(names[i]),
                               .token = i == 50 ? k.token + 100000 : k.token,
                               .outstanding = outstanding,
                               .outstanding_n = (size_t)i % 4};
    }
    for (int round = 1; round <= 50; round++) {
        for (int i = 0; i < MANY; i++)
            c[i].high = 10 * round;
        pgt_ok(store->ops->subs->checkpoint(store, c, MANY, 0, news, &pgt_error));
        for (int i = 0; i < MANY; i++)
            assert_int_equal(news[i].lost, i == 50);
    }
    for (int i = 0; i < MANY; i++) {
        kept k = load(store, hw_str_of(names[i]));

        assert_int_equal(k.high, i == 50 ? 0 : 500);
        assert_int_equal(k.outstanding_n, i == 50 ? 0 : i % 4);
        assert_memory_equal(k.outstanding, outstanding, k.outstanding_n * sizeof outstanding[0]);
        assert_true(i == 50 || k.timeline[0]);
    }
    pgt_store_close(store);
    pgt_wait_for(t, t->admin, MANY + 50 * (MANY - 1), /* the takes, too */
                 "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relid ="
                 " '{subscriptions}'::regclass");
    assert_int_equal(pgt_number(t, t->admin,
                                "SELECT n_tup_upd - n_tup_hot_upd FROM pg_stat_user_tables"
                                " WHERE relid = '{subscriptions}'::regclass"),
                     0);
}

static void a_checkpoint_that_comes_late_is_neither_stored_nor_lost(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    hw_sub_news news;
    kept k;

    make(store, ME);
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_SINGLE, "a", &k));
    pgt_ok(checkpoint(store, ME, k.token, 20, &news));
    pgt_ok(checkpoint(store, ME, k.token, 19, &news));
    assert_false(news.lost);
    assert_int_equal(load(store, ME).high, 20);
    pgt_ok(checkpoint(store, ME, k.token, 20, &news));
    assert_false(news.lost);
    pgt_store_close(store);
}

static void a_checkpoint_does_not_wait_for_the_disk_and_nothing_else_changes(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    hw_sub_news news;
    kept k;

    make(store, ME);
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_SINGLE, "a", &k));
    pgt_ok(checkpoint(store, ME, k.token, 20, &news));
    assert_string_equal(pgt_text(t, ((hw_pg *)store)->conn, "SHOW synchronous_commit"), "on");
    pgt_store_close(store);
}

/* ---- dead letters and skips */

typedef struct dead_letters {
    int n;
    int64_t id;
    int64_t attempts;
    int64_t redrives;
    hw_dead_letter_state state;
    bool broken;
    char error[32];
    char data[64];
    char type[32];
} dead_letters;

static int keep_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    dead_letters *l = ctx;

    l->n++;
    l->id = dead_letter->id;
    l->attempts = dead_letter->attempts;
    l->redrives = dead_letter->redrives;
    assert_true(hw_dead_letter_state_of(hw_str_of(dead_letter->state), &l->state));
    l->broken = dead_letter->event->broken;
    (void)snprintf(l->error, sizeof l->error, "%s", dead_letter->error);
    (void)snprintf(l->data, sizeof l->data, "%s", dead_letter->event->data.s);
    (void)snprintf(l->type, sizeof l->type, "%s", dead_letter->event->type.s);
    return 0;
}

static dead_letters list_dead_letters(hw_store *store, hw_dead_letter_query q)
{
    dead_letters l = {0};

    pgt_ok(store->ops->subs->dead_letters(store, &q, keep_dead_letter, &l, &pgt_error));
    return l;
}

/* The event with this number, as the store reads it: a copy. */
static howdah_event *read_event(hw_store *store, int64_t sequence)
{
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    howdah_event *copy = NULL;
    size_t n = 0;

    pgt_ok(store->ops->read_open(store, &(hw_query){.from = sequence, .to = sequence}, &cursor,
                                 &pgt_error));
    pgt_ok(store->ops->read_next(cursor, &events, &n, &pgt_error));
    assert_int_equal(n, 1);
    pgt_ok(hw_event_clone(&events[0], &copy, &pgt_error));
    store->ops->read_close(cursor);
    return copy;
}

static void a_dead_letter_and_its_checkpoint_are_one(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_sub_ops *subs = store->ops->subs;
    howdah_event *event;
    hw_checkpoint c = {.subscriber_id = ME};
    hw_sub_news news;
    int64_t id = 0;
    int64_t again = 0;
    int64_t n = 0;
    dead_letters l;
    kept k;

    event = read_event(store, pgt_append(t->bus, "s").global_sequence);
    make(store, ME);
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_SINGLE, "a", &k));
    c.token = k.token + 1;
    c.high = 1;
    assert_int_equal(subs->dead_letter(store, &c, event, HW_STR_LIT("no"), 4, &id, &pgt_error),
                     HOWDAH_LOST);
    assert_int_equal(list_dead_letters(store, (hw_dead_letter_query){.resolved = true}).n, 0);
    c.token = k.token;
    pgt_ok(subs->dead_letter(store, &c, event, HW_STR_LIT("no"), 4, &id, &pgt_error));
    pgt_ok(subs->dead_letter(store, &c, event, HW_STR_LIT("still no"), 4, &again, &pgt_error));
    assert_int_equal(id, again);
    k = load(store, ME);
    assert_int_equal(k.high, 1);
    assert_int_equal(k.dead_letters, 1);
    l = list_dead_letters(store, (hw_dead_letter_query){.subscriber_id = ME});
    assert_int_equal(l.n, 1);
    assert_string_equal(l.error, "still no");
    assert_string_equal(l.type, "fault.test");
    assert_int_equal(l.attempts, 4);

    pgt_ok(subs->poll(store, &c, 1, 0, &news, &pgt_error));
    assert_false(news.redrives);
    pgt_ok(subs->dead_letters_set_state(store, &id, 1, HW_STR_NULL, HW_DEAD_LETTER_REDRIVE,
                                        HW_STR_NULL, &n, &pgt_error));
    assert_int_equal(n, 1);
    pgt_ok(subs->poll(store, &c, 1, 0, &news, &pgt_error));
    assert_true(news.redrives);
    pgt_ok(checkpoint(store, ME, c.token, 1, &news));
    assert_true(news.redrives);
    assert_int_equal(
        list_dead_letters(store, (hw_dead_letter_query){.subscriber_id = ME, .redrives = true}).n,
        1);
    assert_int_equal(subs->redrive_end(store, &(hw_hold){ME, c.token + 1, HW_STR_NULL}, id,
                                       HW_DEAD_LETTER_REDRIVEN, HW_STR_NULL, &pgt_error),
                     HOWDAH_LOST);
    pgt_ok(subs->redrive_end(store, &(hw_hold){ME, c.token, HW_STR_NULL}, id, HW_DEAD_LETTER_DEAD,
                             HW_STR_LIT("again no"), &pgt_error));
    l = list_dead_letters(store, (hw_dead_letter_query){.id = id});
    assert_int_equal(l.attempts, 5);
    assert_int_equal(l.redrives, 1);
    assert_int_equal(l.state, HW_DEAD_LETTER_DEAD);
    assert_string_equal(l.error, "again no");
    pgt_ok(subs->dead_letters_set_state(store, NULL, 0, ME, HW_DEAD_LETTER_REDRIVE, HW_STR_NULL, &n,
                                        &pgt_error));
    assert_int_equal(n, 1);
    pgt_ok(subs->redrive_end(store, &(hw_hold){ME, c.token, HW_STR_NULL}, id,
                             HW_DEAD_LETTER_REDRIVEN, HW_STR_NULL, &pgt_error));
    assert_int_equal(list_dead_letters(store, (hw_dead_letter_query){.subscriber_id = ME}).n, 0);
    l = list_dead_letters(store, (hw_dead_letter_query){.subscriber_id = ME, .resolved = true});
    assert_int_equal(l.state, HW_DEAD_LETTER_REDRIVEN);
    pgt_ok(subs->dead_letters_set_state(store, &id, 1, HW_STR_NULL, HW_DEAD_LETTER_DISCARDED,
                                        HW_STR_LIT("why"), &n, &pgt_error));
    assert_int_equal(n, 0);
    assert_int_equal(load(store, ME).dead_letters, 0);
    hw_event_free(event);
    pgt_store_close(store);
}

static int keep_skip(void *ctx, const howdah_skip *skip)
{
    *(howdah_skip *)ctx = *skip;
    return 0;
}

static void a_skip_and_its_checkpoint_are_one(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_sub_ops *subs = store->ops->subs;
    hw_checkpoint c = {.subscriber_id = ME, .high = 9};
    howdah_skip found = {0};
    kept k;

    make(store, ME);
    pgt_ok(take(store, ME, HOWDAH_INSTANCE_SINGLE, "a", &k));
    c.token = k.token + 1;
    assert_int_equal((subs->skip)(store, &c, (hw_range){4, 5}, 5000, HW_STR_LIT("gap"), &pgt_error),
                     HOWDAH_LOST);
    c.token = k.token;
    pgt_ok((subs->skip)(store, &c, (hw_range){4, 5}, 5000, HW_STR_LIT("gap"), &pgt_error));
    k = load(store, ME);
    assert_int_equal(k.high, 9);
    assert_int_equal(k.skips, 1);
    pgt_ok(subs->skips(store, ME, false, keep_skip, &found, &pgt_error));
    assert_int_equal(found.first, 4);
    assert_int_equal(found.last, 5);
    assert_int_equal(found.age_ms, 5000);
    pgt_ok(subs->skip_resolve(store, found.id, HW_STR_LIT("nothing was there"), &pgt_error));
    assert_int_equal(subs->skip_resolve(store, found.id, HW_STR_LIT("x"), &pgt_error),
                     HOWDAH_NOT_FOUND);
    assert_int_equal(load(store, ME).skips, 0);
    pgt_store_close(store);
}

/* ---- the handler's transaction */

static void effect_and_checkpoint_commit_together_or_not_at_all(void **state)
{
    pgt *t = *state;
    hw_store *owner = pgt_store(t, NULL);
    hw_store *worker = pgt_store(t, NULL);
    const hw_sub_ops *subs = owner->ops->subs;
    hw_checkpoint c = {.subscriber_id = ME, .high = 3};
    kept k;

    pgt_run(t, t->admin, "CREATE TABLE {effects} (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    make(owner, ME);
    pgt_ok(take(owner, ME, HOWDAH_INSTANCE_COORDINATED, "a", &k));
    c.token = k.token;
    pgt_ok(subs->begin(worker, HW_STR_NULL, &pgt_error));
    /* The handler finds the session as its role has it, and its effects wait for the disk. */
    assert_string_equal(pgt_text(t, subs->handle(worker), "SHOW search_path"), "\"$user\", public");
    assert_string_equal(pgt_text(t, subs->handle(worker), "SHOW enable_sort"), "on");
    assert_string_equal(pgt_text(t, subs->handle(worker), "SHOW enable_seqscan"), "on");
    assert_string_equal(pgt_text(t, subs->handle(worker), "SHOW synchronous_commit"), "on");
    pgt_run(t, subs->handle(worker), "INSERT INTO {effects} VALUES (1)");
    pgt_ok(subs->commit(worker, &c, &pgt_error));
    assert_string_equal(pgt_text(t, ((hw_pg *)worker)->conn, "SHOW search_path"),
                        "pg_catalog, pg_temp");
    assert_int_equal(load(owner, ME).high, 3);

    c.token++;
    c.high = 4;
    pgt_ok(subs->begin(worker, HW_STR_NULL, &pgt_error));
    pgt_run(t, subs->handle(worker), "INSERT INTO {effects} VALUES (2)");
    assert_int_equal(subs->commit(worker, &c, &pgt_error), HOWDAH_LOST);

    c.token--;
    pgt_ok(subs->begin(worker, HW_STR_NULL, &pgt_error));
    pgt_run(t, subs->handle(worker), "INSERT INTO {effects} VALUES (1)");
    assert_true(subs->commit(worker, &c, &pgt_error) < 0); /* the deferred key */
    assert_int_equal(load(owner, ME).high, 3);

    pgt_ok(subs->begin(worker, HW_STR_NULL, &pgt_error));
    pgt_run(t, subs->handle(worker), "INSERT INTO {effects} VALUES (5)");
    subs->rollback(worker);

    pgt_ok(subs->begin(worker, HW_STR_NULL, &pgt_error));
    pgt_run(t, subs->handle(worker), "COMMIT");
    assert_int_equal(subs->commit(worker, &c, &pgt_error), HOWDAH_MISUSE);
    pgt_ok(subs->begin(worker, HW_STR_NULL, &pgt_error));
    pgt_run(t, subs->handle(worker), "COMMIT; BEGIN");
    assert_int_equal(subs->commit(worker, &c, &pgt_error), HOWDAH_MISUSE);
    pgt_ok(subs->begin(worker, HW_STR_NULL, &pgt_error));
    PQclear(pgt_result(t, subs->handle(worker), "SELECT 1/0"));
    assert_int_equal(subs->commit(worker, &c, &pgt_error), HOWDAH_FAILED);

    assert_string_equal(pgt_text(t, t->admin, "SELECT string_agg(n::text, ',') FROM {effects}"),
                        "1");
    assert_int_equal(load(owner, ME).high, 3);
    pgt_ok(subs->begin(worker, HW_STR_NULL, &pgt_error));
    pgt_ok(subs->commit(worker, &c, &pgt_error));
    assert_int_equal(load(owner, ME).high, 4);
    pgt_store_close(worker);
    pgt_store_close(owner);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(what_is_created_is_loaded),
    PGT_TEST(a_lock_elects_one_owner_and_ends_with_its_session),
    PGT_TEST(a_lock_shows_both_halves_of_the_md5),
    PGT_TEST(a_lease_runs_out_by_the_database_clock),
    PGT_TEST(behind_a_pooler_a_lease_takes_the_place_of_the_lock),
    PGT_TEST(the_server_looks_for_clients_that_are_gone),
    PGT_TEST(an_owner_killed_in_its_handler_is_followed_within_seconds),
    PGT_TEST(tokens_grow_through_removal),
    PGT_TEST(status_and_suspects_are_kept),
    PGT_TEST(a_hundred_checkpoints_are_one_statement_and_hot),
    PGT_TEST(a_checkpoint_that_comes_late_is_neither_stored_nor_lost),
    PGT_TEST(a_checkpoint_does_not_wait_for_the_disk_and_nothing_else_changes),
    PGT_TEST(a_dead_letter_and_its_checkpoint_are_one),
    PGT_TEST(a_skip_and_its_checkpoint_are_one),
    PGT_TEST(effect_and_checkpoint_commit_together_or_not_at_all),
};

PGT_MAIN("pg subs", tests)
