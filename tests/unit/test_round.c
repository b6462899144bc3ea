/*
 * test_round.c - which batches can be stored together: beside a model that takes them one after
 * the other, and the cases that matter most by themselves.
 */
#include "unit.h"

#include "engine/round.h"

#define ITEMS 7
#define EVENTS 3 /* of an item, at most */
#define STREAMS 3
#define IDS 40
#define ROUNDS 20000

static const char *const names[STREAMS] = {"a", "b", "c"};

typedef struct item {
    howdah_event events[EVENTS];
    const howdah_event *list[EVENTS];
    hw_batch batch;
} item;

/* A small generator of our own: the same numbers on every machine. */
static uint32_t next(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void set_event(item *it, size_t at, uint8_t id, size_t stream)
{
    howdah_event *event = &it->events[at];

    hw_event_init(event);
    event->id.b[0] = id;
    event->stream = hw_str_of(names[stream]);
    event->type = HW_STR_LIT("t");
    event->data = HW_STR_LIT("{}");
    it->list[at] = event;
}

/* One event, with an expectation of the call's. */
static void set_one(item *it, uint8_t id, size_t stream, int64_t expected)
{
    set_event(it, 0, id, stream);
    assert_int_equal(hw_batch_init(&it->batch, it->list, 1, expected, NULL), HOWDAH_OK);
}

static void plan_items(hw_round *round, item *items, size_t n)
{
    const hw_batch *batches[ITEMS];

    for (size_t i = 0; i < n; i++)
        batches[i] = &items[i].batch;
    assert_int_equal(hw_round_init(round, batches, n, NULL), HOWDAH_OK);
    hw_round_plan(round);
}

static void free_items(hw_round *round, item *items, size_t n)
{
    hw_round_done(round);
    for (size_t i = 0; i < n; i++)
        hw_batch_done(&items[i].batch);
}

static void of_two_with_the_same_expectation_the_first_goes(void **state)
{
    item items[3];
    hw_round round;
    howdah_position positions[2] = {{.version = 6}, {.version = 7}};

    (void)state;
    set_one(&items[0], 1, 0, 5);
    set_one(&items[1], 2, 0, 5);
    set_one(&items[2], 3, 0, 6);
    plan_items(&round, items, 3);
    assert_int_equal(round.items[0].verdict, HW_ROUND_GOES);
    assert_int_equal(round.items[1].verdict, HW_ROUND_REFUSED);
    assert_int_equal(round.items[2].verdict, HW_ROUND_GOES);
    assert_i64_equal((int64_t)round.batch.n, 2);
    assert_i64_equal(round.batch.streams[0].expected, 5);
    assert_int_equal(round.batch.nth[1], 2);
    assert_true(round.batch.combined);
    assert_i64_equal(hw_round_actual(&round, 1, positions), 6);
    free_items(&round, items, 3);
}

static void an_id_goes_once(void **state)
{
    item items[3];
    hw_round round;

    (void)state;
    set_one(&items[0], 1, 0, HOWDAH_EXPECT_ANY);
    set_one(&items[1], 1, 1, HOWDAH_EXPECT_ANY);
    set_one(&items[2], 2, 0, HOWDAH_EXPECT_ANY);
    plan_items(&round, items, 3);
    assert_int_equal(round.items[1].verdict, HW_ROUND_REPEATS);
    assert_i64_equal((int64_t)round.batch.n, 2);
    free_items(&round, items, 3);
}

static void what_was_looked_up_is_what_the_store_has_to_find(void **state)
{
    item items[2];
    hw_round round;

    (void)state;
    set_one(&items[0], 1, 0, 5);
    set_one(&items[1], 2, 0, 9);
    plan_items(&round, items, 2);
    assert_int_equal(round.items[1].verdict, HW_ROUND_REFUSED);
    hw_round_know(&round, 0, 9);
    hw_round_plan(&round);
    assert_int_equal(round.items[0].verdict, HW_ROUND_REFUSED);
    assert_int_equal(round.items[1].verdict, HW_ROUND_GOES);
    assert_i64_equal(round.batch.streams[0].expected, 9);
    assert_i64_equal(hw_round_actual(&round, 0, &(howdah_position){.version = 10}), 9);
    round.items[1].verdict = HW_ROUND_OVER;
    hw_round_plan(&round);
    assert_i64_equal((int64_t)round.batch.n, 0);
    assert_i64_equal(hw_round_actual(&round, 0, NULL), 9);
    free_items(&round, items, 2);
}

/* ---- the model */

typedef struct model {
    int64_t version[STREAMS];
    bool goes[256]; /* ids */
} model;

static size_t number_of(hw_str stream)
{
    return (size_t)(stream.s[0] - 'a');
}

/* One after the other. */
static hw_round_verdict model_take(model *m, const hw_batch *batch)
{
    for (size_t e = 0; e < batch->n; e++)
        if (m->goes[batch->events[e]->id.b[0]])
            return HW_ROUND_REPEATS;
    for (size_t i = 0; i < batch->streams_n; i++)
        if (!hw_expectation_met(batch->streams[i].expected,
                                m->version[number_of(batch->streams[i].name)]))
            return HW_ROUND_REFUSED;
    for (size_t e = 0; e < batch->n; e++) {
        m->goes[batch->events[e]->id.b[0]] = true;
        m->version[number_of(batch->events[e]->stream)]++;
    }
    return HW_ROUND_GOES;
}

static void make_item(item *it, uint32_t *seed)
{
    static const int64_t expectations[] = {HOWDAH_EXPECT_ANY,
                                           HOWDAH_EXPECT_ANY,
                                           HOWDAH_EXPECT_ANY,
                                           HOWDAH_EXPECT_EXISTS,
                                           0,
                                           1,
                                           2,
                                           3,
                                           4};

    for (;;) {
        size_t n = 1 + next(seed, EVENTS);

        for (size_t e = 0; e < n; e++) {
            set_event(it, e, (uint8_t)next(seed, IDS), next(seed, STREAMS));
            it->events[e].expects = next(seed, 2) == 0;
            it->events[e].expected_version = expectations[next(seed, 9)];
        }
        if (hw_batch_init(&it->batch, it->list, n, HOWDAH_EXPECT_ANY, NULL) == HOWDAH_OK)
            return;
    }
}

static bool would_be_stored(const hw_round *round, const int64_t *base)
{
    for (size_t i = 0; i < round->batch.streams_n; i++)
        if (!hw_expectation_met(round->batch.streams[i].expected,
                                base[number_of(round->batch.streams[i].name)]))
            return false;
    return true;
}

static void check_against_model(const hw_round *round, const int64_t *base)
{
    howdah_position positions[ITEMS * EVENTS];
    model m = {{0}, {false}};

    memcpy(m.version, base, sizeof m.version);
    for (size_t e = 0; e < round->batch.n; e++)
        positions[e].version =
            base[number_of(round->batch.events[e]->stream)] + round->batch.nth[e];
    for (size_t i = 0; i < round->items_n; i++) {
        const hw_round_item *it = &round->items[i];
        model before = m;

        assert_int_equal(it->verdict, model_take(&m, it->batch));
        if (it->verdict == HW_ROUND_REFUSED) { /* one of the streams that refuse it */
            const hw_batch_stream *stream = &it->batch->streams[it->stream_no];
            int64_t actual = m.version[number_of(stream->name)];

            assert_false(hw_expectation_met(stream->expected, actual));
            assert_i64_equal(hw_round_actual(round, i, positions), actual);
        }
        for (size_t e = 0; it->verdict == HW_ROUND_GOES && e < it->batch->n; e++) {
            assert_ptr_equal(round->batch.events[it->at + e], it->batch->events[e]);
            assert_i64_equal(positions[it->at + e].version,
                             ++before.version[number_of(it->batch->events[e]->stream)]);
        }
    }
}

static void the_verdicts_are_those_of_one_after_the_other(void **state)
{
    uint32_t seed = 1;
    int believed = 0;

    (void)state;
    for (int r = 0; r < ROUNDS; r++) {
        size_t n = 1 + next(&seed, ITEMS);
        int64_t base[STREAMS];
        item items[ITEMS];
        hw_round round;

        for (size_t i = 0; i < STREAMS; i++)
            base[i] = next(&seed, 4);
        for (size_t i = 0; i < n; i++)
            make_item(&items[i], &seed);
        plan_items(&round, items, n);
        if (would_be_stored(&round, base)) {
            believed++;
        } else {
            for (size_t i = 0; i < round.streams_n; i++)
                if (round.streams[i].asked)
                    hw_round_know(&round, i, base[number_of(round.streams[i].name)]);
            hw_round_plan(&round);
            assert_true(would_be_stored(&round, base));
        }
        check_against_model(&round, base);
        free_items(&round, items, n);
    }
    assert_true(believed > ROUNDS / 20);
}

static void without_memory_there_is_no_round(void **state)
{
    const hw_batch *batches[1];
    unit_allocator a;
    item one;
    hw_round round;

    (void)state;
    set_one(&one, 1, 0, HOWDAH_EXPECT_ANY);
    batches[0] = &one.batch;
    for (unsigned fail = 1; fail <= 8; fail++) {
        unit_allocator_start(&a, fail);
        assert_int_equal(hw_round_init(&round, batches, 1, NULL), HOWDAH_NO_MEMORY);
        unit_allocator_stop(&a);
    }
    plan_items(&round, &one, 1);
    free_items(&round, &one, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_with_the_same_expectation_the_first_goes),
        cmocka_unit_test(an_id_goes_once),
        cmocka_unit_test(what_was_looked_up_is_what_the_store_has_to_find),
        cmocka_unit_test(the_verdicts_are_those_of_one_after_the_other),
        cmocka_unit_test(without_memory_there_is_no_round),
    };

    return cmocka_run_group_tests_name("round", tests, NULL, NULL);
}
