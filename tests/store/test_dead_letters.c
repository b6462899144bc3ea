/* test_dead_letters.c - dead letters and skips. */
#include <stdio.h>

#include "base/mem.h"
#include "suite.h"

/* A dead letter that outlives its callback. */
typedef struct kept {
    int n;
    char ids[256]; /* "1 2 3" */
    howdah_dead_letter dead_letter;
    howdah_event *event;
    char source[16];
    char subscriber_id[64];
    char error[256];
    char reason[64];
    char resolved_by[64];
} kept;

static void keep_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text && text[0] ? text : "-");
}

static int keep_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    kept *k = ctx;
    size_t len = strlen(k->ids);

    k->n++;
    (void)snprintf(k->ids + len, sizeof k->ids - len, "%s%lld", len > 0 ? " " : "",
                   (long long)dead_letter->id);
    k->dead_letter = *dead_letter;
    hw_event_free(k->event);
    k->event = NULL;
    ok(hw_event_clone(dead_letter->event, &k->event, &ss_error));
    keep_text(k->source, sizeof k->source, dead_letter->source);
    keep_text(k->subscriber_id, sizeof k->subscriber_id, dead_letter->subscriber_id);
    keep_text(k->error, sizeof k->error, dead_letter->error);
    keep_text(k->reason, sizeof k->reason, dead_letter->reason);
    keep_text(k->resolved_by, sizeof k->resolved_by, dead_letter->resolved_by);
    return 0;
}

static kept dead_letters(const ss *t, hw_dead_letter_query query)
{
    kept k = {.n = 0};

    ok(t->subs->dead_letters(t->store, &query, keep_dead_letter, &k, &ss_error));
    return k;
}

static const char *dead_letter_ids(const ss *t, hw_dead_letter_query query)
{
    static char ids[256];
    kept k = dead_letters(t, query);

    (void)snprintf(ids, sizeof ids, "%s", k.ids);
    hw_event_free(k.event);
    return ids;
}

static kept one_dead_letter(const ss *t, int64_t id)
{
    kept k = dead_letters(t, (hw_dead_letter_query){.id = id, .resolved = true});

    assert_int_equal(k.n, 1);
    assert_true(k.dead_letter.id == id);
    return k;
}

static void same_event(const howdah_event *a, const howdah_event *b)
{
    assert_true(a->global_sequence == b->global_sequence);
    assert_true(a->version == b->version);
    assert_true(a->recorded_at_us == b->recorded_at_us);
    assert_true(a->valid_time_us == b->valid_time_us);
    assert_int_equal(a->revision, b->revision);
    assert_int_equal(a->schema_version, b->schema_version);
    assert_memory_equal(a->id.b, b->id.b, sizeof a->id.b);
    assert_int_equal(a->has_family, b->has_family);
    if (a->has_family)
        assert_memory_equal(a->family.b, b->family.b, sizeof a->family.b);
    assert_int_equal(a->broken, b->broken);
    if (!a->broken)
        assert_true(hw_event_same_content(a, b));
    assert_true(hw_str_equal(a->reason, b->reason));
}

static void a_dead_letter_and_its_checkpoint_are_stored_together(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "order-7", "order.created", "{\"n\": 1.50}");
    hw_checkpoint c;
    int64_t id = 0;
    row r;
    kept k;

    ss_create(t, "s");
    c = ss_behind("s", ss_take(t->store, "s", "a"), event);
    ok(t->subs->dead_letter(t->store, &c, event, S("it's 100% \"broken\""), 4, &id, &ss_error));
    assert_true(id > 0);
    r = ss_load(t, "s");
    assert_int_equal(r.row.high, event->global_sequence);
    assert_int_equal(r.row.anchor.sequence, event->global_sequence);
    assert_int_equal(r.row.dead_letters, 1);
    k = one_dead_letter(t, id);
    assert_string_equal(k.source, "sub");
    assert_string_equal(k.subscriber_id, "s");
    assert_string_equal(k.error, "it's 100% \"broken\"");
    assert_string_equal(k.reason, "-");
    assert_string_equal(k.resolved_by, "-");
    assert_int_equal(k.dead_letter.attempts, 4);
    assert_int_equal(k.dead_letter.redrives, 0);
    assert_string_equal(k.dead_letter.state, hw_dead_letter_state_name(HW_DEAD_LETTER_DEAD));
    assert_true(!k.dead_letter.resolved && k.dead_letter.resolved_at_us == HOWDAH_NO_TIME);
    assert_true(k.dead_letter.created_at_us > 0);
    /* One clock, looked at twice perhaps. */
    assert_true(llabs(k.dead_letter.last_attempt_at_us - k.dead_letter.created_at_us) < 1000000);
    same_event(event, k.event);
    hw_event_free(k.event);
    hw_event_free(event);
}

