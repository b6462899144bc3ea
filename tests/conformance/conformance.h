/*
 * conformance.h - one suite, every store.
 *
 * The program's first argument is the kind of store: sqlite, pg, pg-functions (a login that has
 * no right on any table and works through the SQL functions) or flaky (the shim over SQLite,
 * planned to fail never: a decorator must not change anything).  Further arguments name the tests
 * to run.  Every test gets a bus of its own.
 */
#ifndef HW_TESTS_CONFORMANCE_H
#define HW_TESTS_CONFORMANCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <howdah/howdah.h>

typedef struct cf {
    howdah_bus *bus;
    howdah_settings *settings;
    char url[1024];       /* as the tested handle opens it */
    char admin_url[1024]; /* as the owner opens it */
    char schema[64];
    char dir[64];
    bool is_copy; /* its database is pg_database.h's */
} cf;

bool cf_is_pg(void);
/* The tested login has rights on the tables (always true but for pg-functions). */
bool cf_is_owner(void);

/* Test setup and teardown: a migrated bus, and one without a schema. */
int cf_setup(void **state);
int cf_setup_bare(void **state);
/* The login of pg-functions may subscribe, too; that includes a right to read the table. */
int cf_setup_subscriber(void **state);
/* The login of pg-functions may do everything with queues. */
int cf_setup_worker(void **state);
int cf_teardown(void **state);

/* One more handle on the same bus; asserts. */
howdah_bus *cf_open(const cf *c);
howdah_bus *cf_open_admin(const cf *c);

/* SQL as the owner, past the library; {events} stands for that table of the bus. */
void cf_sql(const cf *c, const char *sql);
int64_t cf_sql_number(const cf *c, const char *sql);

/* An event, or a failed test. */
howdah_event *cf_event(const char *stream, const char *type, const char *json);
howdah_position cf_append(howdah_bus *bus, const char *stream, const char *type, const char *json);
howdah_position cf_append_event(howdah_bus *bus, const howdah_event *event);
/* Appends and expects this status; the error is left in err. */
void cf_append_fails(howdah_bus *bus, const howdah_event *event, int64_t expected, int status,
                     howdah_error *err);
int64_t cf_count(howdah_bus *bus);
#define CF_PATIENCE_MS                                                                             \
    60000 /* for what comes at once, or after a second, on a machine that is free */
/* Serves until a handler has written that. */
void cf_run_until(howdah_bus *bus, const char *written, const char *expected);
/* Serves until the subscription is in that state. */
void cf_run_until_state(howdah_bus *bus, const howdah_subscription *sub,
                        howdah_subscription_state state);
/* The sequences (or versions when a stream is given) that a read gives, as "1 2 3". */
const char *cf_read(howdah_bus *bus, const howdah_reader_options *options);

#define cf_ok(call)                                                                                \
    do {                                                                                           \
        int cf_status = (call);                                                                    \
        if (cf_status < 0)                                                                         \
            fail_msg("%s: %s %s", #call, howdah_status_name(cf_status), cf_error.message);         \
    } while (0)

/* For cf_ok(howdah_...(…, &cf_error)). */
extern howdah_error cf_error;

#define CF_TEST(name) cmocka_unit_test_setup_teardown(name, cf_setup, cf_teardown)
#define CF_SUB_TEST(name) cmocka_unit_test_setup_teardown(name, cf_setup_subscriber, cf_teardown)
#define CF_QUEUE_TEST(name) cmocka_unit_test_setup_teardown(name, cf_setup_worker, cf_teardown)
#define CF_TEST_BARE(name) cmocka_unit_test_setup_teardown(name, cf_setup_bare, cf_teardown)

/* Each file's tests. */
typedef struct cf_group {
    const struct CMUnitTest *tests;
    size_t n;
} cf_group;
cf_group cf_append_tests(void);
cf_group cf_batch_tests(void);
cf_group cf_read_tests(void);
cf_group cf_tail_tests(void);
cf_group cf_schema_tests(void);
cf_group cf_import_tests(void);
cf_group cf_race_tests(void);
cf_group cf_flaky_tests(void);
cf_group cf_event_tests(void);
cf_group cf_subscribe_tests(void);
cf_group cf_patterns_tests(void);
cf_group cf_reliable_tests(void);
cf_group cf_runner_tests(void);
cf_group cf_trouble_tests(void);
cf_group cf_publisher_tests(void);
cf_group cf_queue_tests(void);
cf_group cf_queue_admin_tests(void);
cf_group cf_queue_dead_letters_tests(void);
cf_group cf_worker_tests(void);
cf_group cf_bindings_tests(void);
cf_group cf_times_tests(void);
cf_group cf_times_subs_tests(void);
cf_group cf_upcast_tests(void);
cf_group cf_use_tests(void);
cf_group cf_group_dead_letters_tests(void);
cf_group cf_group_exchange_tests(void);
cf_group cf_group_fairness_tests(void);
cf_group cf_group_suspects_tests(void);
cf_group cf_groups_tests(void);
cf_group cf_group_tokens_tests(void);
cf_group cf_group_admin_tests(void);
cf_group cf_shared_tests(void);
cf_group cf_reserved_tests(void);
cf_group cf_registry_tests(void);

#define CF_GROUP(tests) ((cf_group){(tests), sizeof(tests) / sizeof(tests)[0]})

#endif
