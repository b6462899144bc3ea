/* test_event_record.c - the record that every layer passes around. */
#include "unit.h"

#include "engine/event.h"

static void fill(howdah_event *event)
{
    hw_event_init(event);
    memset(event->id.b, 1, 16);
    event->stream = HW_STR_LIT("order-7");
    event->type = HW_STR_LIT("order.created");
    event->data = HW_STR_LIT("{\"total\":12}");
    event->headers = HW_STR_LIT("{\"trace\":\"x\"}");
    event->correlation_id = HW_STR_LIT("corr");
    event->actor = HW_STR_LIT("me");
    event->reason = HW_STR_LIT("typo");
    event->has_causation = true;
    memset(event->causation_id.b, 2, 16);
    event->has_corrects = true;
    memset(event->corrects.b, 3, 16);
    event->has_family = true;
    memset(event->family.b, 4, 16);
    event->global_sequence = 99;
    event->version = 7;
    event->revision = 2;
    event->schema_version = 3;
    event->valid_time_us = 1000;
    event->recorded_at_us = 2000;
    event->expects = true;
    event->expected_version = 6;
}

static void a_new_record_has_the_documented_defaults(void **state)
{
    howdah_event event;

    (void)state;
    memset(&event, 0xFF, sizeof event);
    hw_event_init(&event);
    assert_i64_equal(event.global_sequence, HOWDAH_ABSENT);
    assert_i64_equal(event.version, HOWDAH_ABSENT);
    assert_i64_equal(event.expected_version, HOWDAH_EXPECT_ANY);
    assert_false(event.expects);
    assert_false(event.has_causation);
    assert_false(event.has_corrects);
    assert_false(event.has_family);
    assert_int_equal(event.revision, 1);
    assert_int_equal(event.schema_version, 1);
    assert_i64_equal(event.valid_time_us, HW_TIME_ABSENT);
    assert_i64_equal(event.recorded_at_us, HW_TIME_ABSENT);
    assert_null(event.stream.s);
    assert_null(event.type.s);
    assert_null(event.data.s);
    assert_null(event.content_type.s);
    assert_null(event.headers.s);
    assert_null(event.correlation_id.s);
    assert_null(event.actor.s);
    assert_null(event.reason.s);
}

static void a_clone_owns_all_its_texts_in_one_block(void **state)
{
    char stream[] = "order-7";
    char data[] = "a\0b";
    unit_allocator a;
    howdah_event event;
    howdah_event *copy = NULL;

    (void)state;
    fill(&event);
    event.stream = (hw_str){stream, 7};
    event.data = (hw_str){data, 3};
    event.content_type = HW_STR_LIT("image/png");
    event.actor = (hw_str){"me and more", 2}; /* a slice: not terminated where it ends */
    event.reason = HW_STR_NULL;
    event.correlation_id = HW_STR_LIT("");
    unit_allocator_start(&a, 0);
    assert_int_equal(hw_event_clone(&event, &copy, NULL), HOWDAH_OK);
    assert_i64_equal(a.asked, 1);
    memset(stream, 'x', sizeof stream);
    memset(data, 'x', sizeof data);
    assert_string_equal(copy->stream.s, "order-7");
    assert_i64_equal((int64_t)copy->data.len, 3);
    assert_memory_equal(copy->data.s, "a\0b", 4);
    assert_string_equal(copy->content_type.s, "image/png");
    assert_string_equal(copy->type.s, "order.created");
    assert_string_equal(copy->headers.s, "{\"trace\":\"x\"}");
    assert_string_equal(copy->actor.s, "me");
    assert_string_equal(copy->correlation_id.s, "");
    assert_null(copy->reason.s);
    assert_i64_equal(copy->global_sequence, 99);
    assert_i64_equal(copy->version, 7);
    assert_int_equal(copy->revision, 2);
    assert_int_equal(copy->schema_version, 3);
    assert_i64_equal(copy->valid_time_us, 1000);
    assert_i64_equal(copy->recorded_at_us, 2000);
    assert_true(copy->expects);
    assert_i64_equal(copy->expected_version, 6);
    assert_true(hw_uuid_equal(&copy->family, &event.family));
    assert_true(hw_uuid_equal(&copy->causation_id, &event.causation_id));
    assert_true(hw_uuid_equal(&copy->corrects, &event.corrects));
    hw_event_free(copy);
    hw_event_free(NULL);
    unit_allocator_stop(&a);
}

static void a_clone_without_memory_fails_and_leaves_the_output_alone(void **state)
{
    unit_allocator a;
    unsigned n = 0;

    (void)state;
    do {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event event;
        howdah_event *copy = NULL;
        int s;

        fill(&event);
        unit_allocator_start(&a, ++n);
        s = hw_event_clone(&event, &copy, &err);
        assert_int_equal(s, a.failed ? HOWDAH_NO_MEMORY : HOWDAH_OK);
        assert_int_equal(copy == NULL, a.failed);
        assert_int_equal(err.status, s);
        hw_event_free(copy);
        unit_allocator_stop(&a);
    } while (a.failed);
    assert_int_equal(n, 2);
}