/* All that an event can have, bytes with a NUL included. */
static howdah_event *full_event(hw_str data, hw_str content_type, bool broken)
{
    howdah_event e;
    howdah_event *event = NULL;

    hw_event_init(&e);
    e.global_sequence = 17;
    e.version = 3;
    e.recorded_at_us = INT64_C(1700000000123456);
    e.valid_time_us = INT64_C(-86400000001);
    e.revision = 2;
    e.schema_version = 9;
    assert_true(hw_uuid_v7(&e.id) && hw_uuid_v7(&e.family) && hw_uuid_v7(&e.corrects) &&
                hw_uuid_v7(&e.causation_id));
    e.has_family = e.has_corrects = e.has_causation = true;
    e.stream = S("über's");
    e.type = S("a.b");
    e.data = data;
    e.content_type = content_type;
    e.broken = broken;
    e.headers = S("{\"k\":\"v\"}");
    e.correlation_id = S("c-1");
    e.actor = S("me");
    e.reason = S("because");
    ok(hw_event_clone(&e, &event, &ss_error));
    return event;
}

static void a_dead_letter_has_all_of_its_event(void **state)
{
    static const char bytes[] = {'a', '\0', '\xff', 'z'};
    const struct {
        hw_str data;
        hw_str content_type;
    } payloads[] = {{S("{\"a\":[1,2.50]}"), HW_STR_NULL},
                    {{bytes, sizeof bytes}, S("application/octet-stream")},
                    {{"", 0}, S("text/plain")},
                    {S("null"), HW_STR_NULL}};
    ss *t = *state;
    int64_t token;

    ss_create(t, "s");
    token = ss_take(t->store, "s", "a");
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        howdah_event *event = full_event(payloads[i].data, payloads[i].content_type, i == 3);
        hw_checkpoint c = ss_at("s", token, event->global_sequence); /* it is not in the log */
        int64_t id = 0;
        kept k;

        ok(t->subs->dead_letter(t->store, &c, event, S("e"), 1, &id, &ss_error));
        k = one_dead_letter(t, id);
        same_event(event, k.event);
        hw_event_free(k.event);
        hw_event_free(event);
    }
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {dead_letters}"
                                      " WHERE data IS NULL AND bytes IS NULL"),
                     1);
}

static void a_second_dead_letter_of_the_same_event_renews_the_first(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    hw_checkpoint c;
    int64_t first = 0;
    int64_t second = 0;
    int64_t n = 0;
    kept k;

    ss_create(t, "s");
    c = ss_behind("s", ss_take(t->store, "s", "a"), event);
    ok(t->subs->dead_letter(t->store, &c, event, S("one"), 3, &first, &ss_error));
    ok(t->subs->dead_letters_set_state(t->store, &first, 1, HW_STR_NULL, HW_DEAD_LETTER_DISCARDED,
                                       S("no"), &n, &ss_error));
    assert_int_equal(n, 1);
    assert_int_equal(ss_load(t, "s").row.dead_letters, 0);
    ok(t->subs->dead_letter(t->store, &c, event, S("two"), 4, &second, &ss_error));
    assert_true(first == second);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {dead_letters}"), 1);
    assert_int_equal(ss_load(t, "s").row.dead_letters, 1);
    k = one_dead_letter(t, first);
    assert_string_equal(k.error, "two");
    assert_string_equal(k.dead_letter.state, hw_dead_letter_state_name(HW_DEAD_LETTER_DEAD));
    assert_true(!k.dead_letter.resolved && k.dead_letter.resolved_at_us == HOWDAH_NO_TIME);
    assert_string_equal(k.reason, "-");
    assert_string_equal(k.resolved_by, "-");
    hw_event_free(k.event);
    hw_event_free(event);
}

/* Letters of n events for each of the subscribers; ids in order. */
static void write_dead_letters(const ss *t, const char *const *subscribers, size_t n, int events,
                               int64_t *ret_ids)
{
    for (int e = 0; e < events; e++) {
        howdah_event *event = ss_append(t->store, "s", "a.b", NULL);

        for (size_t i = 0; i < n; i++) {
            hw_checkpoint c =
                ss_behind(subscribers[i], ss_load(t, subscribers[i]).row.token, event);

            ok(t->subs->dead_letter(t->store, &c, event, S("e"), 1, ret_ids++, &ss_error));
        }
        hw_event_free(event);
    }
}

