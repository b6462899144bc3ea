/* test_times.c - corrections, questions over two times, diffs, snapshots, purges. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "conformance.h"

#define DAY INT64_C(86400000000)
#define JAN INT64_C(1767225600000000) /* 2026-01-01T00:00:00Z */

/* An event with a valid time. */
static howdah_position append_at(howdah_bus *bus, const char *stream, const char *type,
                                 const char *json, int64_t valid_us)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    howdah_position p = HOWDAH_POSITION_INIT;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, type);
    howdah_builder_set_json(b, json, strlen(json));
    howdah_builder_set_correlation(b, "corr");
    howdah_builder_set_causation(b, "00000000-0000-7000-8000-000000000001");
    howdah_builder_add_header(b, "tenant", "7");
    if (valid_us != HOWDAH_NO_TIME)
        howdah_builder_set_valid_time(b, valid_us);
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    p = cf_append_event(bus, event);
    howdah_event_free(event);
    howdah_builder_free(b);
    return p;
}

static howdah_correction correction(const char *id, const char *json)
{
    howdah_correction c = HOWDAH_CORRECTION_INIT;

    c.event_id = id;
    c.reason = "typing error";
    c.data = json;
    c.data_len = json ? strlen(json) : 0;
    return c;
}

static howdah_position correct(howdah_bus *bus, const char *id, const char *json)
{
    howdah_correction c = correction(id, json);
    howdah_position p = HOWDAH_POSITION_INIT;

    cf_ok(howdah_correct(bus, &c, &p, &cf_error));
    return p;
}

static howdah_position retract(howdah_bus *bus, const char *id)
{
    howdah_correction c = correction(id, NULL);
    howdah_position p = HOWDAH_POSITION_INIT;

    c.retract = true;
    cf_ok(howdah_correct(bus, &c, &p, &cf_error));
    return p;
}

static void correct_fails(howdah_bus *bus, const howdah_correction *c, int status,
                          const char *field)
{
    int64_t before = cf_count(bus);

    cf_error = (howdah_error)HOWDAH_ERROR_INIT;
    assert_int_equal(howdah_correct(bus, c, NULL, &cf_error), status);
    assert_string_equal(cf_error.field, field);
    assert_int_equal(cf_count(bus), before);
}

/* What a query answers, as "sequence/revision:payload ...". */
static const char *ask(howdah_bus *bus, const howdah_query_options *q)
{
    static char text[8192];
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    size_t at = 0;
    int64_t n = 0;
    int64_t counted = -1;
    int s;

    text[0] = '\0';
    cf_ok(howdah_query_open(bus, q, &reader, &cf_error));
    while ((s = howdah_reader_next(reader, &event, &cf_error)) == HOWDAH_OK) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld/%d:%s", at ? " " : "",
                               (long long)howdah_event_global_sequence(event),
                               howdah_event_revision(event), howdah_event_data(event, NULL));
        n++;
    }
    assert_int_equal(s, HOWDAH_END);
    howdah_reader_close(reader);
    cf_ok(howdah_query_count(bus, q, &counted, NULL, &cf_error));
    assert_int_equal(counted, n);
    return text;
}

static howdah_query_options as_of(int64_t valid_us, int64_t known_us)
{
    howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;

    q.view = HOWDAH_VIEW_AS_OF;
    q.valid_at_us = valid_us;
    q.known_at_us = known_us;
    return q;
}

/* ------------------------------------------------------------- corrections */

static void a_correction_is_the_next_revision_of_its_family(void **state)
{
    cf *c = *state;
    howdah_position first = append_at(c->bus, "a-1", "paid", "{\"n\":1}", JAN);
    howdah_position second = correct(c->bus, first.id, "{\"n\":2}");
    howdah_position third = HOWDAH_POSITION_INIT;
    howdah_event *event = NULL;
    char family[HOWDAH_UUID_SIZE];
    char corrects[HOWDAH_UUID_SIZE];
    char cause[HOWDAH_UUID_SIZE];
    int64_t valid = 0;
    int64_t recorded = 0;

    (void)cf_append(c->bus, "a-1", "other", NULL);
    third = correct(c->bus, second.id, "{\"n\":3}"); /* any id of the family */
    assert_int_equal(second.revision, 2);
    assert_int_equal(second.version, 2);
    assert_int_equal(third.revision, 3);
    assert_int_equal(third.version, 4);
    assert_int_equal(third.global_sequence, 4);
    assert_true(second.recorded_at_us > first.recorded_at_us);
    assert_true(third.recorded_at_us > second.recorded_at_us);
    cf_ok(howdah_event_get(c->bus, third.id, &event, &cf_error));
    howdah_event_family(event, family);
    assert_string_equal(family, first.id);
    assert_true(howdah_event_corrects(event, corrects));
    assert_string_equal(corrects, second.id);
    assert_true(howdah_event_causation(event, cause));
    assert_string_equal(cause, "00000000-0000-7000-8000-000000000001");
    assert_string_equal(howdah_event_correlation(event), "corr");
    assert_string_equal(howdah_event_headers(event, NULL), "{\"tenant\":\"7\"}");
    assert_string_equal(howdah_event_reason(event), "typing error");
    assert_string_equal(howdah_event_stream(event), "a-1");
    assert_string_equal(howdah_event_type(event), "paid");
    assert_int_equal(howdah_event_revision(event), 3);
    assert_true(howdah_event_valid_time(event, &valid));
    assert_int_equal(valid, JAN);
    assert_true(howdah_event_recorded_at(event, &recorded));
    assert_int_equal(recorded, third.recorded_at_us);
    howdah_event_free(event);
}

