/* test_face.c - the JSON that every face prints, to the letter, and the JSON that it reads. */
#include "unit.h"

#include "base/buf.h"
#include "engine/event.h"
#include "face/bindings.h"
#include "face/dead_letters.h"
#include "face/event_in.h"
#include "face/events.h"
#include "face/findings.h"
#include "face/job_in.h"
#include "face/queues.h"
#include "face/snapshots.h"
#include "face/status.h"
#include "face/subscriptions.h"
#include "store/queue.h"

#define NOON_US INT64_C(1769851800000000)
#define NOON "\"2026-01-31T09:30:00.000000Z\""
#define ID1 "01010101-0101-0101-0101-010101010101"
#define ID2 "02020202-0202-0202-0202-020202020202"
#define ID3 "03030303-0303-0303-0303-030303030303"
#define BUF_MAX 65536

#define assert_buf_is(buf, text)                                                                   \
    do {                                                                                           \
        assert_int_equal((buf)->broken, HOWDAH_OK);                                                \
        assert_string_equal(hw_buf_str(buf), text);                                                \
        assert_int_equal((buf)->len, strlen(text));                                                \
        hw_buf_clear(buf);                                                                         \
    } while (0)

static void assert_entity_is(const face_entity *entity, const void *thing, const char *text)
{
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    face_entity_json(&out, entity, thing, "");
    assert_buf_is(&out, text);
    hw_buf_done(&out);
}

/* ------------------------------------------------------------------- things */

static howdah_event an_event(void)
{
    howdah_event e;

    hw_event_init(&e);
    memset(e.id.b, 1, 16);
    e.stream = HW_STR_LIT("order-7");
    e.type = HW_STR_LIT("order.created");
    e.data = HW_STR_LIT("{\"total\":\n12}");
    e.global_sequence = 99;
    e.version = 7;
    e.recorded_at_us = NOON_US;
    e.valid_time_us = NOON_US;
    return e;
}

#define AN_EVENT                                                                                   \
    "\"global_sequence\":99,\"id\":\"" ID1 "\",\"stream\":\"order-7\",\"version\":7,"              \
    "\"type\":\"order.created\",\"data\":{\"total\": 12},\"headers\":{},"                          \
    "\"correlation_id\":null,\"causation_id\":null,\"valid_time\":" NOON ",\"recorded_at\":" NOON  \
    ",\"family\":\"" ID1 "\",\"revision\":1,\"corrects\":null,\"reason\":null,\"actor\":null,"     \
    "\"schema_version\":1}"

static howdah_job a_job(void)
{
    return (howdah_job){
        .id = 12,
        .state = HOWDAH_JOB_PENDING,
        .queue = HW_STR_LIT("mail"),
        .max_attempts = 5,
        .created_at_us = NOON_US,
        .due_at_us = NOON_US,
        .key = HW_STR_LIT("a \"key\"\n"),
        .data = HW_STR_LIT("[1,\r\n2]"),
    };
}

/* ------------------------------------------------------------------- tables */

typedef struct sample {
    const char *text;
    const char *string;
    int64_t number;
    bool flag;
} sample;

#define AT(member) FACE_AT(sample, member)

static const face_field sample_fields[] = {
    {"text", FACE_TEXT, AT(text)},
    {"string", FACE_STRING, AT(string)},
    {"count", FACE_COUNT, AT(number)},
    {"age_s", FACE_AGE, AT(number)},
    {"time", FACE_TIME, AT(number)},
    {"flag", FACE_BOOL, AT(flag)},
    {"json", FACE_JSON, AT(text)},
    {"both", FACE_OBJECT, .members = "text flag"},
    {.name = NULL},
};

static void an_object_has_the_named_fields_in_their_order(void **state)
{
    const face_entity entity = {sample_fields, .json = "flag text string count age_s time both"};
    const sample thing = {"a", "b", 1234567, true};

    (void)state;
    assert_entity_is(&entity, &thing,
                     "{\"flag\":true,\"text\":\"a\",\"string\":\"b\",\"count\":1234567,"
                     "\"age_s\":1234.567,\"time\":\"1970-01-01T00:00:01.234567Z\","
                     "\"both\":{\"text\":\"a\",\"flag\":true}}");
}

static void nothing_is_null_and_an_empty_string_is_one(void **state)
{
    const face_entity entity = {sample_fields, .json = "text string json flag"};

    (void)state;
    assert_entity_is(&entity, &(sample){NULL, NULL, 0, false},
                     "{\"text\":null,\"string\":\"\",\"json\":null,\"flag\":false}");
    assert_entity_is(&entity, &(sample){"", "", 0, false},
                     "{\"text\":null,\"string\":\"\",\"json\":null,\"flag\":false}");
}

static void texts_of_others_are_valid_json(void **state)
{
    static const char *const rows[][2] = {
        {"a \"b\" \\ c", "\"a \\\"b\\\" \\\\ c\""},
        {"line\nbreak\ttab\001\037", "\"line\\nbreak\\ttab\\u0001\\u001f\""},
        {"\xc3\xa9 \xf0\x9f\x98\x80", "\"\xc3\xa9 \xf0\x9f\x98\x80\""},
        {"a\"\\ \xff\xc3", "\"a?????\""}, /* not UTF-8: all that is not plain goes */
        {"", "\"\""},
    };
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        face_json_text(&out, rows[i][0]);
        assert_buf_is(&out, rows[i][1]);
    }
    hw_buf_done(&out);
}

