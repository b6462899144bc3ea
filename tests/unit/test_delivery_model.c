/*
 * test_delivery_model.c - delivery against a naive model, number by number.
 *
 * A small world: every number is in flight, visible or dead, belongs to a stream, and matches the
 * pattern or not.  Versions become visible in order.  A frontier knows what it saw at its last
 * round.  Random steps; after each one the sets of delivery are compared with those of the model,
 * and every delivery and every stored checkpoint is held against the truth.
 */
#include "delivery_help.h"

enum { NUMBERS = 60, STREAMS = 4, ROWS = 8 };

typedef enum fate { IN_FLIGHT, VISIBLE, DEAD } fate;

typedef struct world {
    uint64_t seed;
    int64_t now_ms;
    bool unlucky; /* most handlers fail */
    fate fate[NUMBERS + 1];
    int stream[NUMBERS + 1];
    bool matches[NUMBERS + 1];
    /* the frontier */
    int64_t high;
    bool hole[NUMBERS + 1];
    int64_t hole_since[NUMBERS + 1];
    hw_hole holes[NUMBERS];
    size_t holes_n;
    /* what the subscription should be */
    hw_delivery d;
    int64_t d_high;
    bool missing[NUMBERS + 1];
    bool pending[NUMBERS + 1];
    bool done[NUMBERS + 1]; /* handled, dead-lettered or skipped */
    /* the stored checkpoint */
    int64_t stored_high;
    bool stored_outstanding[NUMBERS + 1];
    /* so that the test knows that it tested something */
    int64_t delivered, held, waited, retried, dead_letters, skips, loads, checkpoints;
} world;

static const char *const names[STREAMS] = {"a", "b", "c", "d"};

static uint64_t dice(world *w, uint64_t sides)
{
    w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (w->seed >> 33) % sides;
}

/* ------------------------------------------------------------------- the world moves */

/* The next number in flight of a stream may become visible or die; later ones must wait. */
static void decide_one(world *w, int64_t n)
{
    if (w->fate[n] != IN_FLIGHT)
        return;
    if (dice(w, 4) == 0) {
        w->fate[n] = DEAD;
        return;
    }
    for (int64_t m = 1; m < n; m++) {
        if (w->fate[m] == IN_FLIGHT && w->stream[m] == w->stream[n])
            return;
    }
    w->fate[n] = VISIBLE;
}

/* The proof of death is perfect here: what has died is known to be dead at the next round. */
static void frontier_round(world *w)
{
    for (int64_t n = 1; n <= NUMBERS; n++) {
        if (w->fate[n] == VISIBLE && n > w->high)
            w->high = n;
    }
    w->holes_n = 0;
    for (int64_t n = 1; n <= w->high; n++) {
        bool hole = w->fate[n] == IN_FLIGHT;

        if (hole && !w->hole[n])
            w->hole_since[n] = w->now_ms;
        w->hole[n] = hole;
        if (hole && w->holes_n > 0 && w->holes[w->holes_n - 1].last == n - 1 &&
            w->holes[w->holes_n - 1].since_ms == w->hole_since[n])
            w->holes[w->holes_n - 1].last = n;
        else if (hole)
            w->holes[w->holes_n++] = (hw_hole){n, n, w->hole_since[n]};
    }
}

/* -------------------------------------------------------------------- the invariants */

static void check_sets(const world *w)
{
    const hw_delivery *d = &w->d;

    assert_true(d->high == w->d_high);
    for (int64_t n = 1; n <= NUMBERS; n++) {
        assert_true(hw_ranges_has(&d->missing, n) == w->missing[n]);
        assert_true(hw_ranges_has(&d->pending, n) == w->pending[n]);
    }
    assert_true(d->pending.n <= d->config.pending_max && d->waiting <= d->config.pending_max);
    if (d->in_hand == 0)
        assert_true(hw_ranges_count(&d->pending) == (int64_t)d->waiting);
}

/* I4: nothing was accepted that adds a range to a full set, but for one at an edge. */
static void check_growth(const world *w, size_t before, bool none_pending)
{
    size_t after = w->d.missing.n + w->d.pending.n;

    assert_true(after <= before || after <= w->d.config.outstanding_max ||
                (none_pending && after == before + 1));
}

/* I3 against the truth: everything of the stream (STRICT: of all) that comes before is over. */
static void check_order(const world *w, int64_t n)
{
    bool strict = w->d.config.ordering == HOWDAH_ORDERING_STRICT;

    for (int64_t m = 1; m < n; m++) {
        if (w->matches[m] && (strict || w->stream[m] == w->stream[n]))
            assert_true(w->done[m] || w->fate[m] == DEAD);
    }
}

