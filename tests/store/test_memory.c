/*
 * test_memory.c - every allocation fails once.
 *
 * A script of all that subscriptions do is run with the nth allocation failing, for every n until
 * it gets through: whatever fails says NO_MEMORY, the script goes on as far as it can, and nothing
 * crashes or leaks.  What is stored by then is sound.
 */
#include <inttypes.h>
#include <stdio.h>

#include "low_memory.h"
#include "suite.h"

static int keep_token(void *ctx, const hw_sub_row *r)
{
    *(int64_t *)ctx = r->token;
    return 0;
}

static int ignore_row(void *ctx, const hw_sub_row *r)
{
    (void)ctx;
    (void)r;
    return 0;
}

static int ignore_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    (void)ctx;
    (void)dead_letter;
    return 0;
}

static int ignore_skip(void *ctx, const howdah_skip *skip)
{
    (void)ctx;
    (void)skip;
    return 0;
}

static int ignore_range(void *ctx, hw_range range)
{
    (void)ctx;
    (void)range;
    return 0;
}

static void read_sparsely(const ss *t)
{
    hw_range ranges[] = {{1, 1}, {3, INT64_MAX}};
    hw_str whole = S("a.*");
    hw_query query = {.ranges = ranges,
                      .ranges_n = 2,
                      .pattern = S("a.>"),
                      .payload_of = &whole,
                      .payload_of_n = 1,
                      .sparse = true};
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    size_t n = 0;
    int s;

    if (!fine(t->store->ops->read_open(t->store, &query, &cursor, &ss_error)))
        return;
    do
        s = t->store->ops->read_next(cursor, &events, &n, &ss_error);
    while (s == HOWDAH_OK);
    (void)fine(s);
    t->store->ops->read_close(cursor);
}

static void run_dead_letters(const ss *t, const hw_checkpoint *c, const howdah_event *event)
{
    hw_dead_letter_query query = {.resolved = true};
    int64_t id = 0;

    if (!fine(t->subs->dead_letter(t->store, c, event, S("e"), 1, &id, &ss_error)))
        return;
    (void)fine(t->subs->dead_letters_set_state(
        t->store, &id, 1, HW_STR_NULL, HW_DEAD_LETTER_REDRIVE, HW_STR_NULL, NULL, &ss_error));
    (void)fine(t->subs->redrive_end(t->store, SS_HOLD(c->subscriber_id, c->token), id,
                                    HW_DEAD_LETTER_DEAD, S("again"), &ss_error));
    (void)fine(t->subs->dead_letters(t->store, &query, ignore_dead_letter, NULL, &ss_error));
    (void)fine(t->subs->skip(t->store, c, (hw_range){1, 1}, 1, S("r"), &ss_error));
    (void)fine(t->subs->skips(t->store, HW_STR_NULL, true, ignore_skip, NULL, &ss_error));
}

static void run_bell(const ss *t)
{
    hw_str type = S("a.b");
    uint64_t session;
    int s = t->subs->listen(t->store, true, NULL, 0, &ss_error);

    /* Who cannot listen for want of memory polls. */
    poor_failed = poor_failed || s == HOWDAH_END;
    (void)fine(s);
    (void)fine(t->subs->arm(t->store, &ss_error));
    (void)fine(t->subs->ring(t->store, &type, 1, &ss_error));
    (void)fine(t->subs->wait(t->store, 1, &ss_error));
    (void)fine(t->subs->session(t->store, &session, &ss_error));
}

static void run_script(const ss *t, const howdah_event *event)
{
    hw_take take = {S("s"), HOWDAH_INSTANCE_LEASE, S("me"), 60000};
    hw_range outstanding[] = {{1, 1}};
    char timeline[HW_TIMELINE_SIZE];
    hw_sub_news news;
    hw_checkpoint c;
    int64_t token = 0;

    read_sparsely(t);
    (void)fine(t->subs->gaps(t->store, 1, 10, ignore_range, NULL, &ss_error));
    (void)fine(t->subs->timeline(t->store, timeline, &ss_error));
    if (!fine(t->subs->create(t->store, S("s"), &(hw_filter){.pattern = S("a.*")}, 1, outstanding,
                              1, NULL, &ss_error)) ||
        !fine(t->subs->take(t->store, &take, keep_token, &token, &ss_error)))
        return;
    c = ss_behind("s", token, event);
    c.outstanding = outstanding;
    c.outstanding_n = 1;
    (void)fine(t->subs->checkpoint(t->store, &c, 1, 60000, &news, &ss_error));
    (void)fine(t->subs->poll(t->store, &c, 1, 90000, &news, &ss_error));
    (void)fine(t->subs->suspect(t->store, SS_HOLD(S("s"), token), 1, 1, &ss_error));
    (void)fine(t->subs->set_status(t->store, SS_HOLD(S("s"), 0), HW_SUB_PAUSED, S("r"), &ss_error));
    (void)fine(t->subs->load(t->store, S("s"), ignore_row, NULL, &ss_error));
    (void)fine(t->subs->list(t->store, ignore_row, NULL, &ss_error));
    run_dead_letters(t, &c, event);
    run_bell(t);
    if (fine(t->subs->begin(t->store, HW_STR_NULL, &ss_error)))
        (void)fine(t->subs->commit(t->store, &c, &ss_error));
    (void)fine(
        t->subs->release(t->store, SS_HOLD(S("s"), token), HOWDAH_INSTANCE_LEASE, &ss_error));
    (void)fine(t->subs->reset(t->store, S("s"), 1, outstanding, 1, &ss_error));
    (void)fine(t->subs->remove(t->store, S("s"), &ss_error));
}

static void an_allocation_that_fails_is_said_and_breaks_nothing(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    long n = 0;

    ss_append_many(t->store, "a.c", 3000);
    assert_int_equal(howdah_allocator_set(&poor_hooks), HOWDAH_OK);
    do {
        poor_failed = false;
        poor_left = n++;
        run_script(t, event);
        poor_left = -1;
        assert_true(n < 1000);
    } while (poor_failed);
    assert_true(n > 5);
    run_script(t, event);
    assert_false(poor_failed);
    assert_int_equal(howdah_allocator_set(NULL), HOWDAH_OK);
    hw_event_free(event);
}

ss_group ss_memory_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(an_allocation_that_fails_is_said_and_breaks_nothing),
    };
    return SS_GROUP(tests);
}