static void a_tail_stands_inside_and_what_was_in_the_buffer_stays(void **state)
{
    const face_entity entity = {sample_fields, .json = "flag"};
    const sample thing = {.flag = true};
    hw_buf out = HW_BUF_INIT(BUF_MAX);
    bool first = true;

    (void)state;
    hw_buf_puts(&out, "[");
    face_entity_json(&out, &entity, &thing, ",\"final\":true");
    assert_buf_is(&out, "[{\"flag\":true,\"final\":true}");
    face_fields_json(&out, sample_fields, "flag", &thing, &first);
    face_fields_json(&out, sample_fields, "text", &thing, &first);
    assert_buf_is(&out, "\"flag\":true,\"text\":null");
    hw_buf_done(&out);
}

static void a_buffer_without_room_is_broken_and_not_cut(void **state)
{
    const face_entity entity = {sample_fields, .json = "flag text"};
    const howdah_event event = an_event();
    const howdah_job job = a_job();
    hw_buf out = HW_BUF_INIT(20);

    (void)state;
    face_entity_json(&out, &entity, &(sample){"longer than that", NULL, 0, true}, "");
    assert_int_equal(hw_buf_check(&out, NULL), HOWDAH_LIMIT);
    hw_buf_clear(&out);
    assert_int_equal(face_event_json(&event, &out, NULL), HOWDAH_LIMIT);
    assert_string_equal(hw_buf_str(&out), "");
    hw_buf_clear(&out);
    assert_int_equal(face_job_json(&job, &out, NULL), HOWDAH_LIMIT);
    hw_buf_done(&out);
}

static void events_and_jobs_say_when_memory_is_short(void **state)
{
    const howdah_event event = an_event();
    const howdah_job job = a_job();
    unit_allocator a;
    bool failed;

    (void)state;
    for (unsigned n = 1;; n++) {
        hw_buf out = HW_BUF_INIT(BUF_MAX);
        int s;

        unit_allocator_start(&a, n);
        s = face_event_json(&event, &out, NULL);
        if (s == HOWDAH_OK)
            s = face_job_json(&job, &out, NULL);
        hw_buf_done(&out);
        failed = a.failed;
        unit_allocator_stop(&a);
        assert_true(s == HOWDAH_NO_MEMORY || !failed);
        if (!failed)
            break;
    }
}

/* ----------------------------------------------------------- subscriptions */

#define A_SUBSCRIPTION                                                                             \
    "{\"subscriber_id\":\"mailer\",\"high\":9,\"contiguous\":2,\"holes\":[[3,3],[5,7]],"           \
    "\"head\":12,\"lag\":7,\"lag_age_s\":1.050,\"owner\":\"host \\\"1\\\"\",\"token\":4,"          \
    "\"state\":\"live\",\"pattern\":\"order.*\",\"updated_at\":" NOON                              \
    ",\"dead_letters\":1,\"skips\":2,\"reason\":null,\"stream\":null,\"originals\":false,"         \
    "\"instance\":null,\"outstanding\":4"

static const int64_t holes[] = {3, 3, 5, 7};

static howdah_subscription_info a_subscription(void)
{
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    info.subscriber_id = "mailer";
    info.pattern = "order.*";
    info.state = HOWDAH_SUBSCRIPTION_LIVE;
    info.reason = "";
    info.owner = "host \"1\"";
    info.token = 4;
    info.high = 9;
    info.contiguous = 2;
    info.holes = holes;
    info.holes_n = 2;
    info.head = 12;
    info.lag = 7;
    info.dead_letters = 1;
    info.skips = 2;
    info.updated_at_us = NOON_US;
    info.lag_age_ms = 1050;
    return info;
}

static void a_subscription_is_one_object(void **state)
{
    const howdah_subscription_info info = a_subscription();
    howdah_subscription_info bare = HOWDAH_SUBSCRIPTION_INFO_INIT;

    (void)state;
    assert_entity_is(&face_subscription, &info, A_SUBSCRIPTION "}");
    bare.subscriber_id = "b";
    bare.updated_at_us = 0;
    bare.state = HOWDAH_SUBSCRIPTION_PAUSED;
    bare.reason = "by \033[1mme";
    bare.shared = true;
    assert_entity_is(&face_subscription, &bare,
                     "{\"subscriber_id\":\"b\",\"high\":0,\"contiguous\":0,\"holes\":[],"
                     "\"head\":0,\"lag\":0,\"lag_age_s\":null,\"owner\":null,\"token\":0,"
                     "\"state\":\"paused\",\"pattern\":null,"
                     "\"updated_at\":\"1970-01-01T00:00:00.000000Z\",\"dead_letters\":0,"
                     "\"skips\":0,\"reason\":\"by \\u001b[1mme\",\"stream\":null,"
                     "\"originals\":false,\"instance\":\"shared\",\"outstanding\":0}");
}

