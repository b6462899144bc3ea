/* test_error.c - report once, at the origin. */
#include "unit.h"

#include "base/error.h"
#include "base/log_hook.h"

static void every_status_has_a_name_a_text_and_an_exit_code(void **state)
{
    static const struct {
        int status;
        const char *name;
        int exit_code;
    } rows[] = {
        {HOWDAH_OK, "OK", 0},
        {HOWDAH_END, "END", 0},
        {HOWDAH_FAILED, "FAILED", 1},
        {HOWDAH_NO_MEMORY, "NO_MEMORY", 1},
        {HOWDAH_MISUSE, "MISUSE", 2},
        {HOWDAH_CONFLICT, "CONFLICT", 3},
        {HOWDAH_ID_REUSED, "ID_REUSED", 3},
        {HOWDAH_NOT_FOUND, "NOT_FOUND", 4},
        {HOWDAH_UNAVAILABLE, "UNAVAILABLE", 5},
        {HOWDAH_TIMEOUT, "TIMEOUT", 5},
        {HOWDAH_DENIED, "DENIED", 5},
        {HOWDAH_READ_ONLY, "READ_ONLY", 5},
        {HOWDAH_FULL, "FULL", 5},
        {HOWDAH_CORRUPT, "CORRUPT", 5},
        {HOWDAH_INVALID, "INVALID", 6},
        {HOWDAH_LIMIT, "LIMIT", 6},
        {HOWDAH_LOST, "LOST", 7},
        {HOWDAH_SCHEMA, "SCHEMA", 8},
        {HOWDAH_INTERRUPTED, "INTERRUPTED", 130},
        {-9999, "UNKNOWN", 1},
        {2, "UNKNOWN", 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_string_equal(howdah_status_name(rows[i].status), rows[i].name);
        assert_int_equal(howdah_status_exit_code(rows[i].status), rows[i].exit_code);
        assert_true(strlen(howdah_status_text(rows[i].status)) > 0);
    }
    assert_string_equal(howdah_status_text(HOWDAH_INVALID), "invalid input");
}

static void failing_resets_every_field_of_an_older_error(void **state)
{
    howdah_error err = {sizeof err, HOWDAH_CONFLICT, 0xFF, 17, 4, "40001", "old", "old", "old", 3};

    (void)state;
    assert_int_equal(hw_fail(&err, HOWDAH_FAILED, "new %d", 1), HOWDAH_FAILED);
    assert_i64_equal((int64_t)err.size, (int64_t)sizeof err);
    assert_int_equal(err.status, HOWDAH_FAILED);
    assert_int_equal(err.flags, 0);
    assert_i64_equal(err.actual_version, HOWDAH_ABSENT);
    assert_i64_equal(err.actual_revision, HOWDAH_ABSENT);
    assert_string_equal(err.sqlstate, "");
    assert_string_equal(err.field, "");
    assert_string_equal(err.message, "new 1");
    assert_string_equal(err.advice, "");
}

static void only_passing_troubles_are_retryable(void **state)
{
    (void)state;
    for (int status = HOWDAH_INTERRUPTED; status < 0; status++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        bool passing = status == HOWDAH_NO_MEMORY || status == HOWDAH_UNAVAILABLE ||
                       status == HOWDAH_TIMEOUT || status == HOWDAH_FULL;

        assert_int_equal(hw_fail(&err, status, "x"), status);
        assert_int_equal(err.flags, passing ? HOWDAH_RETRYABLE : 0);
    }
}

static void a_null_error_is_fine_everywhere(void **state)
{
    (void)state;
    assert_int_equal(hw_fail(NULL, HOWDAH_LIMIT, "x"), HOWDAH_LIMIT);
    assert_int_equal(hw_fail_field(NULL, HOWDAH_LIMIT, "f", "x"), HOWDAH_LIMIT);
    assert_int_equal(hw_fail_no_memory(NULL), HOWDAH_NO_MEMORY);
    assert_int_equal(hw_advise(NULL, HOWDAH_LIMIT, "x"), HOWDAH_LIMIT);
    hw_error_prefix(NULL, "x");
}

static void a_field_is_named_twice(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    assert_int_equal(hw_fail_field(&err, HOWDAH_INVALID, "stream", "got %zu", (size_t)300),
                     HOWDAH_INVALID);
    assert_string_equal(err.field, "stream");
    assert_string_equal(err.message, "stream: got 300");
}

static void advice_and_prefix_keep_the_rest(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    assert_int_equal(hw_fail_field(&err, HOWDAH_LIMIT, "data", "too long"), HOWDAH_LIMIT);
    assert_int_equal(hw_advise(&err, HOWDAH_LIMIT, "cut it to %d", 5), HOWDAH_LIMIT);
    hw_error_prefix(&err, "event %d", 3);
    assert_int_equal(err.status, HOWDAH_LIMIT);
    assert_string_equal(err.field, "data");
    assert_string_equal(err.message, "event 3: data: too long");
    assert_string_equal(err.advice, "cut it to 5");
}

static void the_old_message_may_be_an_argument_of_the_new_one(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    (void)hw_fail(&err, HOWDAH_FAILED, "inner");
    (void)hw_fail(&err, HOWDAH_UNAVAILABLE, "outer (%s)", err.message);
    assert_string_equal(err.message, "outer (inner)");
}

static void a_long_message_is_cut_between_characters(void **state)
{
    char text[700];

    (void)state;
    /* 511 bytes fit; the two-byte characters end at 510, 510 + shift, ... */
    for (size_t shift = 0; shift < 2; shift++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        size_t at = 0;

        if (shift)
            text[at++] = 'x';
        while (at + 2 < sizeof text) {
            memcpy(text + at, "\xC3\xA4", 2);
            at += 2;
        }
        text[at] = '\0';
        (void)hw_fail(&err, HOWDAH_FAILED, "%s", text);
        assert_i64_equal((int64_t)strlen(err.message), shift ? 511 : 510);
        assert_memory_equal(err.message, text, strlen(err.message));
        (void)hw_advise(&err, HOWDAH_FAILED, "%s", text);
        assert_i64_equal((int64_t)strlen(err.advice), shift ? 255 : 254);
    }
}

static void a_long_prefix_leaves_a_terminated_message(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char text[600];

    (void)state;
    memset(text, 'p', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)hw_fail(&err, HOWDAH_FAILED, "message");
    hw_error_prefix(&err, "%s", text);
    assert_i64_equal((int64_t)strlen(err.message), 511);
    (void)hw_fail_field(&err, HOWDAH_INVALID, text, "message");
    assert_i64_equal((int64_t)strlen(err.field), 31);
    assert_i64_equal((int64_t)strlen(err.message), 511);
}

static void a_message_is_one_line(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    (void)hw_fail(&err, HOWDAH_FAILED, "ERROR:  x\nDETAIL:\ty");
    assert_string_equal(err.message, "ERROR:  x DETAIL: y");
}

/* A caller built against a smaller struct: what lies behind its size is not ours. */
static void nothing_is_written_beyond_the_callers_size(void **state)
{
    static const size_t sizes[] = {0,
                                   1,
                                   sizeof(size_t),
                                   offsetof(howdah_error, actual_version),
                                   offsetof(howdah_error, message),
                                   offsetof(howdah_error, message) + 5,
                                   sizeof(howdah_error) - 1};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        union {
            howdah_error err;
            unsigned char bytes[sizeof(howdah_error)];
        } u;
        size_t own = sizes[i] < sizeof u.err.size ? sizeof u.err.size : sizes[i];

        memset(&u, 0xEE, sizeof u);
        u.err.size = sizes[i];
        (void)hw_fail_field(&u.err, HOWDAH_INVALID, "field", "some message");
        (void)hw_advise(&u.err, HOWDAH_INVALID, "some advice");
        hw_error_prefix(&u.err, "some prefix");
        assert_i64_equal((int64_t)u.err.size, (int64_t)sizes[i]);
        for (size_t k = own; k < sizeof u; k++)
            assert_int_equal(u.bytes[k], 0xEE);
        if (sizes[i] >= offsetof(howdah_error, actual_version))
            assert_int_equal(u.err.status, HOWDAH_INVALID);
        if (sizes[i] == offsetof(howdah_error, message) + 5)
            assert_string_equal(u.err.message, "some");
    }
}