/* I2: what a checkpoint does not owe is done with, does not match, or never appears. */
static void check_checkpoint(const world *w)
{
    for (int64_t n = 1; n <= w->stored_high; n++) {
        if (!w->stored_outstanding[n])
            assert_true(w->done[n] || w->fate[n] == DEAD ||
                        (!w->matches[n] && w->fate[n] == VISIBLE));
    }
}

static void store(world *w, int64_t without_first, int64_t without_last)
{
    hw_ranges outstanding = HW_RANGES_INIT;

    assert_int_equal(
        hw_delivery_outstanding_without(&w->d, without_first, without_last, &outstanding, NULL),
        HOWDAH_OK);
    assert_true(w->d.high >= w->stored_high);
    w->stored_high = w->d.high;
    for (int64_t n = 1; n <= NUMBERS; n++)
        w->stored_outstanding[n] = hw_ranges_has(&outstanding, n);
    hw_ranges_done(&outstanding);
    w->checkpoints++;
}

/* ------------------------------------------------------------------------- handlers */

static void finish(world *w, int64_t n)
{
    w->pending[n] = false;
    w->done[n] = true;
}

static void handle(world *w, int64_t n)
{
    hw_str stream = hw_str_of(names[w->stream[n]]);
    hw_failed what = HW_FAILED_HALT;
    uint64_t luck = dice(w, w->unlucky ? 20 : 10);

    w->delivered++;
    assert_true(w->d.in_hand == n && w->pending[n] && !w->done[n]);
    check_order(w, n);
    if (luck < 6) {
        if (w->d.config.mode == HOWDAH_CHECKPOINT_TRANSACTIONAL) {
            store(w, n, n);
            finish(w, n);
        }
        assert_int_equal(hw_delivery_handled(&w->d, n, w->now_ms, NULL), HOWDAH_OK);
        finish(w, n);
    } else if (luck == 6) {
        assert_int_equal(hw_delivery_put_back(&w->d, n, stream, w->now_ms, NULL), HOWDAH_OK);
    } else {
        assert_int_equal(
            hw_delivery_failed(&w->d, n, stream, w->now_ms, (uint32_t)w->seed, &what, NULL),
            HOWDAH_OK);
        if (what == HW_FAILED_DEAD_LETTER) {
            store(w, n, n);
            assert_int_equal(hw_delivery_dead_lettered(&w->d, n, w->now_ms, NULL), HOWDAH_OK);
            finish(w, n);
            w->dead_letters++;
        }
    }
    check_sets(w);
    check_checkpoint(w);
}

/* --------------------------------------------------------------------------- pages */

static void model_pass(world *w, int64_t upto)
{
    for (int64_t n = 1; n <= NUMBERS; n++) {
        if (n <= w->d_high && n <= upto)
            w->missing[n] = w->missing[n] && w->hole[n];
        else if (n > w->d_high && n <= w->d.high)
            w->missing[n] = w->hole[n];
    }
    if (upto > w->d_high) {
        assert_true(w->d.high >= w->d_high && w->d.high <= upto);
        if (w->d.high < upto) /* it may stop early for one reason only */
            assert_true(w->d.missing.n + w->d.pending.n >= w->d.config.outstanding_max);
        w->d_high = w->d.high;
    }
}

static void page_pass(world *w, int64_t upto)
{
    assert_int_equal(hw_delivery_pass(&w->d, upto, w->holes, w->holes_n, w->now_ms, NULL),
                     HOWDAH_OK);
    model_pass(w, upto);
    check_sets(w);
}

static hw_offer page_offer(world *w, int64_t n)
{
    hw_offer what = HW_OFFER_WAIT;
    bool expected = n > w->d_high || w->missing[n];
    size_t before = w->d.missing.n + w->d.pending.n;
    bool none_pending = w->d.pending.n == 0;

    assert_int_equal(hw_delivery_offer(&w->d, n, hw_str_of(names[w->stream[n]]), w->matches[n],
                                       w->now_ms, &what, NULL),
                     HOWDAH_OK);
    check_growth(w, before, none_pending);
    if (what == HW_OFFER_WAIT) {
        assert_true(expected);
        check_sets(w);
        return what;
    }
    if (!expected || !w->matches[n])
        assert_int_equal(what, HW_OFFER_SKIP);
    else
        assert_true(what == HW_OFFER_DELIVER || what == HW_OFFER_HELD);
    for (int64_t m = w->d_high + 1; m < n; m++)
        w->missing[m] = true;
    w->missing[n] = false;
    if (expected && w->matches[n])
        w->pending[n] = true;
    if (n > w->d_high)
        w->d_high = n;
    if (what == HW_OFFER_HELD) {
        w->held++;
        check_sets(w);
    }
    return what;
}