static void members_are_named_only_of_a_shared_one(void **state)
{
    face_members members = FACE_MEMBERS_INIT;
    face_subscription_shown shown = {.info = a_subscription()};
    howdah_member_info one = HOWDAH_MEMBER_INFO_INIT;
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    assert_entity_is(&face_subscription_with_members, &shown, A_SUBSCRIPTION "}");
    one.member = "m\"1";
    one.batches = 2;
    one.events = 30;
    one.oldest_age_ms = 61007;
    face_members_add(&members, &one);
    one.member = "";
    face_members_add(&members, &one);
    face_members_end(&members);
    assert_int_equal(members.n, 2);
    assert_string_equal(
        hw_buf_str(&members.json),
        "[{\"member\":\"m\\\"1\",\"batches\":2,\"events\":30,\"oldest_age_s\":61.007},"
        "{\"member\":\"\",\"batches\":2,\"events\":30,\"oldest_age_s\":61.007}]");
    face_members_done(&members);

    face_members_end(&members);
    shown.info.shared = true;
    shown.members = hw_buf_str(&members.json);
    face_entity_json(&out, &face_subscription_with_members, &shown, "");
    assert_non_null(strstr(hw_buf_str(&out), "\"instance\":\"shared\",\"outstanding\":4,"
                                             "\"members\":[]}"));
    face_members_done(&members);
    hw_buf_done(&out);
}

static void a_skip_is_open_until_it_has_a_resolution(void **state)
{
    howdah_skip skip = {sizeof skip, 3, "mailer", 7, 9, 5000, "no \"holder\"", NOON_US, "", 0};

    (void)state;
    assert_entity_is(&face_skip, &skip,
                     "{\"id\":3,\"subscriber_id\":\"mailer\",\"first\":7,\"last\":9,"
                     "\"age_ms\":5000,\"reason\":\"no \\\"holder\\\"\",\"created_at\":" NOON
                     ",\"resolution\":null}");
}

/* ---------------------------------------------------------- queues and jobs */

#define A_SUMMARY                                                                                  \
    "{\"queue\":\"mail\",\"pending\":1,\"processing\":2,\"scheduled\":3,"                          \
    "\"oldest_age_s\":0.090,\"paused\":true,\"dead_letters\":7}"

static howdah_queue_info a_queue(void)
{
    return (howdah_queue_info){
        .size = sizeof(howdah_queue_info),
        .queue = "mail",
        .paused = true,
        .pending = 1,
        .processing = 2,
        .scheduled = 3,
        .completed = 4,
        .failed = 5,
        .purged = 6,
        .dead_letters = 7,
        .oldest_age_ms = 90,
        .created_at_us = NOON_US,
        .settings = {sizeof(howdah_queue_options), 300000, 5, 1000, 3600000, 10, 0, 0, 1},
    };
}

static void a_queue_has_its_settings(void **state)
{
    howdah_queue_info info = a_queue();

    (void)state;
    assert_entity_is(&face_queue, &info,
                     "{\"queue\":\"mail\",\"pending\":1,\"processing\":2,\"scheduled\":3,"
                     "\"completed\":4,\"failed\":5,\"oldest_age_s\":0.090,\"paused\":true,"
                     "\"purged\":6,\"dead_letters\":7,\"created_at\":" NOON
                     ",\"settings\":{\"abandon_after_ms\":300000,\"max_attempts\":5,"
                     "\"backoff_initial_ms\":1000,\"backoff_max_ms\":3600000,"
                     "\"backoff_jitter\":10,\"concurrency\":0,\"history_ms\":0,"
                     "\"hold_key\":true}}");
    assert_entity_is(&face_queue_summary, &info, A_SUMMARY);
    info.oldest_age_ms = HOWDAH_ABSENT;
    assert_entity_is(&face_queue_summary, &info,
                     "{\"queue\":\"mail\",\"pending\":1,\"processing\":2,\"scheduled\":3,"
                     "\"oldest_age_s\":null,\"paused\":true,\"dead_letters\":7}");
}

static void a_job_is_the_librarys_line(void **state)
{
    const howdah_job job = a_job();
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    assert_int_equal(face_job_json(&job, &out, NULL), HOWDAH_OK);
    assert_buf_is(&out, "{\"id\":12,\"queue\":\"mail\",\"status\":\"pending\",\"attempts\":0,"
                        "\"max_attempts\":5,\"priority\":0,\"token\":null,\"worker\":null,"
                        "\"key\":\"a \\\"key\\\"\\n\",\"dedup\":null,\"correlation_id\":null,"
                        "\"causation_id\":null,\"event_sequence\":null,\"type\":null,"
                        "\"stream\":null,\"created_at\":" NOON ",\"due_at\":" NOON
                        ",\"started_at\":null,\"lease_until\":null,\"finished_at\":null,"
                        "\"position\":null,\"suspect\":false,\"error\":null,\"result\":null,"
                        "\"data\":[1,  2],\"headers\":{}}");
    hw_buf_done(&out);
}