static void dead_letters_are_listed_by_subscriber_state_and_page(void **state)
{
    static const char *const subscribers[] = {"a", "b"};
    ss *t = *state;
    char text[64];
    int64_t ids[6];

    for (int i = 0; i < 2; i++) {
        ss_create(t, subscribers[i]);
        (void)ss_take(t->store, subscribers[i], "o");
    }
    write_dead_letters(t, subscribers, 2, 3, ids);
    for (int i = 1; i < 6; i++)
        assert_true(ids[i] > ids[i - 1]);
    (void)snprintf(text, sizeof text, "%lld %lld %lld %lld %lld %lld", (long long)ids[0],
                   (long long)ids[1], (long long)ids[2], (long long)ids[3], (long long)ids[4],
                   (long long)ids[5]);
    assert_string_equal(dead_letter_ids(t, (hw_dead_letter_query){.id = 0}), text);
    (void)snprintf(text, sizeof text, "%lld %lld %lld", (long long)ids[1], (long long)ids[3],
                   (long long)ids[5]);
    assert_string_equal(dead_letter_ids(t, (hw_dead_letter_query){.subscriber_id = S("b")}), text);
    (void)snprintf(text, sizeof text, "%lld %lld", (long long)ids[2], (long long)ids[3]);
    assert_string_equal(dead_letter_ids(t, (hw_dead_letter_query){.after_id = ids[1], .limit = 2}),
                        text);
    assert_string_equal(dead_letter_ids(t, (hw_dead_letter_query){.after_id = ids[5]}), "");
    ok(t->subs->dead_letters_set_state(t->store, &ids[2], 1, HW_STR_NULL, HW_DEAD_LETTER_DISCARDED,
                                       S("x"), NULL, &ss_error));
    ok(t->subs->dead_letters_set_state(t->store, &ids[4], 1, HW_STR_NULL, HW_DEAD_LETTER_REDRIVE,
                                       HW_STR_NULL, NULL, &ss_error));
    (void)snprintf(text, sizeof text, "%lld %lld", (long long)ids[0], (long long)ids[4]);
    assert_string_equal(dead_letter_ids(t, (hw_dead_letter_query){.subscriber_id = S("a")}), text);
    (void)snprintf(text, sizeof text, "%lld %lld %lld", (long long)ids[0], (long long)ids[2],
                   (long long)ids[4]);
    assert_string_equal(
        dead_letter_ids(t, (hw_dead_letter_query){.subscriber_id = S("a"), .resolved = true}),
        text);
    (void)snprintf(text, sizeof text, "%lld", (long long)ids[4]);
    assert_string_equal(dead_letter_ids(t, (hw_dead_letter_query){.redrives = true}), text);
    assert_string_equal(
        dead_letter_ids(t, (hw_dead_letter_query){.subscriber_id = S("b"), .redrives = true}), "");
}

static void a_discard_keeps_its_reason_and_is_final(void **state)
{
    static const char *const subscribers[] = {"a"};
    ss *t = *state;
    int64_t ids[2];
    int64_t n = -1;
    kept k;

    ss_create(t, "a");
    (void)ss_take(t->store, "a", "o");
    write_dead_letters(t, subscribers, 1, 2, ids);
    ok(t->subs->dead_letters_set_state(t->store, ids, 1, HW_STR_NULL, HW_DEAD_LETTER_DISCARDED,
                                       S("spam"), &n, &ss_error));
    assert_int_equal(n, 1);
    k = one_dead_letter(t, ids[0]);
    assert_string_equal(k.dead_letter.state, hw_dead_letter_state_name(HW_DEAD_LETTER_DISCARDED));
    assert_string_equal(k.reason, "spam");
    assert_true(k.dead_letter.resolved && k.dead_letter.resolved_at_us > 0);
    hw_event_free(k.event);
    ok(t->subs->dead_letters_set_state(t->store, ids, 2, HW_STR_NULL, HW_DEAD_LETTER_REDRIVE,
                                       HW_STR_NULL, &n, &ss_error));
    assert_int_equal(n, 1);
    k = one_dead_letter(t, ids[0]);
    assert_string_equal(k.dead_letter.state, hw_dead_letter_state_name(HW_DEAD_LETTER_DISCARDED));
    hw_event_free(k.event);
    n = -1;
    ok(t->subs->dead_letters_set_state(t->store, (int64_t[]){ids[1] + 1000}, 1, HW_STR_NULL,
                                       HW_DEAD_LETTER_DISCARDED, S("none"), &n, &ss_error));
    assert_int_equal(n, 0);
}