/* One page: wanted, read in one snapshot, offered, passed.  The world goes on meanwhile. */
static void page(world *w, size_t limit)
{
    hw_ranges wanted = HW_RANGES_INIT;
    int64_t rows[NUMBERS];
    size_t rows_n = 0;
    bool sparse = dice(w, 2) == 0;
    bool cut = false;
    int64_t upto = 0;

    assert_int_equal(hw_delivery_wanted(&w->d, w->high, w->holes, w->holes_n, &wanted, &upto, NULL),
                     HOWDAH_OK);
    for (int64_t n = 1; n <= NUMBERS && !cut; n++) {
        if (hw_ranges_has(&wanted, n) && w->fate[n] == VISIBLE && (!sparse || w->matches[n])) {
            rows[rows_n++] = n;
            cut = rows_n == limit;
        }
    }
    for (size_t i = 0; i < rows_n; i++) {
        hw_offer what = page_offer(w, rows[i]);

        if (what == HW_OFFER_WAIT) {
            page_pass(w, rows[i] - 1);
            what = page_offer(w, rows[i]);
        }
        if (what == HW_OFFER_WAIT) {
            w->waited++;
            hw_ranges_done(&wanted);
            return;
        }
        if (what == HW_OFFER_DELIVER)
            handle(w, rows[i]);
        decide_one(w, 1 + (int64_t)dice(w, NUMBERS));
        if (dice(w, 8) == 0)
            page_pass(w, rows[i]);
    }
    page_pass(w, cut ? rows[rows_n - 1] : upto);
    hw_ranges_done(&wanted);
}

static void retry_due(world *w, size_t room)
{
    int64_t due[ROWS];
    size_t n = hw_delivery_due(&w->d, w->now_ms, due, room);

    for (size_t i = 0; i < n; i++) {
        hw_offer what = HW_OFFER_WAIT;

        assert_true(w->pending[due[i]]);
        assert_true(i == 0 || due[i - 1] < due[i]);
        assert_int_equal(hw_delivery_retry(&w->d, due[i], &what, NULL), HOWDAH_OK);
        assert_true(what == HW_OFFER_DELIVER || what == HW_OFFER_SKIP);
        if (what == HW_OFFER_DELIVER) {
            w->retried++;
            handle(w, due[i]);
        }
    }
}

static void skip_overdue(world *w)
{
    hw_range range;
    int64_t age_ms;

    if (!hw_delivery_overdue(&w->d, w->holes, w->holes_n, w->now_ms, &range, &age_ms))
        return;
    assert_true(w->d.config.gap_policy == HOWDAH_GAP_TIMEOUT &&
                age_ms >= w->d.config.gap_timeout_ms);
    store(w, range.first, range.last);
    assert_int_equal(hw_delivery_skipped(&w->d, range, w->now_ms, NULL), HOWDAH_OK);
    for (int64_t n = range.first; n <= range.last; n++) {
        assert_true(w->missing[n] && w->hole[n]);
        w->missing[n] = false;
        w->done[n] = true;
    }
    w->skips++;
    check_sets(w);
    check_checkpoint(w);
}

/* Who takes over has looked at the log when it was shorter. */
static void frontier_of_another(world *w)
{
    w->high = (int64_t)dice(w, (uint64_t)w->high + 1);
    while (w->holes_n > 0 && w->holes[w->holes_n - 1].first > w->high)
        w->holes_n--;
    if (w->holes_n > 0 && w->holes[w->holes_n - 1].last > w->high)
        w->holes[w->holes_n - 1].last = w->high;
    for (int64_t n = w->high + 1; n <= NUMBERS; n++)
        w->hole[n] = false;
}