static void a_push_says_what_existed(void **state)
{
    howdah_pushed pushed = HOWDAH_PUSHED_INIT;
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    pushed.id = 12;
    face_pushed_json(&out, "ma\"il", &pushed);
    assert_buf_is(&out, "{\"id\":12,\"queue\":\"ma\\\"il\"}");
    pushed.existed = 1;
    face_pushed_json(&out, "mail", &pushed);
    assert_buf_is(&out, "{\"id\":12,\"queue\":\"mail\",\"existed\":true}");
    hw_buf_done(&out);
}

static void a_binding_may_be_named_only(void **state)
{
    howdah_binding_info info = {
        .size = sizeof info,
        .queue = "mail",
        .pattern = "order.*",
        .key = HOWDAH_KEY_STREAM,
        .subscriber_id = "bind:1",
        .owner = "",
        .state = HOWDAH_SUBSCRIPTION_BEHIND,
        .reason = "",
        .high = 7,
        .lag = 2,
        .head = 9,
        .created_at_us = NOON_US,
    };

    (void)state;
    assert_entity_is(&face_binding, &info,
                     "{\"queue\":\"mail\",\"pattern\":\"order.*\",\"key\":\"stream\","
                     "\"subscriber_id\":\"bind:1\",\"high\":7,\"head\":9,\"lag\":2,"
                     "\"state\":\"behind\",\"owner\":null,\"created_at\":" NOON
                     ",\"reason\":null}");
    assert_entity_is(&face_binding_named, &info, "{\"queue\":\"mail\",\"pattern\":\"order.*\"}");
}

/* ------------------------------------------------------------- dead letters */

static howdah_dead_letter a_dead_letter(void)
{
    return (howdah_dead_letter){
        .size = sizeof(howdah_dead_letter),
        .id = 5,
        .source = "queue",
        .error = "it said \"no\"\n",
        .attempts = 3,
        .state = "dead",
        .created_at_us = NOON_US,
        .last_attempt_at_us = NOON_US,
        .resolved_at_us = HOWDAH_NO_TIME,
    };
}

#define A_FATE                                                                                     \
    "\"error\":\"it said \\\"no\\\"\\n\",\"attempts\":3,\"redrives\":0,\"state\":\"dead\","        \
    "\"reason\":null,\"created_at\":" NOON ",\"last_attempt_at\":" NOON                            \
    ",\"resolved_at\":null,\"resolved_by\":null,"

static void a_dead_letter_has_what_it_is_about(void **state)
{
    howdah_event event = an_event();
    howdah_job job = a_job();
    howdah_dead_letter dl = a_dead_letter();
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    dl.source = "sub";
    dl.subscriber_id = "mailer";
    dl.event = &event;
    face_dead_letter_json(&out, &dl);
    assert_buf_is(&out,
                  "{\"id\":5,\"source\":\"sub\",\"subscriber_id\":\"mailer\","
                  "\"event_id\":\"" ID1 "\",\"global_sequence\":99,\"stream\":\"order-7\","
                  "\"version\":7,\"type\":\"order.created\"," A_FATE "\"data\":{\"total\": 12}}");
    event.content_type = HW_STR_LIT("image/png");
    event.data = HW_STR_LIT("\x89PNG");
    face_dead_letter_json(&out, &dl);
    assert_buf_is(&out, "{\"id\":5,\"source\":\"sub\",\"subscriber_id\":\"mailer\","
                        "\"event_id\":\"" ID1 "\",\"global_sequence\":99,\"stream\":\"order-7\","
                        "\"version\":7,\"type\":\"order.created\"," A_FATE
                        "\"content_type\":\"image/png\",\"data_base64\":\"iVBORw==\"}");

    dl = a_dead_letter();
    dl.queue = "mail";
    dl.job_id = 12;
    dl.job = &job;
    face_dead_letter_json(&out, &dl);
    assert_buf_is(&out, "{\"id\":5,\"source\":\"queue\",\"queue\":\"mail\",\"job_id\":12," A_FATE
                        "\"key\":\"a \\\"key\\\"\\n\",\"dedup\":null,\"correlation_id\":null,"
                        "\"causation_id\":null,\"event_sequence\":null,\"stream\":null,"
                        "\"type\":null,\"pushed_at\":" NOON ",\"data\":[1,  2],\"headers\":{}}");
    dl.job = NULL;
    face_dead_letter_json(&out, &dl);
    assert_buf_is(&out, "{\"id\":5,\"source\":\"queue\",\"queue\":\"mail\",\"job_id\":12," A_FATE
                        "\"data\":null}");
    hw_buf_done(&out);
}

/* --------------------------------------------------- snapshots and findings */

static void a_snapshot_is_printed_with_what_it_has(void **state)
{
    howdah_snapshot s = HOWDAH_SNAPSHOT_INIT;

    (void)state;
    s.stream = "order-7";
    s.version = 3;
    s.data_len = 8;
    assert_entity_is(&face_snapshot, &s,
                     "{\"stream\":\"order-7\",\"version\":3,\"bytes\":8,\"schema_version\":1}");
    s.data = "{\"a\":\n1}";
    s.taken_at_us = NOON_US;
    assert_entity_is(&face_snapshot, &s,
                     "{\"stream\":\"order-7\",\"version\":3,\"data\":{\"a\": 1},\"bytes\":8,"
                     "\"schema_version\":1,\"taken_at\":" NOON "}");
    s.data = "\x89PNG";
    s.data_len = 4;
    s.content_type = "image/png";
    assert_entity_is(&face_snapshot, &s,
                     "{\"stream\":\"order-7\",\"version\":3,\"data\":null,"
                     "\"content_type\":\"image/png\",\"data_base64\":\"iVBORw==\",\"bytes\":4,"
                     "\"schema_version\":1,\"taken_at\":" NOON "}");
}