static void all_dead_letters_of_a_subscriber_or_of_all_are_marked_at_once(void **state)
{
    static const char *const subscribers[] = {"a", "b"};
    ss *t = *state;
    int64_t ids[6];
    int64_t n = 0;

    for (int i = 0; i < 2; i++) {
        ss_create(t, subscribers[i]);
        (void)ss_take(t->store, subscribers[i], "o");
    }
    write_dead_letters(t, subscribers, 2, 3, ids);
    ok(t->subs->dead_letters_set_state(t->store, NULL, 0, S("a"), HW_DEAD_LETTER_DISCARDED, S("x"),
                                       &n, &ss_error));
    assert_int_equal(n, 3);
    assert_int_equal(ss_load(t, "a").row.dead_letters, 0);
    assert_int_equal(ss_load(t, "b").row.dead_letters, 3);
    ok(t->subs->dead_letters_set_state(t->store, NULL, 0, HW_STR_NULL, HW_DEAD_LETTER_REDRIVE,
                                       HW_STR_NULL, &n, &ss_error));
    assert_int_equal(n, 3);
}

static void a_redrive_is_news_and_is_acked_by_the_owner(void **state)
{
    static const char *const subscribers[] = {"a"};
    ss *t = *state;
    hw_sub_news news;
    hw_checkpoint c;
    int64_t ids[2];
    int64_t token;
    kept k;

    ss_create(t, "a");
    token = ss_take(t->store, "a", "o");
    write_dead_letters(t, subscribers, 1, 2, ids);
    c = ss_at("a", token, 2);
    ok(t->subs->dead_letters_set_state(t->store, ids, 2, HW_STR_NULL, HW_DEAD_LETTER_REDRIVE,
                                       HW_STR_NULL, NULL, &ss_error));
    ok(t->subs->poll(t->store, &c, 1, 0, &news, &ss_error));
    assert_true(news.redrives);
    ok(t->subs->redrive_end(t->store, SS_HOLD(S("a"), token), ids[0], HW_DEAD_LETTER_REDRIVEN,
                            HW_STR_NULL, &ss_error));
    k = one_dead_letter(t, ids[0]);
    assert_string_equal(k.dead_letter.state, hw_dead_letter_state_name(HW_DEAD_LETTER_REDRIVEN));
    assert_int_equal(k.dead_letter.attempts, 2);
    assert_int_equal(k.dead_letter.redrives, 1);
    assert_true(k.dead_letter.resolved && k.dead_letter.resolved_at_us > 0);
    assert_string_equal(k.error, "e");
    hw_event_free(k.event);
    assert_int_equal(t->subs->redrive_end(t->store, SS_HOLD(S("a"), token), ids[0],
                                          HW_DEAD_LETTER_DEAD, HW_STR_NULL, &ss_error),
                     HOWDAH_NOT_FOUND);
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_true(news.redrives);
    /* Before the try, and after it: it counts once. */
    ok(t->subs->redrive_end(t->store, SS_HOLD(S("a"), token), ids[1], HW_DEAD_LETTER_DEAD,
                            HW_STR_NULL, &ss_error));
    ok(t->subs->redrive_end(t->store, SS_HOLD(S("a"), token), ids[1], HW_DEAD_LETTER_DEAD,
                            S("again"), &ss_error));
    k = one_dead_letter(t, ids[1]);
    assert_string_equal(k.dead_letter.state, hw_dead_letter_state_name(HW_DEAD_LETTER_DEAD));
    assert_int_equal(k.dead_letter.attempts, 2);
    assert_int_equal(k.dead_letter.redrives, 1);
    assert_true(!k.dead_letter.resolved && k.dead_letter.resolved_at_us == HOWDAH_NO_TIME);
    assert_string_equal(k.error, "again");
    hw_event_free(k.event);
    ok(t->subs->poll(t->store, &c, 1, 0, &news, &ss_error));
    assert_false(news.redrives);
    assert_int_equal(ss_load(t, "a").row.dead_letters, 1);
}