/* The owner dies: what was done since the checkpoint may be done again. */
static void crash(world *w)
{
    hw_range outstanding[NUMBERS];
    size_t outstanding_n = 0;

    for (int64_t n = 1; n <= NUMBERS; n++) {
        w->missing[n] = n <= w->stored_high && w->stored_outstanding[n];
        w->pending[n] = false;
        if (n > w->stored_high || w->stored_outstanding[n])
            w->done[n] = false;
        if (w->missing[n])
            outstanding[outstanding_n++] = (hw_range){n, n};
    }
    w->d_high = w->stored_high;
    assert_int_equal(hw_delivery_load(&w->d, w->stored_high, outstanding, outstanding_n, 0, NULL),
                     HOWDAH_OK);
    frontier_of_another(w);
    w->loads++;
    check_sets(w);
}

static void step(world *w)
{
    w->now_ms += (int64_t)dice(w, 300);
    switch (dice(w, 12)) {
    case 0:
    case 1:
    case 2:
        for (int i = 0; i < 4; i++)
            decide_one(w, 1 + (int64_t)dice(w, NUMBERS));
        break;
    case 3:
    case 4:
        frontier_round(w);
        break;
    case 5:
    case 6:
    case 7:
        page(w, 1 + dice(w, ROWS));
        break;
    case 8:
    case 9:
        retry_due(w, 1 + dice(w, ROWS));
        break;
    case 10:
        if (hw_delivery_checkpoint_due(&w->d, w->now_ms)) {
            store(w, 0, 0);
            hw_delivery_checkpointed(&w->d);
            check_checkpoint(w);
            assert_false(hw_delivery_checkpoint_due(&w->d, w->now_ms));
        }
        skip_overdue(w);
        break;
    default:
        if (dice(w, 20) == 0)
            crash(w);
        break;
    }
}

/* Everything is decided and known: all of it must come, whatever happened before. */
static void heal(world *w)
{
    for (int round = 0; round < 50; round++) {
        for (int64_t n = 1; n <= NUMBERS; n++)
            decide_one(w, n);
    }
    frontier_round(w);
    assert_i64_equal((int64_t)w->holes_n, 0);
    for (int round = 0; round < 1000; round++) {
        w->now_ms += 100000;
        page(w, ROWS);
        retry_due(w, ROWS);
    }
    assert_i64_equal(w->d.high, w->high);
    assert_i64_equal((int64_t)w->d.missing.n, 0);
    assert_i64_equal((int64_t)w->d.pending.n, 0);
    for (int64_t n = 1; n <= NUMBERS; n++)
        assert_true(w->fate[n] != VISIBLE || !w->matches[n] || w->done[n]);
}

static void run(world *w, uint64_t seed, const hw_delivery_config *config)
{
    w->seed = seed;
    w->unlucky = seed % 5 == 0;
    for (int64_t n = 1; n <= NUMBERS; n++) {
        w->stream[n] = (int)dice(w, STREAMS);
        w->matches[n] = dice(w, 5) != 0;
    }
    start(&w->d, config);
    for (int i = 0; i < 400; i++)
        step(w);
    heal(w);
    hw_delivery_done(&w->d);
}

static void random_steps_agree_with_the_model_in_every_mode(void **state)
{
    world sum = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        hw_delivery_config config = {
            .ordering = seed % 2 ? HOWDAH_ORDERING_AHEAD : HOWDAH_ORDERING_STRICT,
            .gap_policy = seed % 3 ? HOWDAH_GAP_PROOF : HOWDAH_GAP_TIMEOUT,
            .gap_timeout_ms = 500,
            .mode = (howdah_checkpoint_mode)(seed / 2 % 3),
            .batch_size = 4,
            .max_delay_ms = 200,
            .max_retries = 2,
            .retry_delay_ms = 100,
            .max_retry_delay_ms = 1000,
            .jitter_percent = 20,
            .outstanding_max = seed % 4 < 2 ? 6 : 40,
            .pending_max = seed % 4 < 2 ? 7 : 30,
        };
        world w = {0};

        run(&w, seed, &config);
        sum.delivered += w.delivered;
        sum.held += w.held;
        sum.waited += w.waited;
        sum.retried += w.retried;
        sum.dead_letters += w.dead_letters;
        sum.skips += w.skips;
        sum.loads += w.loads;
        sum.checkpoints += w.checkpoints;
    }
    /* It has been everywhere. */
    assert_true(sum.delivered > 20000);
    assert_true(sum.held > 500);
    assert_true(sum.waited > 100);
    assert_true(sum.retried > 1000);
    assert_true(sum.dead_letters > 500);
    assert_true(sum.skips > 100);
    assert_true(sum.loads > 100);
    assert_true(sum.checkpoints > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_steps_agree_with_the_model_in_every_mode),
    };

    return cmocka_run_group_tests_name("delivery_model", tests, NULL, NULL);
}