static void a_finding_has_a_word_for_its_severity(void **state)
{
    howdah_finding f = {sizeof f, HOWDAH_WARNING, "clock", "3 s \"off\"", NULL};

    (void)state;
    assert_entity_is(&face_finding, &f,
                     "{\"severity\":\"warning\",\"check\":\"clock\","
                     "\"message\":\"3 s \\\"off\\\"\",\"advice\":\"\"}");
}

/* ------------------------------------------------------------------- events */

static void an_event_is_appended(void **state)
{
    const howdah_event event = an_event();
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    hw_buf_puts(&out, "data: ");
    assert_int_equal(face_event_json(&event, &out, NULL), HOWDAH_OK);
    assert_buf_is(&out, "data: {" AN_EVENT);
    assert_int_equal(face_trace_json(-1, &event, &out, NULL), HOWDAH_OK);
    assert_buf_is(&out, "{\"depth\":-1," AN_EVENT);
    hw_buf_done(&out);
}

static void a_change_has_the_event_before_and_after(void **state)
{
    const howdah_event event = an_event();
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    assert_int_equal(face_change_json(HOWDAH_CHANGE_CORRECTED, &event, &event, true, &out, NULL),
                     HOWDAH_OK);
    assert_buf_is(&out, "{\"change\":\"corrected\",\"family\":\"" ID1 "\",\"before\":{" AN_EVENT
                        ",\"after\":{" AN_EVENT ",\"final\":true}");
    assert_int_equal(face_change_json(HOWDAH_CHANGE_ADDED, NULL, &event, false, &out, NULL),
                     HOWDAH_OK);
    assert_buf_is(&out, "{\"change\":\"added\",\"family\":\"" ID1 "\",\"before\":null"
                        ",\"after\":{" AN_EVENT ",\"final\":false}");
    hw_buf_done(&out);
}

static void a_position_names_its_stream(void **state)
{
    howdah_position p = HOWDAH_POSITION_INIT;
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    p.global_sequence = 99;
    p.version = 7;
    p.revision = 2;
    memcpy(p.id, ID1, sizeof p.id);
    face_position_json(&out, "a \"stream\"", &p);
    assert_buf_is(&out,
                  "{\"global_sequence\":99,\"id\":\"" ID1 "\",\"stream\":\"a \\\"stream\\\"\","
                  "\"version\":7,\"revision\":2}");
    hw_buf_done(&out);
}

/* ------------------------------------------------------------------- status */

/* What the walks find; a negative status is theirs. */
static struct {
    size_t facts;
    int facts_status;
    int subscriptions_status;
    int queues_status;
} bus;

int __wrap_howdah_facts_walk(howdah_bus *b, int (*fn)(void *ctx, const howdah_fact *fact),
                             void *ctx, howdah_error *reterr);
int __wrap_howdah_subscriptions_walk(howdah_bus *b, const char *name,
                                     int (*fn)(void *ctx, const howdah_subscription_info *info),
                                     void *ctx, howdah_error *reterr);
int __wrap_howdah_queue_summaries_walk(howdah_bus *b,
                                       int (*fn)(void *ctx, const howdah_queue_info *info),
                                       void *ctx, howdah_error *reterr);

int __wrap_howdah_facts_walk(howdah_bus *b, int (*fn)(void *ctx, const howdah_fact *fact),
                             void *ctx, howdah_error *reterr)
{
    static const howdah_fact facts[] = {
        {sizeof(howdah_fact), "store", "a \"file\"", false},
        {sizeof(howdah_fact), "events", "7", true},
        {sizeof(howdah_fact), "server", NULL, false},
    };

    (void)b;
    (void)reterr;
    for (size_t i = 0; i < bus.facts; i++)
        assert_int_equal(fn(ctx, &facts[i]), 0);
    return bus.facts_status;
}

int __wrap_howdah_subscriptions_walk(howdah_bus *b, const char *name,
                                     int (*fn)(void *ctx, const howdah_subscription_info *info),
                                     void *ctx, howdah_error *reterr)
{
    const howdah_subscription_info info = a_subscription();

    (void)b;
    (void)reterr;
    assert_null(name);
    for (int i = 0; bus.subscriptions_status == HOWDAH_OK && i < 2; i++)
        assert_int_equal(fn(ctx, &info), 0);
    return bus.subscriptions_status;
}

int __wrap_howdah_queue_summaries_walk(howdah_bus *b,
                                       int (*fn)(void *ctx, const howdah_queue_info *info),
                                       void *ctx, howdah_error *reterr)
{
    const howdah_queue_info info = a_queue();

    (void)b;
    (void)reterr;
    if (bus.queues_status == HOWDAH_OK)
        assert_int_equal(fn(ctx, &info), 0);
    return bus.queues_status;
}