static struct {
    int calls;
    int level;
    char message[2000];
} heard;

static void hear(void *ctx, int level, const char *message)
{
    assert_ptr_equal(ctx, &heard);
    heard.calls++;
    heard.level = level;
    snprintf(heard.message, sizeof heard.message, "%s", message);
}

static void the_log_speaks_to_its_hook_only(void **state)
{
    char text[3000];

    (void)state;
    hw_log(HOWDAH_LOG_ERROR, "nobody listens");
    hw_log_set(hear, &heard);
    hw_log(HOWDAH_LOG_WARN, "%d holes", 3);
    assert_int_equal(heard.calls, 1);
    assert_int_equal(heard.level, HOWDAH_LOG_WARN);
    assert_string_equal(heard.message, "3 holes");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    hw_log(HOWDAH_LOG_INFO, "%s", text);
    assert_i64_equal((int64_t)strlen(heard.message), 1023);
    hw_log_set(NULL, NULL);
    hw_log(HOWDAH_LOG_INFO, "nobody listens");
    assert_int_equal(heard.calls, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_a_text_and_an_exit_code),
        cmocka_unit_test(failing_resets_every_field_of_an_older_error),
        cmocka_unit_test(only_passing_troubles_are_retryable),
        cmocka_unit_test(a_null_error_is_fine_everywhere),
        cmocka_unit_test(a_field_is_named_twice),
        cmocka_unit_test(advice_and_prefix_keep_the_rest),
        cmocka_unit_test(the_old_message_may_be_an_argument_of_the_new_one),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(a_long_prefix_leaves_a_terminated_message),
        cmocka_unit_test(a_message_is_one_line),
        cmocka_unit_test(nothing_is_written_beyond_the_callers_size),
        cmocka_unit_test(the_log_speaks_to_its_hook_only),
    };

    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
