/* test_fake.c - the simulated store keeps the contracts of store.h and subscriptions.h. */
#include "../unit/unit.h"

#include "fake.h"

static world w;
static fake f;
static fake_client one;
static fake_client two;
static hw_store *a; /* of one */
static hw_store *b; /* of two */

static const hw_sub_ops *subs(void)
{
    return a->ops->subs;
}

static int start(void **state)
{
    (void)state;
    world_init(&w, 1);
    fake_init(&f, &w);
    one = (fake_client){.server = &f, .number = 0};
    two = (fake_client){.server = &f, .number = 1};
    a = fake_open(&one);
    b = fake_open(&two);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    a->ops->close(a);
    b->ops->close(b);
    return 0;
}

/* One committed event; its number. */
static int32_t add(int stream, int type)
{
    int txn = world_begin(&w);
    int32_t n;

    assert_true(world_insert(&w, txn, stream, type));
    n = w.txns[txn].last;
    world_commit(&w, txn);
    world_unlock(&w, txn);
    return n;
}

static void create(void)
{
    assert_int_equal(subs()->create(a, hw_str_of("s"), &HW_FILTER_ALL, 0, NULL, 0, NULL, NULL),
                     HOWDAH_OK);
}

static int keep_token(void *ctx, const hw_sub_row *row)
{
    *(int64_t *)ctx = row->token;
    return 0;
}

static int take(hw_store *store, howdah_instance instance, int64_t *ret_token)
{
    hw_take take = {.subscriber_id = hw_str_of("s"),
                    .instance = instance,
                    .owner = hw_str_of(store == a ? "a" : "b"),
                    .lease_ms = 1000};

    return subs()->take(store, &take, keep_token, ret_token, NULL);
}

static int put(hw_store *store, int64_t token, int64_t high, hw_sub_news *news)
{
    hw_checkpoint checkpoint = {
        .subscriber_id = hw_str_of("s"), .token = token, .high = high, .keeps_still = true};

    return subs()->checkpoint(store, &checkpoint, 1, 1000, news, NULL);
}

/* ----------------------------------------------------------------------------- reads */

static size_t read_once(hw_query *query, int64_t *out, size_t room)
{
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;
    size_t total = 0;

    assert_int_equal(a->ops->read_open(a, query, &cursor, NULL), HOWDAH_OK);
    while (a->ops->read_next(cursor, &events, &n, NULL) == HOWDAH_OK) {
        for (size_t i = 0; i < n; i++) {
            assert_true(total < room);
            out[total++] = events[i].global_sequence;
        }
    }
    a->ops->read_close(cursor);
    return total;
}

static void ranges_are_read_up_to_the_limit_and_by_type(void **state)
{
    const hw_range ranges[] = {{1, 2}, {4, 4}, {6, INT64_MAX}};
    hw_query query = {.ranges = ranges, .ranges_n = 3, .limit = 10, .batch = 10};
    int64_t out[10];

    (void)state;
    for (int i = 0; i < 8; i++)
        (void)add(0, i % 2);
    assert_int_equal(read_once(&query, out, 10), 6);
    assert_int_equal(out[2], 4);
    assert_int_equal(out[5], 8);
    query.limit = 3;
    query.batch = 3;
    assert_int_equal(read_once(&query, out, 10), 3);
    query.limit = 10;
    query.batch = 10;
    query.type = hw_str_of(world_type_names[1]);
    assert_int_equal(read_once(&query, out, 10), 4);
    query.type = HW_STR_NULL;
    query.pattern = HW_STR_LIT("*.paid");
    assert_int_equal(read_once(&query, out, 10), 4);
    assert_int_equal(out[0], 2);
}

static void payloads_come_with_what_is_asked_for(void **state)
{
    const hw_range ranges[] = {{1, INT64_MAX}};
    const hw_str wanted[] = {HW_STR_LIT("order.paid")};
    hw_query query = {.ranges = ranges,
                      .ranges_n = 1,
                      .limit = 10,
                      .batch = 10,
                      .payload_of = wanted,
                      .payload_of_n = 1};
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;

    (void)state;
    (void)add(0, 0);
    (void)add(0, 1);
    assert_int_equal(a->ops->read_open(a, &query, &cursor, NULL), HOWDAH_OK);
    assert_int_equal(a->ops->read_next(cursor, &events, &n, NULL), HOWDAH_OK);
    assert_int_equal(n, 2);
    assert_true(events[0].no_payload && !events[0].data.s);
    assert_false(events[1].no_payload);
    assert_str_is(events[1].stream, "a");
    assert_int_equal(events[1].version, 2);
    a->ops->read_close(cursor);
}