static void status_is_one_object_with_its_sums(void **state)
{
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    bus.facts = 3;
    assert_int_equal(face_status_json(NULL, &out, NULL, NULL, NULL), HOWDAH_OK);
    assert_buf_is(&out, "{\"store\":\"a \\\"file\\\"\",\"events\":7,\"server\":null,"
                        "\"subscriptions\":[" A_SUBSCRIPTION "}," A_SUBSCRIPTION "}],"
                        "\"queues\":[" A_SUMMARY "],\"dead_letters\":9,\"skips\":4}");
    hw_buf_done(&out);
}

static void what_is_closed_to_the_user_is_left_out_of_the_status(void **state)
{
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    bus.facts = 1;
    bus.subscriptions_status = HOWDAH_DENIED;
    assert_int_equal(face_status_json(NULL, &out, NULL, NULL, NULL), HOWDAH_OK);
    assert_buf_is(&out, "{\"store\":\"a \\\"file\\\"\",\"subscriptions\":[],"
                        "\"queues\":[" A_SUMMARY "],\"dead_letters\":7,\"skips\":null}");
    bus.queues_status = HOWDAH_DENIED;
    assert_int_equal(face_status_json(NULL, &out, NULL, NULL, NULL), HOWDAH_OK);
    assert_buf_is(&out, "{\"store\":\"a \\\"file\\\"\",\"subscriptions\":[],\"queues\":[],"
                        "\"dead_letters\":null,\"skips\":null}");
    bus.subscriptions_status = bus.queues_status = HOWDAH_OK;
    hw_buf_done(&out);
}

static void a_status_without_facts_is_nothing_and_an_error_is_told(void **state)
{
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    (void)state;
    bus.facts = 0;
    assert_int_equal(face_status_json(NULL, &out, NULL, NULL, NULL), HOWDAH_OK);
    assert_buf_is(&out, "");
    bus.facts = 1;
    bus.facts_status = HOWDAH_UNAVAILABLE;
    assert_int_equal(face_status_json(NULL, &out, NULL, NULL, NULL), HOWDAH_UNAVAILABLE);
    assert_buf_is(&out, "{\"store\":\"a \\\"file\\\"\"}");
    bus.facts_status = HOWDAH_OK;
    bus.queues_status = HOWDAH_UNAVAILABLE;
    assert_int_equal(face_status_json(NULL, &out, NULL, NULL, NULL), HOWDAH_UNAVAILABLE);
    bus.queues_status = HOWDAH_OK;
    hw_buf_done(&out);
}

static void take_piece(void *ctx, hw_buf *out)
{
    hw_buf_put(ctx, hw_buf_str(out), out->len);
    hw_buf_putc(ctx, '\n');
    hw_buf_clear(out);
}

static void a_long_status_is_sent_member_by_member(void **state)
{
    hw_buf out = HW_BUF_INIT(BUF_MAX);
    hw_buf sent = HW_BUF_INIT(BUF_MAX);

    (void)state;
    bus.facts = 2;
    assert_int_equal(face_status_json(NULL, &out, take_piece, &sent, NULL), HOWDAH_OK);
    assert_buf_is(&out, "");
    assert_buf_is(&sent, "{\"store\":\"a \\\"file\\\"\"\n,\"events\":7\n"
                         ",\"subscriptions\":[" A_SUBSCRIPTION "}\n," A_SUBSCRIPTION "}\n"
                         "],\"queues\":[" A_SUMMARY "\n],\"dead_letters\":9,\"skips\":4}\n");
    hw_buf_done(&out);
    hw_buf_done(&sent);
}

/* ------------------------------------------------------------------ reading */

typedef struct reading {
    howdah_builder *builder;
    hw_buf scratch;
    face_correction_in correction;
    face_event_in in;
    howdah_error err;
} reading;

static int set_up(void **state)
{
    reading *r = calloc(1, sizeof *r);

    if (!r)
        return -1;
    r->scratch = (hw_buf)HW_BUF_INIT(BUF_MAX);
    face_correction_in_init(&r->correction, 100);
    *state = r;
    return howdah_builder_new(&r->builder, NULL);
}

static int tear_down(void **state)
{
    reading *r = *state;

    howdah_builder_free(r->builder);
    hw_buf_done(&r->scratch);
    face_correction_in_done(&r->correction);
    free(r);
    return 0;
}

static int read_event(reading *r, const char *text)
{
    r->in.text = hw_str_of(text);
    r->in.payload_max = 100;
    r->err = (howdah_error)HOWDAH_ERROR_INIT;
    howdah_builder_reset(r->builder);
    return face_event_in_parse(&r->in, r->builder, &r->scratch, &r->err);
}

static void assert_refused(reading *r, const char *text, int status, const char *message)
{
    assert_int_equal(read_event(r, text), status);
    assert_string_equal(r->err.message, message);
}