static void a_size_that_overflows_is_no_memory(void **state)
{
    howdah_event event;
    howdah_event *copy = NULL;

    (void)state;
    fill(&event);
    event.data.len = SIZE_MAX - 10;
    assert_int_equal(hw_event_clone(&event, &copy, NULL), HOWDAH_NO_MEMORY);
    assert_null(copy);
}

static void what_the_store_gives_does_not_count_as_content(void **state)
{
    howdah_event sent;
    howdah_event stored;

    (void)state;
    fill(&sent);
    fill(&stored);
    stored.global_sequence = 1;
    stored.version = 2;
    stored.recorded_at_us = 3;
    stored.revision = 4;
    stored.has_family = false;
    stored.expects = false;
    stored.expected_version = HOWDAH_EXPECT_ANY;
    memset(stored.id.b, 9, 16);
    assert_true(hw_event_same_content(&sent, &stored));
}

static void every_field_of_the_content_counts(void **state)
{
    enum { CHANGES = 16 };

    (void)state;
    for (int change = 0; change < CHANGES; change++) {
        howdah_event sent;
        howdah_event stored;

        fill(&sent);
        fill(&stored);
        switch (change) {
        case 0:
            stored.stream = HW_STR_LIT("order-8");
            break;
        case 1:
            stored.type = HW_STR_LIT("order.Created");
            break;
        case 2:
            stored.data = HW_STR_LIT("{\"total\": 12}"); /* to the letter */
            break;
        case 3:
            stored.content_type = HW_STR_LIT("text/plain");
            break;
        case 4:
            stored.headers = HW_STR_LIT("{\"trace\":\"y\"}");
            break;
        case 5:
            stored.headers = HW_STR_NULL;
            break;
        case 6:
            stored.correlation_id = HW_STR_NULL;
            break;
        case 7:
            stored.correlation_id = HW_STR_LIT("Corr");
            break;
        case 8:
            stored.has_causation = false;
            break;
        case 9:
            stored.causation_id.b[15] = 0;
            break;
        case 10:
            stored.actor = HW_STR_LIT("you");
            break;
        case 11:
            stored.schema_version = 4;
            break;
        case 12:
            stored.has_corrects = false;
            break;
        case 13:
            stored.corrects.b[0] = 0;
            break;
        case 14:
            stored.reason = HW_STR_NULL;
            break;
        default:
            stored.valid_time_us = 1001;
            break;
        }
        if (hw_event_same_content(&sent, &stored))
            fail_msg("change %d was not noticed", change);
    }
}

static void an_absent_valid_time_matches_whatever_the_store_gave(void **state)
{
    howdah_event sent;
    howdah_event stored;

    (void)state;
    fill(&sent);
    fill(&stored);
    sent.valid_time_us = HW_TIME_ABSENT;
    assert_true(hw_event_same_content(&sent, &stored));
    /* Not the other way round: the store always has one. */
    assert_false(hw_event_same_content(&stored, &sent));
}

static void no_headers_and_an_empty_object_of_them_are_the_same(void **state)
{
    howdah_event sent;
    howdah_event stored;

    (void)state;
    fill(&sent);
    fill(&stored);
    sent.headers = HW_STR_NULL;
    stored.headers = HW_STR_LIT(" { } ");
    assert_true(hw_event_same_content(&sent, &stored));
    assert_true(hw_event_same_content(&stored, &sent));
    stored.headers = HW_STR_LIT("{\"a\":\"\"}");
    assert_false(hw_event_same_content(&sent, &stored));
    assert_false(hw_event_same_content(&stored, &sent));
}

static void an_unused_id_field_does_not_count(void **state)
{
    howdah_event sent;
    howdah_event stored;

    (void)state;
    fill(&sent);
    fill(&stored);
    sent.has_causation = false;
    stored.has_causation = false;
    stored.causation_id.b[3] = 77;
    assert_true(hw_event_same_content(&sent, &stored));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_record_has_the_documented_defaults),
        cmocka_unit_test(a_clone_owns_all_its_texts_in_one_block),
        cmocka_unit_test(a_clone_without_memory_fails_and_leaves_the_output_alone),
        cmocka_unit_test(a_size_that_overflows_is_no_memory),
        cmocka_unit_test(what_the_store_gives_does_not_count_as_content),
        cmocka_unit_test(every_field_of_the_content_counts),
        cmocka_unit_test(an_absent_valid_time_matches_whatever_the_store_gave),
        cmocka_unit_test(no_headers_and_an_empty_object_of_them_are_the_same),
        cmocka_unit_test(an_unused_id_field_does_not_count),
    };

    return cmocka_run_group_tests_name("event_record", tests, NULL, NULL);
}