static void pages_of_a_plain_read_see_what_was_committed_between_them(void **state)
{
    hw_query query = {.from = 1, .batch = 1};
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;
    int txn = world_begin(&w);

    (void)state;
    (void)add(0, 0);
    assert_true(world_insert(&w, txn, 1, 0));
    assert_int_equal(a->ops->read_open(a, &query, &cursor, NULL), HOWDAH_OK);
    assert_int_equal(a->ops->read_next(cursor, &events, &n, NULL), HOWDAH_OK);
    assert_int_equal(events[0].global_sequence, 1);
    world_commit(&w, txn);
    assert_int_equal(a->ops->read_next(cursor, &events, &n, NULL), HOWDAH_OK);
    assert_int_equal(events[0].global_sequence, 2);
    assert_int_equal(a->ops->read_next(cursor, &events, &n, NULL), HOWDAH_END);
    a->ops->read_close(cursor);
}

typedef struct gap_list {
    hw_range items[8];
    int n;
} gap_list;

static int keep_gap(void *ctx, hw_range range)
{
    gap_list *list = ctx;

    list->items[list->n++] = range;
    return 0;
}

static void gaps_are_what_has_no_visible_row(void **state)
{
    gap_list list = {.n = 0};
    int txn = world_begin(&w);

    (void)state;
    assert_true(world_insert(&w, txn, 1, 0));
    assert_true(world_insert(&w, txn, 1, 0));
    (void)add(0, 0);
    assert_true(world_insert(&w, txn, 1, 0));
    (void)add(0, 0);
    assert_int_equal(subs()->gaps(a, 1, 5, keep_gap, &list, NULL), HOWDAH_OK);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.items[0].first, 1);
    assert_int_equal(list.items[0].last, 2);
    assert_int_equal(list.items[1].first, 4);
    assert_int_equal(list.items[1].last, 4);
}

/* ------------------------------------------------------------------------- ownership */

static void a_lock_is_held_as_long_as_its_session_lives(void **state)
{
    int64_t token = 0;

    (void)state;
    create();
    assert_int_equal(take(a, HOWDAH_INSTANCE_COORDINATED, &token), HOWDAH_OK);
    assert_int_equal(token, 1);
    assert_int_equal(take(b, HOWDAH_INSTANCE_COORDINATED, &token), HOWDAH_END);
    assert_int_equal(take(a, HOWDAH_INSTANCE_COORDINATED, &token), HOWDAH_OK);
    assert_int_equal(token, 2);
    /* The client is gone, the server does not know it yet. */
    fake_cut((fake_store *)a, 5000);
    assert_int_equal(take(b, HOWDAH_INSTANCE_COORDINATED, &token), HOWDAH_END);
    assert_int_equal(take(a, HOWDAH_INSTANCE_COORDINATED, &token), HOWDAH_END);
    w.now_us += 5000;
    assert_int_equal(take(b, HOWDAH_INSTANCE_COORDINATED, &token), HOWDAH_OK);
    assert_int_equal(token, 3);
}

static void a_lease_is_held_until_it_runs_out(void **state)
{
    int64_t token = 0;
    hw_sub_news news;

    (void)state;
    create();
    assert_int_equal(take(a, HOWDAH_INSTANCE_LEASE, &token), HOWDAH_OK);
    w.now_us += 900000;
    assert_int_equal(put(a, token, 0, &news), HOWDAH_OK);
    w.now_us += 900000;
    assert_int_equal(take(b, HOWDAH_INSTANCE_LEASE, &token), HOWDAH_END);
    w.now_us += 200000;
    assert_int_equal(take(b, HOWDAH_INSTANCE_LEASE, &token), HOWDAH_OK);
    assert_int_equal(token, 2);
}