static void an_event_that_was_printed_can_be_read(void **state)
{
    reading *r = *state;
    const howdah_event event = an_event();
    howdah_event *again = NULL;
    hw_buf out = HW_BUF_INIT(BUF_MAX);

    assert_int_equal(face_event_json(&event, &out, NULL), HOWDAH_OK);
    r->in.correction = &r->correction; /* it corrects nothing: no difference */
    assert_int_equal(read_event(r, hw_buf_str(&out)), HOWDAH_OK);
    assert_true(r->in.has_id);
    assert_false(r->in.is_correction);
    assert_int_equal(howdah_builder_build(r->builder, &again, &r->err), HOWDAH_OK);
    assert_string_equal(howdah_event_stream(again), "order-7");
    assert_string_equal(howdah_event_data(again, &(size_t){0}), "{\"total\": 12}");
    howdah_event_free(again);
    hw_buf_done(&out);
}

static void what_an_event_cannot_be_is_refused(void **state)
{
    reading *r = *state;

    assert_refused(r, "[1]", HOWDAH_INVALID, "not a JSON object");
    assert_refused(r, "{\"a\":}", HOWDAH_INVALID, "not valid JSON: unexpected character at byte 6");
    assert_refused(r, "{\"straem\":\"a\"}", HOWDAH_INVALID,
                   "straem: unknown field; the nearest is stream");
    assert_string_equal(r->err.advice, "");
    assert_refused(r, "{\"a\\nb\":1}", HOWDAH_INVALID, "a\\nb: unknown field; the nearest is type");
    assert_refused(r, "{\"\xc3\xa9\":1}", HOWDAH_INVALID, "unknown field with a name of 2 bytes");
    assert_refused(r, "{\"purged\":true}", HOWDAH_INVALID,
                   "purged: the payload of this event was erased");
    assert_refused(r, "{\"expect\":\"soon\"}", HOWDAH_INVALID,
                   "expect: expected any, none, exists or a version");
}

static void a_correction_is_refused_unless_the_face_takes_one(void **state)
{
    reading *r = *state;
    const char *text = "{\"corrects\":\"" ID1 "\",\"reason\":\"typo\",\"data\":1}";

    assert_refused(r, text, HOWDAH_INVALID, "corrects: a correction cannot be part of a batch");
    assert_string_equal(r->err.advice, "");
    r->in.correction_advice = "send it elsewhere";
    assert_refused(r, text, HOWDAH_INVALID, "corrects: a correction cannot be part of a batch");
    assert_string_equal(r->err.advice, "send it elsewhere");
    r->in.correction = &r->correction;
    assert_int_equal(read_event(r, text), HOWDAH_OK);
    assert_true(r->in.is_correction);
    assert_refused(r, "{\"corrects\":null,\"reason\":\"typo\"}", HOWDAH_INVALID,
                   "reason: only of a correction, which names an event in \"corrects\"");
}

static void a_correction_has_all_its_fields(void **state)
{
    reading *r = *state;
    const howdah_correction *c = &r->correction.correction;

    r->in.correction = &r->correction;
    assert_int_equal(
        read_event(r, "{\"stream\":\"order-7\",\"type\":\"order.created\",\"data\":{\"a\": 1},"
                      "\"headers\":{\"h\":\"v\"},\"id\":\"" ID2 "\",\"corrects\":\"" ID1 "\","
                      "\"reason\":\"a \\\"typo\\\"\",\"actor\":\"me\",\"schema_version\":3,"
                      "\"valid_time\":\"2026-01-31T09:30:00Z\",\"expect_revision\":2,"
                      "\"retraction\":false,\"correlation_id\":null,\"revision\":4}"),
        HOWDAH_OK);
    assert_true(r->in.is_correction);
    assert_true(r->in.has_id);
    assert_string_equal(r->correction.stream, "order-7");
    assert_string_equal(r->correction.type, "order.created");
    assert_string_equal(c->event_id, ID1);
    assert_string_equal(c->id, ID2);
    assert_string_equal(c->reason, "a \"typo\"");
    assert_string_equal(c->actor, "me");
    assert_string_equal(c->headers, "{\"h\":\"v\"}");
    assert_string_equal(c->data, "{\"a\": 1}");
    assert_i64_equal((int64_t)c->data_len, 8);
    assert_null(c->content_type);
    assert_i64_equal(c->valid_time_us, NOON_US);
    assert_i64_equal(c->schema_version, 3);
    assert_i64_equal(c->expected_revision, 2);
    assert_false(c->retract);

    /* The next one has nothing of it. */
    assert_int_equal(
        read_event(r, "{\"corrects\":\"" ID3 "\",\"reason\":\"r\",\"retraction\":true}"),
        HOWDAH_OK);
    assert_false(r->in.has_id);
    assert_string_equal(c->event_id, ID3);
    assert_true(c->retract);
    assert_null(r->correction.stream);
    assert_null(c->data);
    assert_null(c->headers);
    assert_i64_equal(c->valid_time_us, HOWDAH_NO_TIME);
    assert_i64_equal(c->expected_revision, 0);

    assert_int_equal(read_event(r, "{\"content_type\":\"image/png\",\"corrects\":\"" ID3
                                   "\",\"data_base64\":\"iVBORw==\"}"),
                     HOWDAH_OK);
    assert_string_equal(c->content_type, "image/png");
    assert_i64_equal((int64_t)c->data_len, 4);
    assert_memory_equal(c->data, "\x89PNG", 4);
}