static void dead_letters_outlive_their_subscription_and_their_event(void **state)
{
    static const char *const subscribers[] = {"a"};
    ss *t = *state;
    int64_t id = 0;
    int64_t token;
    kept k;

    ss_create(t, "a");
    token = ss_take(t->store, "a", "o");
    write_dead_letters(t, subscribers, 1, 1, &id);
    ok(t->subs->release(t->store, SS_HOLD(S("a"), token), HOWDAH_INSTANCE_COORDINATED, &ss_error));
    ok(t->subs->remove(t->store, S("a"), &ss_error));
    ss_sql(t, "DELETE FROM {events}");
    k = one_dead_letter(t, id);
    assert_string_equal(k.subscriber_id, "a");
    assert_string_equal(k.event->type.s, "a.b");
    hw_event_free(k.event);
}

typedef struct kept_skips {
    int n;
    howdah_skip last;
    char reason[64];
    char resolution[64];
} kept_skips;

static int keep_skip(void *ctx, const howdah_skip *skip)
{
    kept_skips *k = ctx;

    k->n++;
    k->last = *skip;
    keep_text(k->reason, sizeof k->reason, skip->reason);
    keep_text(k->resolution, sizeof k->resolution, skip->resolution);
    return 0;
}

static kept_skips skips(const ss *t, hw_str subscriber_id, bool resolved)
{
    kept_skips k = {.n = 0};

    ok(t->subs->skips(t->store, subscriber_id, resolved, keep_skip, &k, &ss_error));
    return k;
}

static void a_skip_and_its_checkpoint_are_stored_together_and_resolved_later(void **state)
{
    ss *t = *state;
    hw_checkpoint c;
    kept_skips k;
    int64_t token;

    ss_create(t, "a");
    ss_create(t, "b");
    token = ss_take(t->store, "a", "o");
    c = ss_at("a", token, 30);
    ok(t->subs->skip(t->store, &c, (hw_range){11, 19}, 5001, S("pid 4711"), &ss_error));
    c = ss_at("b", ss_take(t->store, "b", "o"), 31);
    ok(t->subs->skip(t->store, &c, (hw_range){12, 12}, 7000, S("x"), &ss_error));
    assert_int_equal(ss_load(t, "a").row.high, 30);
    assert_int_equal(ss_load(t, "a").row.skips, 1);
    k = skips(t, S("a"), false);
    assert_int_equal(k.n, 1);
    assert_true(k.last.first == 11 && k.last.last == 19);
    assert_true(k.last.age_ms == 5001);
    assert_string_equal(k.reason, "pid 4711");
    assert_true(k.last.resolved_at_us == HOWDAH_NO_TIME);
    assert_true(k.last.created_at_us > 0);
    assert_int_equal(skips(t, HW_STR_NULL, false).n, 2);
    ok(t->subs->skip_resolve(t->store, k.last.id, S("replayed"), &ss_error));
    assert_int_equal(ss_load(t, "a").row.skips, 0);
    assert_int_equal(skips(t, S("a"), false).n, 0);
    k = skips(t, S("a"), true);
    assert_int_equal(k.n, 1);
    assert_string_equal(k.resolution, "replayed");
    assert_true(k.last.resolved_at_us > 0);
    expect(t->subs->skip_resolve(t->store, k.last.id + 1000, S("x"), &ss_error), HOWDAH_NOT_FOUND);
    ok(t->subs->release(t->store, SS_HOLD(S("a"), token), HOWDAH_INSTANCE_COORDINATED, &ss_error));
    ok(t->subs->remove(t->store, S("a"), &ss_error));
    assert_int_equal(skips(t, HW_STR_NULL, true).n, 1);
}

ss_group ss_dead_letter_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_dead_letter_and_its_checkpoint_are_stored_together),
        SS_TEST(a_dead_letter_has_all_of_its_event),
        SS_TEST(a_second_dead_letter_of_the_same_event_renews_the_first),
        SS_TEST(dead_letters_are_listed_by_subscriber_state_and_page),
        SS_TEST(a_discard_keeps_its_reason_and_is_final),
        SS_TEST(all_dead_letters_of_a_subscriber_or_of_all_are_marked_at_once),
        SS_TEST(a_redrive_is_news_and_is_acked_by_the_owner),
        SS_TEST(dead_letters_outlive_their_subscription_and_their_event),
        SS_TEST(a_skip_and_its_checkpoint_are_stored_together_and_resolved_later),
    };
    return SS_GROUP(tests);
}