static void an_old_token_stores_nothing(void **state)
{
    hw_sub_news news;
    int64_t old = 0;
    int64_t token = 0;
    howdah_event event;
    hw_checkpoint checkpoint = {.subscriber_id = hw_str_of("s"), .high = 1};

    (void)state;
    create();
    (void)add(0, 0);
    fake_event(&w, 1, &event);
    assert_int_equal(take(a, HOWDAH_INSTANCE_SINGLE, &old), HOWDAH_OK);
    assert_int_equal(take(b, HOWDAH_INSTANCE_SINGLE, &token), HOWDAH_OK);
    checkpoint.token = old;
    assert_int_equal(put(a, old, 1, &news), HOWDAH_OK);
    assert_true(news.lost);
    assert_int_equal(
        subs()->dead_letter(a, &checkpoint, &event, hw_str_of("x"), 1, &(int64_t){0}, NULL),
        HOWDAH_LOST);
    assert_int_equal((subs()->skip)(a, &checkpoint, (hw_range){1, 1}, 0, HW_STR_NULL, NULL),
                     HOWDAH_LOST);
    assert_int_equal(subs()->suspect(a, &(hw_hold){hw_str_of("s"), old, HW_STR_NULL}, 1, 1, NULL),
                     HOWDAH_LOST);
    assert_int_equal(subs()->begin(a, HW_STR_NULL, NULL), HOWDAH_OK);
    fake_effect(a, 1, 0);
    assert_int_equal(subs()->commit(a, &checkpoint, NULL), HOWDAH_LOST);
    assert_int_equal(f.subs[0].high, 0);
    assert_int_equal(f.dead_letters_n, 0);
    assert_int_equal(f.skips_n, 0);
    assert_int_equal(put(b, token, 1, &news), HOWDAH_OK);
    assert_false(news.lost);
    assert_int_equal(f.subs[0].high, 1);
}

static void a_new_session_is_told_by_its_number(void **state)
{
    uint64_t before = 0;
    uint64_t after = 0;

    (void)state;
    assert_int_equal(subs()->session(a, &before, NULL), HOWDAH_OK);
    fake_cut((fake_store *)a, 0);
    assert_int_equal(subs()->session(a, &after, NULL), HOWDAH_OK);
    assert_true(after != before && before != 0);
}

/* ---------------------------------------------------------------- faults and crashes */

typedef struct plan {
    fake_verdict verdict;
    int effects;
} plan;

static fake_verdict once(void *ctx, fake_store *store, fake_op op)
{
    plan *p = ctx;
    fake_verdict verdict = p->verdict;

    (void)store, (void)op;
    p->verdict = FAKE_GO;
    return verdict;
}

static void count_effect(void *ctx, int sub, int64_t sequence, uint32_t life)
{
    (void)sub, (void)sequence, (void)life;
    ((plan *)ctx)->effects++;
}