static void what_a_correction_cannot_have_is_refused(void **state)
{
    reading *r = *state;

    r->in.correction = &r->correction;
    assert_refused(r, "{\"corrects\":\"a\",\"correlation_id\":\"c\"}", HOWDAH_INVALID,
                   "correlation_id: not of a correction: leave it out");
    assert_refused(r, "{\"corrects\":\"a\",\"expect\":3}", HOWDAH_INVALID,
                   "expect: not of a correction: leave it out");
    assert_refused(r, "{\"corrects\":\"a\",\"raeson\":\"c\"}", HOWDAH_INVALID,
                   "raeson: unknown field; the nearest is reason");
    assert_refused(r, "{\"corrects\":7}", HOWDAH_INVALID, "corrects: expected a string");
    assert_refused(r, "{\"corrects\":\"a\",\"retraction\":1}", HOWDAH_INVALID,
                   "retraction: expected true or false");
    assert_refused(r, "{\"corrects\":\"a\",\"data\":1,\"data_base64\":\"\",\"content_type\":\"a\"}",
                   HOWDAH_INVALID, "data: data and data_base64 exclude each other");
    assert_refused(r, "{\"corrects\":\"a\",\"content_type\":\"a\"}", HOWDAH_INVALID,
                   "data_base64: data_base64 and content_type need each other");
    assert_int_equal(
        read_event(r, "{\"corrects\":\"a\",\"data\":\"0123456789012345678901234567890123456789"
                      "012345678901234567890123456789012345678901234567890123456789\"}"),
        HOWDAH_LIMIT);
    assert_string_equal(r->err.message, "data: 102 bytes, the limit is 100");
}

static void a_job_keeps_what_it_inherits(void **state)
{
    howdah_new_job defaults = HOWDAH_NEW_JOB_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    face_job_in job;
    char text[] = "{\"data\":[1],\"key\":\"k\\n\",\"delay\":\"5s\",\"priority\":-1}";

    (void)state;
    defaults.dedup = "d";
    face_job_in_init(&job, 100);
    face_job_in_inherit(&job, &defaults);
    assert_int_equal(face_job_in_parse(&job, hw_str_of(text), 100, &err), HOWDAH_OK);
    memset(text, 'x', sizeof text - 1); /* it needs the text no longer */
    assert_string_equal(job.job.key, "k\n");
    assert_string_equal(job.job.dedup, "d");
    assert_string_equal(job.job.data, "[1]");
    assert_i64_equal(job.job.delay_ms, 5000);
    assert_i64_equal(job.job.priority, -1);

    assert_int_equal(face_job_in_parse(&job, HW_STR_LIT("{\"kye\":1}"), 100, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "kye: unknown field; the nearest is key");
    assert_string_equal(err.advice, "");
    job.advice = "look it up";
    assert_int_equal(face_job_in_parse(&job, HW_STR_LIT("{\"kye\":1}"), 100, &err), HOWDAH_INVALID);
    assert_string_equal(err.advice, "look it up");
    face_job_in_done(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_has_the_named_fields_in_their_order),
        cmocka_unit_test(nothing_is_null_and_an_empty_string_is_one),
        cmocka_unit_test(texts_of_others_are_valid_json),
        cmocka_unit_test(a_tail_stands_inside_and_what_was_in_the_buffer_stays),
        cmocka_unit_test(a_buffer_without_room_is_broken_and_not_cut),
        cmocka_unit_test(events_and_jobs_say_when_memory_is_short),
        cmocka_unit_test(a_subscription_is_one_object),
        cmocka_unit_test(members_are_named_only_of_a_shared_one),
        cmocka_unit_test(a_skip_is_open_until_it_has_a_resolution),
        cmocka_unit_test(a_queue_has_its_settings),
        cmocka_unit_test(a_job_is_the_librarys_line),
        cmocka_unit_test(a_push_says_what_existed),
        cmocka_unit_test(a_binding_may_be_named_only),
        cmocka_unit_test(a_dead_letter_has_what_it_is_about),
        cmocka_unit_test(a_snapshot_is_printed_with_what_it_has),
        cmocka_unit_test(a_finding_has_a_word_for_its_severity),
        cmocka_unit_test(an_event_is_appended),
        cmocka_unit_test(a_change_has_the_event_before_and_after),
        cmocka_unit_test(a_position_names_its_stream),
        cmocka_unit_test(status_is_one_object_with_its_sums),
        cmocka_unit_test(what_is_closed_to_the_user_is_left_out_of_the_status),
        cmocka_unit_test(a_status_without_facts_is_nothing_and_an_error_is_told),
        cmocka_unit_test(a_long_status_is_sent_member_by_member),
        cmocka_unit_test_setup_teardown(an_event_that_was_printed_can_be_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_an_event_cannot_be_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_correction_is_refused_unless_the_face_takes_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_correction_has_all_its_fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_correction_cannot_have_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test(a_job_keeps_what_it_inherits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