static void a_correction_without_a_valid_time_keeps_the_one_it_had(void **state)
{
    cf *c = *state;
    howdah_position first = append_at(c->bus, "a", "t", "{}", HOWDAH_NO_TIME);
    howdah_position second = correct(c->bus, first.id, "{\"n\":2}");
    howdah_correction moved = correction(first.id, NULL);
    howdah_event *event = NULL;
    int64_t valid = 0;

    cf_ok(howdah_event_get(c->bus, second.id, &event, &cf_error));
    assert_true(howdah_event_valid_time(event, &valid));
    assert_int_equal(valid, first.recorded_at_us);
    howdah_event_free(event);
    moved.valid_time_us = JAN;
    cf_ok(howdah_correct(c->bus, &moved, &second, &cf_error));
    cf_ok(howdah_event_get(c->bus, second.id, &event, &cf_error));
    assert_true(howdah_event_valid_time(event, &valid));
    assert_int_equal(valid, JAN);
    assert_string_equal(howdah_event_data(event, NULL), "{\"n\":2}");
    howdah_event_free(event);
}

static void bad_corrections_are_refused_by_field_and_store_nothing(void **state)
{
    cf *c = *state;
    howdah_position p = append_at(c->bus, "a", "t", "{}", JAN);
    howdah_correction x = correction("00000000-0000-7000-8000-00000000000f", "{}");

    correct_fails(c->bus, &x, HOWDAH_NOT_FOUND, "");
    x = correction("no uuid", "{}");
    correct_fails(c->bus, &x, HOWDAH_INVALID, "corrects");
    x = correction(p.id, "{}");
    x.reason = "";
    correct_fails(c->bus, &x, HOWDAH_INVALID, "reason");
    x.reason = NULL;
    correct_fails(c->bus, &x, HOWDAH_INVALID, "reason");
    x = correction(p.id, NULL);
    correct_fails(c->bus, &x, HOWDAH_INVALID, "data");
    x = correction(p.id, "{");
    correct_fails(c->bus, &x, HOWDAH_INVALID, "data");
    x = correction(p.id, "{}");
    x.valid_time_us = INT64_MAX;
    correct_fails(c->bus, &x, HOWDAH_INVALID, "valid_time");
    x = correction(p.id, "{}");
    x.retract = true;
    correct_fails(c->bus, &x, HOWDAH_INVALID, "data");
    x.data = NULL;
    x.valid_time_us = JAN;
    correct_fails(c->bus, &x, HOWDAH_INVALID, "valid_time");
    x = correction(p.id, "{}");
    x.headers = "[]";
    correct_fails(c->bus, &x, HOWDAH_INVALID, "headers");
    x = correction(p.id, "{}");
    x.actor = "";
    correct_fails(c->bus, &x, HOWDAH_INVALID, "actor");
    x = correction(p.id, "{}");
    x.expected_revision = -1;
    correct_fails(c->bus, &x, HOWDAH_INVALID, "expected_revision");
    x = correction(p.id, "{}");
    x.id = "x";
    correct_fails(c->bus, &x, HOWDAH_INVALID, "id");
    x = correction(NULL, "{}");
    correct_fails(c->bus, &x, HOWDAH_MISUSE, "");
    correct_fails(c->bus, NULL, HOWDAH_MISUSE, "");
}

static void an_append_corrects_nothing(void **state)
{
    cf *c = *state;
    howdah_position first = append_at(c->bus, "a", "t", "{}", JAN);
    howdah_position second = correct(c->bus, first.id, "{\"n\":2}");
    howdah_event *event = NULL;

    cf_ok(howdah_event_get(c->bus, second.id, &event, &cf_error));
    cf_append_fails(c->bus, event, HOWDAH_EXPECT_ANY, HOWDAH_INVALID, &cf_error);
    assert_string_equal(cf_error.field, "corrects");
    howdah_event_free(event);
}

static void an_expected_revision_that_is_not_the_newest_is_a_conflict(void **state)
{
    cf *c = *state;
    howdah_position first = append_at(c->bus, "a", "t", "{}", JAN);
    howdah_correction x = correction(first.id, "{\"n\":2}");
    howdah_position p = HOWDAH_POSITION_INIT;

    x.expected_revision = 2;
    correct_fails(c->bus, &x, HOWDAH_CONFLICT, "");
    assert_int_equal(cf_error.actual_revision, 1);
    x.expected_revision = 1;
    cf_ok(howdah_correct(c->bus, &x, &p, &cf_error));
    assert_int_equal(p.revision, 2);
    correct_fails(c->bus, &x, HOWDAH_CONFLICT, "");
    assert_int_equal(cf_error.actual_revision, 2);
    assert_string_equal(cf_error.message, "the event is at revision 2, expected 1");
}