static void a_lost_answer_is_unknown_and_a_cut_before_is_not(void **state)
{
    plan p = {FAKE_GO, 0};
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_sub_news news;
    int64_t token = 0;
    hw_checkpoint checkpoint = {.subscriber_id = hw_str_of("s"), .high = 1};

    (void)state;
    create();
    (void)add(0, 0);
    assert_int_equal(take(a, HOWDAH_INSTANCE_SINGLE, &token), HOWDAH_OK);
    checkpoint.token = token;
    f.hooks = (fake_hooks){.ctx = &p, .before = once};
    p.verdict = FAKE_FAIL_BEFORE;
    assert_int_equal(subs()->checkpoint(a, &checkpoint, 1, 0, &news, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags & HOWDAH_OUTCOME_UNKNOWN, 0);
    assert_int_equal(f.subs[0].high, 0);
    p.verdict = FAKE_FAIL_AFTER;
    assert_int_equal(subs()->checkpoint(a, &checkpoint, 1, 0, &news, &err), HOWDAH_UNAVAILABLE);
    assert_true(err.flags & HOWDAH_OUTCOME_UNKNOWN);
    assert_int_equal(f.subs[0].high, 1);
}

/* Whoever needs the row finds it decided, one way or the other; both happen. */
static void a_late_commit_is_decided_when_the_row_is_needed(void **state)
{
    int stored = 0;

    for (int i = 0; i < 40; i++) {
        plan p = {FAKE_GO, 0};
        int64_t token = 0;
        hw_checkpoint checkpoint = {.subscriber_id = hw_str_of("s"), .high = 1};
        howdah_error err = HOWDAH_ERROR_INIT;

        if (i > 0)
            (void)start(state);
        w.dice.state = (uint64_t)i;
        create();
        (void)add(0, 0);
        assert_int_equal(take(a, HOWDAH_INSTANCE_SINGLE, &token), HOWDAH_OK);
        checkpoint.token = token;
        assert_int_equal(subs()->begin(a, HW_STR_NULL, NULL), HOWDAH_OK);
        fake_effect(a, 1, 0);
        f.hooks = (fake_hooks){.ctx = &p, .before = once, .effect = count_effect};
        p.verdict = FAKE_LATE;
        assert_int_equal(subs()->commit(a, &checkpoint, &err), HOWDAH_UNAVAILABLE);
        assert_true(err.flags & HOWDAH_OUTCOME_UNKNOWN);
        assert_int_equal(f.subs[0].high, 0);
        assert_int_equal(take(b, HOWDAH_INSTANCE_SINGLE, &token), HOWDAH_OK);
        assert_int_equal(p.effects, f.subs[0].high);
        stored += p.effects;
        fake_prove_late(&f, 0);
        assert_int_equal(p.effects, f.subs[0].high); /* decided is decided */
        if (i < 39)
            (void)stop(state);
    }
    assert_true(stored > 5 && stored < 35);
}

static void a_crash_takes_back_checkpoints_that_nothing_durable_followed(void **state)
{
    int64_t token = 0;
    hw_sub_news news;

    (void)state;
    create();
    (void)add(0, 0);
    (void)add(0, 0);
    assert_int_equal(take(a, HOWDAH_INSTANCE_SINGLE, &token), HOWDAH_OK);
    assert_int_equal(put(a, token, 1, &news), HOWDAH_OK);
    fake_sync(&f); /* somebody's commit */
    assert_int_equal(put(a, token, 2, &news), HOWDAH_OK);
    fake_crash(&f, true);
    assert_int_equal(f.subs[0].high, 1);
    assert_int_equal(f.subs[0].token, token);
    assert_int_equal(put(a, token, 2, &news), HOWDAH_UNAVAILABLE); /* its session is gone */
    assert_int_equal(put(a, token, 2, &news), HOWDAH_OK);
    fake_crash(&f, false);
    assert_int_equal(f.subs[0].high, 2);
}

static void a_transaction_is_gone_with_its_session(void **state)
{
    int64_t token = 0;
    hw_checkpoint checkpoint = {.subscriber_id = hw_str_of("s"), .high = 1};

    (void)state;
    create();
    (void)add(0, 0);
    assert_int_equal(take(a, HOWDAH_INSTANCE_SINGLE, &token), HOWDAH_OK);
    checkpoint.token = token;
    assert_int_equal(subs()->begin(a, HW_STR_NULL, NULL), HOWDAH_OK);
    fake_effect(a, 1, 0);
    fake_crash(&f, false);
    assert_int_equal(subs()->commit(a, &checkpoint, NULL), HOWDAH_UNAVAILABLE);
    assert_int_equal(f.subs[0].high, 0);
}

/* ----------------------------------------------------------------------- another log */

static world image;
static fake rows;

static void keep_image(void)
{
    image = w;
    image.logged = image.drawn;
    fake_save(&rows, &f);
}

static void replace(bool told)
{
    world_replace(&w, &image, told);
    fake_replace(&f, &rows);
}

static uint64_t session_of(hw_store *store)
{
    uint64_t session = 0;

    assert_int_equal(subs()->session(store, &session, NULL), HOWDAH_OK);
    return session;
}

static void a_place_is_not_stored_in_another_log(void **state)
{
    char log[HW_TIMELINE_SIZE];
    hw_checkpoint checkpoint = {.subscriber_id = hw_str_of("s"), .high = 1};
    hw_sub_news news;
    howdah_event event;

    (void)state;
    f.pooled = true;
    create();
    add(0, 0);
    assert_int_equal(take(a, HOWDAH_INSTANCE_COORDINATED, &checkpoint.token), HOWDAH_OK);
    assert_int_equal(subs()->timeline(a, log, NULL), HOWDAH_OK);
    checkpoint.log = hw_str_of(log);
    keep_image();
    fake_event(&w, add(0, 0), &event);
    replace(true);
    assert_int_equal(subs()->checkpoint(a, &checkpoint, 1, 0, &news, NULL), HOWDAH_OK);
    assert_true(news.lost);
    keep_image();
    replace(false); /* the same name: by its event */
    add(0, 0);
    assert_int_equal(subs()->timeline(a, log, NULL), HOWDAH_OK);
    checkpoint.high = 2;
    checkpoint.anchor = (hw_anchor){event.global_sequence, event.id};
    assert_int_equal(subs()->checkpoint(a, &checkpoint, 1, 0, &news, NULL), HOWDAH_OK);
    assert_true(news.lost);
    assert_i64_equal(f.subs[0].high, 0);
}

static void behind_a_pooler_another_log_is_told_by_an_answer(void **state)
{
    char log[HW_TIMELINE_SIZE];
    hw_anchor none = {.sequence = 0};
    hw_anchor top;
    howdah_event event;
    uint64_t before;

    (void)state;
    f.pooled = true;
    add(0, 0);
    assert_int_equal(subs()->timeline(a, log, NULL), HOWDAH_OK);
    before = session_of(a);
    keep_image();
    replace(true);
    assert_true(session_of(a) == before); /* nobody has asked */
    assert_int_equal(subs()->confirm(a, &none, NULL), HOWDAH_OK);
    assert_true(session_of(a) != before); /* its name */
    keep_image();
    add(0, 0);
    assert_int_equal(subs()->confirm(a, &none, NULL), HOWDAH_OK);
    before = session_of(a);
    replace(false);
    assert_int_equal(subs()->confirm(a, &none, NULL), HOWDAH_OK);
    assert_true(session_of(a) != before); /* fewer numbers */
    fake_event(&w, add(0, 0), &event);
    top = (hw_anchor){event.global_sequence, event.id};
    assert_int_equal(subs()->confirm(a, &top, NULL), HOWDAH_OK);
    before = session_of(a);
    replace(false);
    add(0, 0);
    assert_int_equal(subs()->confirm(a, &top, NULL), HOWDAH_OK);
    assert_true(session_of(a) != before); /* another event at its top */
}

static void behind_a_pooler_nobody_hears_and_a_lock_is_a_lease(void **state)
{
    int64_t token = 0;

    (void)state;
    f.pooled = true;
    create();
    assert_int_equal((subs()->listen)(a, true, NULL, 0, NULL), HOWDAH_END);
    assert_int_equal(take(a, HOWDAH_INSTANCE_COORDINATED, &token), HOWDAH_OK);
    assert_true(f.subs[0].lock == 0);
    assert_int_equal(take(b, HOWDAH_INSTANCE_COORDINATED, &token), HOWDAH_END);
    w.now_us += 1000001;
    assert_int_equal(take(b, HOWDAH_INSTANCE_COORDINATED, &token), HOWDAH_OK);
}

static void a_replaced_server_ends_sessions_and_everywhere_transactions(void **state)
{
    uint64_t before;

    (void)state;
    before = session_of(a);
    keep_image();
    replace(true);
    assert_false(fake_session_alive(&f, before));
    f.pooled = true;
    before = session_of(b);
    assert_int_equal(subs()->begin(b, HW_STR_NULL, NULL), HOWDAH_OK);
    replace(true);
    assert_false(fake_session_alive(&f, before));
    subs()->rollback(b);
}

#define FAKE_TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_TEST(ranges_are_read_up_to_the_limit_and_by_type),
        FAKE_TEST(payloads_come_with_what_is_asked_for),
        FAKE_TEST(pages_of_a_plain_read_see_what_was_committed_between_them),
        FAKE_TEST(gaps_are_what_has_no_visible_row),
        FAKE_TEST(a_lock_is_held_as_long_as_its_session_lives),
        FAKE_TEST(a_lease_is_held_until_it_runs_out),
        FAKE_TEST(an_old_token_stores_nothing),
        FAKE_TEST(a_new_session_is_told_by_its_number),
        FAKE_TEST(a_lost_answer_is_unknown_and_a_cut_before_is_not),
        FAKE_TEST(a_late_commit_is_decided_when_the_row_is_needed),
        FAKE_TEST(a_crash_takes_back_checkpoints_that_nothing_durable_followed),
        FAKE_TEST(a_transaction_is_gone_with_its_session),
        FAKE_TEST(a_place_is_not_stored_in_another_log),
        FAKE_TEST(behind_a_pooler_another_log_is_told_by_an_answer),
        FAKE_TEST(behind_a_pooler_nobody_hears_and_a_lock_is_a_lease),
        FAKE_TEST(a_replaced_server_ends_sessions_and_everywhere_transactions),
    };

    return cmocka_run_group_tests_name("sim_fake", tests, NULL, NULL);
}