static void a_correction_that_is_repeated_with_its_id_is_stored_once(void **state)
{
    cf *c = *state;
    howdah_position first = append_at(c->bus, "a", "t", "{}", JAN);
    howdah_correction x = correction(first.id, "{\"n\":2}");
    howdah_position p = HOWDAH_POSITION_INIT;
    howdah_position again = HOWDAH_POSITION_INIT;

    x.id = "00000000-0000-7000-8000-0000000000aa";
    x.expected_revision = 1;
    cf_ok(howdah_correct(c->bus, &x, &p, &cf_error));
    assert_int_equal(p.already_stored, 0);
    (void)correct(c->bus, first.id, "{\"n\":3}");
    cf_ok(howdah_correct(c->bus, &x, &again, &cf_error));
    assert_int_equal(again.already_stored, 1);
    assert_int_equal(again.global_sequence, p.global_sequence);
    assert_int_equal(again.revision, 2);
    assert_int_equal(cf_count(c->bus), 3);
    x.data = "{\"n\":4}";
    correct_fails(c->bus, &x, HOWDAH_ID_REUSED, "");
    x.id = first.id;
    correct_fails(c->bus, &x, HOWDAH_ID_REUSED, "");
}

static void a_retraction_is_in_the_history_and_not_in_the_answer(void **state)
{
    cf *c = *state;
    howdah_position first = append_at(c->bus, "a", "t", "{\"n\":1}", JAN);
    howdah_position gone = retract(c->bus, first.id);
    howdah_query_options now = as_of(HOWDAH_NO_TIME, HOWDAH_NO_TIME);
    howdah_query_options all = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_correction x = correction(first.id, NULL);
    howdah_event *event = NULL;

    assert_int_equal(gone.revision, 2);
    assert_string_equal(ask(c->bus, &now), "");
    all.family = gone.id;
    assert_string_equal(ask(c->bus, &all), "1/1:{\"n\":1} 2/2:null");
    cf_ok(howdah_event_get(c->bus, gone.id, &event, &cf_error));
    assert_true(howdah_event_is_retraction(event));
    assert_false(howdah_event_is_purged(event));
    howdah_event_free(event);
    cf_ok(howdah_event_get(c->bus, first.id, &event, &cf_error));
    assert_false(howdah_event_is_retraction(event));
    howdah_event_free(event);

    x.retract = true;
    correct_fails(c->bus, &x, HOWDAH_INVALID, "retract");
    x.retract = false;

    /* What is retracted can be taken up again, by saying what is true. */
    x.valid_time_us = JAN + DAY;
    correct_fails(c->bus, &x, HOWDAH_INVALID, "data");
    (void)correct(c->bus, first.id, "{\"n\":3}");
    assert_string_equal(ask(c->bus, &now), "3/3:{\"n\":3}");
}

/* ------------------------------------------------------------------- as of */

/* Three facts: the second is corrected to another day, the third is retracted; the moments between
   the changes are kept. */
typedef struct story {
    howdah_position fact[3];
    int64_t moment[4]; /* behind the facts, behind the correction, behind the retraction */
} story;

static story tell(howdah_bus *bus)
{
    story s;
    howdah_correction moved;

    s.fact[0] = append_at(bus, "acc-1", "paid.cash", "{\"n\":1}", JAN);
    s.fact[1] = append_at(bus, "acc-1", "paid.card", "{\"n\":2}", JAN + DAY);
    s.fact[2] = append_at(bus, "acc-2", "paid.cash", "{\"n\":3}", JAN + 2 * DAY);
    s.moment[0] = s.fact[2].recorded_at_us;
    moved = correction(s.fact[1].id, "{\"n\":22}");
    moved.valid_time_us = JAN + 5 * DAY;
    cf_ok(howdah_correct(bus, &moved, &s.fact[1], &cf_error));
    s.moment[1] = s.fact[1].recorded_at_us;
    s.fact[2] = retract(bus, s.fact[2].id);
    s.moment[2] = s.fact[2].recorded_at_us;
    return s;
}

static void as_of_gives_what_was_known_then_about_that_time(void **state)
{
    cf *c = *state;
    story s = tell(c->bus);
    static const struct {
        int moment;
        int days; /* -1: any valid time */
        const char *answer;
    } cases[] = {
        {0, -1, "1/1:{\"n\":1} 2/1:{\"n\":2} 3/1:{\"n\":3}"},
        {0, 0, "1/1:{\"n\":1}"},
        {0, 1, "1/1:{\"n\":1} 2/1:{\"n\":2}"},
        {0, 4, "1/1:{\"n\":1} 2/1:{\"n\":2} 3/1:{\"n\":3}"},
        {1, -1, "1/1:{\"n\":1} 3/1:{\"n\":3} 4/2:{\"n\":22}"},
        {1, 4, "1/1:{\"n\":1} 3/1:{\"n\":3}"},
        {1, 5, "1/1:{\"n\":1} 3/1:{\"n\":3} 4/2:{\"n\":22}"},
        {2, -1, "1/1:{\"n\":1} 4/2:{\"n\":22}"},
        {2, 4, "1/1:{\"n\":1}"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        howdah_query_options q =
            as_of(cases[i].days < 0 ? HOWDAH_NO_TIME : JAN + cases[i].days * DAY,
                  s.moment[cases[i].moment]);

        assert_string_equal(ask(c->bus, &q), cases[i].answer);
    }
}

static void the_answer_combines_with_every_filter_and_order(void **state)
{
    cf *c = *state;
    story s = tell(c->bus);
    static const char *const tenant_7[] = {"tenant", "7"};
    static const char *const tenant_8[] = {"tenant", "8"};
    howdah_query_options q = as_of(HOWDAH_NO_TIME, s.moment[1]);

    q.stream = "acc-1";
    assert_string_equal(ask(c->bus, &q), "1/1:{\"n\":1} 4/2:{\"n\":22}");
    q.backward = true;
    assert_string_equal(ask(c->bus, &q), "4/2:{\"n\":22} 1/1:{\"n\":1}");
    q.limit = 1;
    assert_string_equal(ask(c->bus, &q), "4/2:{\"n\":22}");
    q = as_of(HOWDAH_NO_TIME, s.moment[1]);
    q.type = "paid.card";
    assert_string_equal(ask(c->bus, &q), "4/2:{\"n\":22}");
    q.type = NULL;
    q.pattern = "paid.*";
    q.order = HOWDAH_ORDER_VALID;
    q.backward = true;
    assert_string_equal(ask(c->bus, &q), "4/2:{\"n\":22} 3/1:{\"n\":3} 1/1:{\"n\":1}");
    q.order = HOWDAH_ORDER_RECORDED;
    q.backward = false;
    assert_string_equal(ask(c->bus, &q), "1/1:{\"n\":1} 3/1:{\"n\":3} 4/2:{\"n\":22}");
    q.headers = tenant_7;
    q.headers_n = 1;
    assert_string_equal(ask(c->bus, &q), "1/1:{\"n\":1} 3/1:{\"n\":3} 4/2:{\"n\":22}");
    q.headers = tenant_8;
    assert_string_equal(ask(c->bus, &q), "");
    q = as_of(HOWDAH_NO_TIME, s.moment[1]);
    q.correlation_id = "corr";
    q.causation_id = "00000000-0000-7000-8000-000000000001";
    q.valid_from_us = JAN + DAY;
    q.valid_before_us = JAN + 5 * DAY;
    assert_string_equal(ask(c->bus, &q), "3/1:{\"n\":3}");
    q.valid_before_us = JAN + 5 * DAY + 1;
    assert_string_equal(ask(c->bus, &q), "3/1:{\"n\":3} 4/2:{\"n\":22}");
    q.recorded_from_us = s.moment[1];
    assert_string_equal(ask(c->bus, &q), "4/2:{\"n\":22}");
    q.recorded_before_us = s.moment[1];
    assert_string_equal(ask(c->bus, &q), "");
    q = (howdah_query_options)HOWDAH_QUERY_OPTIONS_INIT;
    q.view = HOWDAH_VIEW_ORIGINALS;
    assert_string_equal(ask(c->bus, &q), "1/1:{\"n\":1} 2/1:{\"n\":2} 3/1:{\"n\":3}");
    q.view = HOWDAH_VIEW_LOG;
    q.recorded_from_us = s.moment[0];
    assert_string_equal(ask(c->bus, &q), "3/1:{\"n\":3} 4/2:{\"n\":22} 5/2:null");
}

static void ask_fails(howdah_bus *bus, const howdah_query_options *q, int status, const char *field)
{
    howdah_reader *reader = NULL;

    cf_error = (howdah_error)HOWDAH_ERROR_INIT;
    assert_int_equal(howdah_query_open(bus, q, &reader, &cf_error), status);
    assert_string_equal(cf_error.field, field);
    assert_null(reader);
}

static void bad_questions_are_refused_by_field(void **state)
{
    cf *c = *state;
    howdah_query_options q = as_of(HOWDAH_NO_TIME, hw_clock_wall_us() + 3600 * INT64_C(1000000));

    ask_fails(c->bus, &q, HOWDAH_INVALID, "known_at");
    assert_non_null(strstr(cf_error.message, "is in the future"));
    q.known_at_us = INT64_MAX;
    ask_fails(c->bus, &q, HOWDAH_INVALID, "known_at");
    q = as_of(INT64_MAX, HOWDAH_NO_TIME);
    ask_fails(c->bus, &q, HOWDAH_INVALID, "valid_at");
    q = as_of(JAN, HOWDAH_NO_TIME);
    q.view = HOWDAH_VIEW_LOG;
    ask_fails(c->bus, &q, HOWDAH_INVALID, "valid_at");
    q = (howdah_query_options)HOWDAH_QUERY_OPTIONS_INIT;
    q.valid_from_us = 2;
    q.valid_before_us = 1;
    ask_fails(c->bus, &q, HOWDAH_INVALID, "valid_before");
    q = (howdah_query_options)HOWDAH_QUERY_OPTIONS_INIT;
    q.recorded_from_us = INT64_MAX;
    ask_fails(c->bus, &q, HOWDAH_INVALID, "recorded_from");
    q = (howdah_query_options)HOWDAH_QUERY_OPTIONS_INIT;
    q.family = "00000000-0000-7000-8000-00000000000f";
    ask_fails(c->bus, &q, HOWDAH_NOT_FOUND, "");
    q.family = "x";
    ask_fails(c->bus, &q, HOWDAH_INVALID, "id");
    q = (howdah_query_options)HOWDAH_QUERY_OPTIONS_INIT;
    q.limit = -1;
    ask_fails(c->bus, &q, HOWDAH_INVALID, "limit");
    q.limit = 0;
    q.causation_id = "x";
    ask_fails(c->bus, &q, HOWDAH_INVALID, "causation_id");
    q.causation_id = NULL;
    q.pattern = "a..b";
    ask_fails(c->bus, &q, HOWDAH_INVALID, "pattern");
}

static void an_answer_about_the_past_is_final_when_nobody_writes(void **state)
{
    cf *c = *state;
    howdah_position p = append_at(c->bus, "a", "t", "{}", JAN);
    howdah_query_options q = as_of(HOWDAH_NO_TIME, p.recorded_at_us);
    howdah_knowledge k = HOWDAH_KNOWLEDGE_INIT;
    howdah_reader *reader = NULL;

    (void)append_at(c->bus, "a", "t", "{}", JAN);
    cf_ok(howdah_query_open(c->bus, &q, &reader, &cf_error));
    howdah_reader_knowledge(reader, &k);
    howdah_reader_close(reader);
    assert_true(k.final);
    assert_int_equal(k.known_at_us, p.recorded_at_us);
    assert_true(k.asked_at_us > p.recorded_at_us);
    assert_string_equal(k.waits_for, "");
    q.known_at_us = HOWDAH_NO_TIME;
    cf_ok(howdah_query_open(c->bus, &q, &reader, &cf_error));
    howdah_reader_knowledge(reader, &k);
    howdah_reader_close(reader);
    assert_false(k.final);
    assert_int_equal(k.known_at_us, HOWDAH_NO_TIME);
}

/* ------------------------------------------------------------------- types */

static int put_stats(void *ctx, const howdah_type_stats *t)
{
    char *text = ctx;
    size_t at = strlen(text);

    (void)snprintf(text + at, 512 - at, "%s%s %lld %lld %lld %lld %lld-%lld", at ? "; " : "",
                   t->type, (long long)t->events, (long long)t->corrections,
                   (long long)t->retractions, (long long)t->streams,
                   (long long)((t->first_valid_us - JAN) / DAY),
                   (long long)((t->last_valid_us - JAN) / DAY));
    assert_true(t->first_recorded_us <= t->last_recorded_us);
    return 0;
}

static int put_stream(void *ctx, const char *stream)
{
    char *text = ctx;
    size_t at = strlen(text);

    (void)snprintf(text + at, 512 - at, "%s%s", at ? " " : "", stream);
    return strcmp(stream, "stop") == 0;
}

static void types_and_streams_are_told_of_what_the_question_lets_through(void **state)
{
    cf *c = *state;
    story s = tell(c->bus);
    howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
    char text[512] = "";

    cf_ok(howdah_types_walk(c->bus, &q, put_stats, text, &cf_error));
    assert_string_equal(text, "paid.card 2 1 0 1 1-5; paid.cash 3 1 1 2 0-2");
    text[0] = '\0';
    q = as_of(HOWDAH_NO_TIME, s.moment[2]);
    cf_ok(howdah_types_walk(c->bus, &q, put_stats, text, &cf_error));
    assert_string_equal(text, "paid.card 1 1 0 1 5-5; paid.cash 1 0 0 1 0-0");
    text[0] = '\0';
    q = (howdah_query_options)HOWDAH_QUERY_OPTIONS_INIT;
    q.type = "paid.cash";
    cf_ok(howdah_streams_walk(c->bus, &q, put_stream, text, &cf_error));
    assert_string_equal(text, "acc-1 acc-2");
    text[0] = '\0';
    q.limit = 1;
    cf_ok(howdah_streams_walk(c->bus, &q, put_stream, text, &cf_error));
    assert_string_equal(text, "acc-1");
}

/* -------------------------------------------------------------------- diff */

static int put_change(void *ctx, howdah_change change, const howdah_event *before,
                      const howdah_event *after)
{
    char *text = ctx;
    size_t at = strlen(text);

    (void)snprintf(text + at, 512 - at, "%s%s %s %s", at ? "; " : "", howdah_change_name(change),
                   before ? howdah_event_data(before, NULL) : "-", howdah_event_data(after, NULL));
    return 0;
}

static const char *diff(howdah_bus *bus, int64_t from, int64_t to, const char *stream)
{
    static char text[512];
    howdah_diff_options o = HOWDAH_DIFF_OPTIONS_INIT;

    text[0] = '\0';
    o.known_at_us = from;
    o.to_us = to;
    o.stream = stream;
    cf_ok(howdah_diff(bus, &o, put_change, text, NULL, &cf_error));
    return text;
}

static void a_diff_tells_what_became_of_our_knowledge(void **state)
{
    cf *c = *state;
    story s = tell(c->bus);
    howdah_position passing = HOWDAH_POSITION_INIT;
    howdah_diff_options bad = HOWDAH_DIFF_OPTIONS_INIT;

    assert_string_equal(diff(c->bus, JAN, s.moment[0], NULL),
                        "added - {\"n\":1}; added - {\"n\":2}; added - {\"n\":3}");
    assert_string_equal(diff(c->bus, s.moment[0], s.moment[1], NULL),
                        "corrected {\"n\":2} {\"n\":22}");
    assert_string_equal(diff(c->bus, s.moment[0], HOWDAH_NO_TIME, NULL),
                        "corrected {\"n\":2} {\"n\":22}; retracted {\"n\":3} null");
    assert_string_equal(diff(c->bus, s.moment[0], HOWDAH_NO_TIME, "acc-2"),
                        "retracted {\"n\":3} null");
    assert_string_equal(diff(c->bus, s.moment[1], s.moment[1], NULL), "");
    passing = append_at(c->bus, "acc-2", "paid.cash", "{\"n\":4}", JAN);
    (void)retract(c->bus, passing.id);
    (void)correct(c->bus, s.fact[2].id, "{\"n\":5}");
    assert_string_equal(diff(c->bus, s.moment[2], HOWDAH_NO_TIME, NULL), "restored null {\"n\":5}");
    assert_string_equal(diff(c->bus, JAN, HOWDAH_NO_TIME, "acc-2"), "added - {\"n\":5}");
    assert_int_equal(howdah_diff(c->bus, &bad, put_change, NULL, NULL, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "known_at");
    bad.known_at_us = JAN;
    bad.to_us = JAN - 1;
    assert_int_equal(howdah_diff(c->bus, &bad, put_change, NULL, NULL, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "to");
    bad.to_us = hw_clock_wall_us() + 3600 * INT64_C(1000000);
    assert_int_equal(howdah_diff(c->bus, &bad, put_change, NULL, NULL, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "to");
}

/* --------------------------------------------------------------- snapshots */

static void put_snapshot(howdah_bus *bus, int64_t version, const char *json, int64_t keep)
{
    howdah_snapshot s = HOWDAH_SNAPSHOT_INIT;

    s.stream = "a";
    s.version = version;
    s.data = json;
    s.data_len = strlen(json);
    s.schema_version = 3;
    cf_ok(howdah_snapshot_store(bus, &s, keep, &cf_error));
}

static int put_snapshot_line(void *ctx, const howdah_snapshot *s)
{
    char *text = ctx;
    size_t at = strlen(text);

    assert_null(s->data);
    (void)snprintf(text + at, 256 - at, "%s%s@%lld:%zu", at ? " " : "", s->stream,
                   (long long)s->version, s->data_len);
    return 0;
}

static const char *list_snapshots(howdah_bus *bus)
{
    static char text[256];

    text[0] = '\0';
    cf_ok(howdah_snapshots_walk(bus, NULL, put_snapshot_line, text, &cf_error));
    return text;
}

static void the_nearest_snapshot_and_the_events_behind_it_are_the_state(void **state)
{
    cf *c = *state;
    howdah_snapshot *snapshot = NULL;
    howdah_snapshot bad = HOWDAH_SNAPSHOT_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t removed = 0;

    for (int i = 0; i < 6; i++)
        (void)cf_append(c->bus, "a", "t", NULL);
    assert_int_equal(howdah_snapshot_load(c->bus, "a", 0, &snapshot, &cf_error), HOWDAH_NOT_FOUND);
    put_snapshot(c->bus, 2, "{\"sum\":2}", 0);
    put_snapshot(c->bus, 4, "{\"sum\":40}", 0);
    put_snapshot(c->bus, 4, "{\"sum\":4}", 0); /* in its place */
    cf_ok(howdah_snapshot_load(c->bus, "a", 3, &snapshot, &cf_error));
    assert_int_equal(snapshot->version, 2);
    assert_string_equal(snapshot->data, "{\"sum\":2}");
    assert_int_equal(snapshot->data_len, 9);
    assert_int_equal(snapshot->schema_version, 3);
    assert_true(snapshot->taken_at_us > JAN);
    howdah_snapshot_free(snapshot);
    cf_ok(howdah_state_open(c->bus, "a", 5, &snapshot, &reader, &cf_error));
    assert_string_equal(snapshot->data, "{\"sum\":4}");
    assert_int_equal(howdah_reader_next(reader, &event, &cf_error), HOWDAH_OK);
    assert_int_equal(howdah_event_version(event), 5);
    assert_int_equal(howdah_reader_next(reader, &event, &cf_error), HOWDAH_END);
    howdah_reader_close(reader);
    howdah_snapshot_free(snapshot);
    cf_ok(howdah_state_open(c->bus, "a", 1, &snapshot, &reader, &cf_error));
    assert_null(snapshot);
    assert_int_equal(howdah_reader_next(reader, &event, &cf_error), HOWDAH_OK);
    assert_int_equal(howdah_event_version(event), 1);
    howdah_reader_close(reader);
    put_snapshot(c->bus, 5, "5", 0);
    put_snapshot(c->bus, 6, "6", 2);
    assert_string_equal(list_snapshots(c->bus), "a@5:1 a@6:1");
    cf_ok(howdah_snapshots_remove(c->bus, "a", 5, &removed, &cf_error));
    assert_int_equal(removed, 1);
    assert_string_equal(list_snapshots(c->bus), "a@6:1");
    bad.stream = "a";
    bad.version = 7;
    bad.data = "{}";
    bad.data_len = 2;
    assert_int_equal(howdah_snapshot_store(c->bus, &bad, 0, &cf_error), HOWDAH_NOT_FOUND);
    bad.version = 0;
    assert_int_equal(howdah_snapshot_store(c->bus, &bad, 0, &cf_error), HOWDAH_INVALID);
    bad.version = 1;
    bad.data = "{";
    bad.data_len = 1;
    assert_int_equal(howdah_snapshot_store(c->bus, &bad, 0, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "data");
}

/* ------------------------------------------------------------------- purge */

static int put_purge(void *ctx, const howdah_purge_record *r)
{
    char *text = ctx;
    size_t at = strlen(text);

    assert_true(r->purged_at_us > JAN);
    (void)snprintf(text + at, 512 - at, "%s%lld %s %s %s %lld", at ? "; " : "", (long long)r->id,
                   r->actor, r->reason, r->stream ? r->stream : "-", (long long)r->events);
    return 0;
}

static void a_purge_erases_payloads_and_keeps_who_when_and_why(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    story s = tell(c->bus);
    howdah_purge_options o = HOWDAH_PURGE_OPTIONS_INIT;
    howdah_purge_record r = HOWDAH_PURGE_RECORD_INIT;
    howdah_query_options log = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_correction x = correction(s.fact[0].id, NULL);
    const char *ids[] = {s.fact[1].id};
    howdah_event *event = NULL;
    char text[512] = "";

    o.ids = ids;
    o.ids_n = 1;
    o.reason = "asked to be forgotten";
    o.actor = "ann";
    cf_ok(howdah_purge(admin, &o, &r, &cf_error));
    assert_int_equal(r.events, 1);
    assert_int_equal(r.left, 1);
    assert_string_equal(ask(c->bus, &log),
                        "1/1:{\"n\":1} 2/1:{\"n\":2} 3/1:{\"n\":3} 4/2:null 5/2:null");
    o.families = true;
    cf_ok(howdah_purge(admin, &o, &r, &cf_error));
    assert_int_equal(r.events, 1);
    assert_int_equal(r.left, 0);
    cf_ok(howdah_event_get(c->bus, s.fact[1].id, &event, &cf_error));
    assert_true(howdah_event_is_purged(event));
    assert_string_equal(howdah_event_headers(event, NULL), "{}");
    assert_string_equal(howdah_event_data(event, NULL), "null");
    assert_string_equal(howdah_event_reason(event), "typing error");
    howdah_event_free(event);
    o = (howdah_purge_options)HOWDAH_PURGE_OPTIONS_INIT;
    o.stream = "acc-1";
    o.reason = "closed";
    o.actor = "bob";
    cf_ok(howdah_purge(admin, &o, &r, &cf_error));
    assert_int_equal(r.events, 1);
    cf_ok(howdah_purge(admin, &o, &r, &cf_error)); /* nothing is left to purge */
    assert_int_equal(r.events, 0);
    assert_int_equal(r.id, 0);
    assert_true(r.purged_at_us == HOWDAH_NO_TIME);
    assert_string_equal(ask(c->bus, &log), "1/1:null 2/1:null 3/1:{\"n\":3} 4/2:null 5/2:null");
    cf_ok(howdah_purges_walk(admin, put_purge, text, &cf_error));
    assert_string_equal(text, "1 ann asked to be forgotten - 1; 2 ann asked to be forgotten - 1;"
                              " 3 bob closed acc-1 1");
    x.valid_time_us = JAN;
    correct_fails(c->bus, &x, HOWDAH_INVALID, "data");
    howdah_close(admin);
}

static void what_is_sent_again_after_a_purge_is_stored_already(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    howdah_event *event = cf_event("a", "t", "{\"n\":1}");
    howdah_position first = cf_append_event(c->bus, event);
    howdah_correction x = correction(first.id, "{\"n\":2}");
    howdah_purge_options o = HOWDAH_PURGE_OPTIONS_INIT;
    howdah_position p = HOWDAH_POSITION_INIT;
    char text[512] = "";

    x.id = "00000000-0000-7000-8000-0000000000ab";
    cf_ok(howdah_correct(c->bus, &x, &p, &cf_error));
    o.stream = "a";
    o.reason = "r";
    cf_ok(howdah_purge(admin, &o, NULL, &cf_error));
    cf_ok(howdah_purges_walk(admin, put_purge, text, &cf_error));
    if (!cf_is_pg()) { /* there, it is the database's user */
        char wanted[128];

        (void)snprintf(wanted, sizeof wanted, "1 %s r a 2", getpwuid(geteuid())->pw_name);
        assert_string_equal(text, wanted);
    }
    p = cf_append_event(c->bus, event);
    assert_int_equal(p.already_stored, 1);
    assert_int_equal(p.global_sequence, first.global_sequence);
    cf_ok(howdah_correct(c->bus, &x, &p, &cf_error));
    assert_int_equal(p.already_stored, 1);
    assert_int_equal(p.revision, 2);
    assert_int_equal(cf_count(c->bus), 2);
    howdah_event_free(event);
    howdah_close(admin);
}

static void bad_purges_erase_nothing(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    howdah_position p = append_at(c->bus, "a", "t", "{\"n\":1}", JAN);
    const char *ids[] = {p.id, "00000000-0000-7000-8000-00000000000f"};
    howdah_purge_options o = HOWDAH_PURGE_OPTIONS_INIT;
    howdah_query_options log = HOWDAH_QUERY_OPTIONS_INIT;

    o.reason = "r";
    assert_int_equal(howdah_purge(admin, &o, NULL, &cf_error), HOWDAH_INVALID);
    o.ids = ids;
    o.ids_n = 2;
    assert_int_equal(howdah_purge(admin, &o, NULL, &cf_error), HOWDAH_NOT_FOUND);
    o.ids_n = 1;
    o.reason = "";
    assert_int_equal(howdah_purge(admin, &o, NULL, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "reason");
    o.reason = "r";
    o.stream = "a";
    assert_int_equal(howdah_purge(admin, &o, NULL, &cf_error), HOWDAH_INVALID);
    o.ids_n = 0;
    o.stream = "b";
    assert_int_equal(howdah_purge(admin, &o, NULL, &cf_error), HOWDAH_NOT_FOUND);
    assert_string_equal(ask(c->bus, &log), "1/1:{\"n\":1}");
    howdah_close(admin);
}

/* ------------------------------------------------------------------ verify */

static int put_finding(void *ctx, const howdah_finding *f)
{
    char *text = ctx;
    size_t at = strlen(text);

    /* What only SQLite can tell has tests of its own: tests/cli/test_verify.sh. */
    if (strcmp(f->check, "log") == 0 && !strstr(f->message, "events are missing") &&
        !strstr(f->message, "not as they were stored"))
        (void)snprintf(text + at, 1024 - at, "%s%s", at ? "; " : "", f->message);
    return 0;
}

static const char *verify(howdah_bus *bus)
{
    static char text[1024];

    text[0] = '\0';
    cf_ok(howdah_verify(bus, put_finding, text, &cf_error));
    return text;
}

static void verify_tells_what_is_wrong_with_streams_and_families(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);

    (void)tell(c->bus);
    (void)cf_append(c->bus, "plain", "t", NULL);
    (void)cf_append(c->bus, "plain", "t", NULL);
    assert_string_equal(verify(admin), "streams and families are whole");
    cf_sql(c, "DELETE FROM {events} WHERE stream = 'plain' AND version = 1");
    assert_string_equal(verify(admin), "1 streams lack some of their versions");
    cf_sql(c, "UPDATE {events} SET version = 1 WHERE stream = 'plain'");
    cf_sql(c, "UPDATE {events} SET revision = 3 WHERE global_sequence = 4");
    cf_sql(c, "UPDATE {events} SET recorded_at = (SELECT recorded_at FROM {events} WHERE"
              " global_sequence = 1), reason = NULL WHERE global_sequence = 5");
    cf_sql(c, "UPDATE {events} SET purge = 1 WHERE global_sequence = 1");
    assert_string_equal(verify(admin),
                        "1 corrections are not recorded later than what they correct;"
                        " 1 corrections do not follow the revision before them;"
                        " 1 corrections have no reason; 1 purged events still have a payload");
    howdah_close(admin);
}

static const struct CMUnitTest tests[] = {
    CF_TEST(a_correction_is_the_next_revision_of_its_family),
    CF_TEST(a_correction_without_a_valid_time_keeps_the_one_it_had),
    CF_TEST(bad_corrections_are_refused_by_field_and_store_nothing),
    CF_TEST(an_append_corrects_nothing),
    CF_TEST(an_expected_revision_that_is_not_the_newest_is_a_conflict),
    CF_TEST(a_correction_that_is_repeated_with_its_id_is_stored_once),
    CF_TEST(a_retraction_is_in_the_history_and_not_in_the_answer),
    CF_TEST(as_of_gives_what_was_known_then_about_that_time),
    CF_TEST(the_answer_combines_with_every_filter_and_order),
    CF_TEST(bad_questions_are_refused_by_field),
    CF_TEST(an_answer_about_the_past_is_final_when_nobody_writes),
    CF_TEST(types_and_streams_are_told_of_what_the_question_lets_through),
    CF_TEST(a_diff_tells_what_became_of_our_knowledge),
    CF_TEST(the_nearest_snapshot_and_the_events_behind_it_are_the_state),
    CF_TEST(a_purge_erases_payloads_and_keeps_who_when_and_why),
    CF_TEST(what_is_sent_again_after_a_purge_is_stored_already),
    CF_TEST(bad_purges_erase_nothing),
    CF_TEST(verify_tells_what_is_wrong_with_streams_and_families),
};

cf_group cf_times_tests(void)
{
    return CF_GROUP(tests);
}
