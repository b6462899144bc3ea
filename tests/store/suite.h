/*
 * suite.h - the store's contract for subscriptions, queues and the two times
 * (store/subscriptions.h, store/queue.h, store/times.h), driven directly, on every store.
 *
 * The program's first argument is the kind: sqlite, pg, or flaky (the shim over SQLite, planned to
 * fail never).  Further arguments name the tests to run.  Every test gets a migrated bus of its
 * own.
 */
#ifndef HW_TESTS_STORE_SUITE_H
#define HW_TESTS_STORE_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#undef skip /* a member of hw_sub_ops */

#include "engine/event.h"
#include "store/store.h"

typedef struct ss {
    hw_store *store;
    const hw_sub_ops *subs;
    hw_config config;
    hw_interrupt interrupt; /* of the first handle only */
    char url[1024];
    char schema[64];
    char dir[64];
} ss;

bool ss_is_pg(void);

int ss_setup(void **state);
int ss_teardown(void **state);

/* One more handle on the same bus, without an interrupt; asserts. */
hw_store *ss_open(const ss *t);

/* SQL past the library; {events} stands for that table of the bus. */
void ss_sql(const ss *t, const char *sql);
int64_t ss_sql_number(const ss *t, const char *sql);

/* ---- events */

/* Appends one event and gives it as it is stored; free with hw_event_free(). */
howdah_event *ss_append(hw_store *store, const char *stream, const char *type, const char *json);
/* Appends n events of this type, one batch. */
void ss_append_many(hw_store *store, const char *type, size_t n);

/* ---- rows */

/* A row that outlives its callback. */
typedef struct row {
    bool there;
    char pattern[256]; /* "-": absent */
    char owner[256];   /* "-": absent */
    char reason[256];  /* "-": absent */
    char timeline[HW_TIMELINE_SIZE];
    char log[HW_TIMELINE_SIZE]; /* "-": absent */
    char outstanding[1024];     /* "3-5,9-9" */
    size_t outstanding_n;
    hw_sub_row row; /* its texts and outstanding are gone */
} row;

int ss_keep_row(void *ctx, const hw_sub_row *stored); /* a hw_sub_row_fn with a row as ctx */
row ss_load(const ss *t, const char *subscriber_id);
void ss_create(const ss *t, const char *subscriber_id);
/* Takes with COORDINATED and a lease of a minute, and expects success; the token. */
int64_t ss_take(hw_store *store, const char *subscriber_id, const char *owner);
/* The status of such a take. */
int ss_try_take(hw_store *store, const char *subscriber_id, const char *owner, row *ret_row);
hw_checkpoint ss_at(const char *subscriber_id, int64_t token, int64_t high);
/* The same with the event as its anchor. */
hw_checkpoint ss_behind(const char *subscriber_id, int64_t token, const howdah_event *event);
/* Another owner took it over meanwhile: the token before is stale. */
int64_t ss_make_stale(const ss *t, const char *subscriber_id);

#define ok(call)                                                                                   \
    do {                                                                                           \
        int ok_status = (call);                                                                    \
        if (ok_status < 0)                                                                         \
            fail_msg("%s: %s %s", #call, howdah_status_name(ok_status), ss_error.message);         \
    } while (0)

#define expect(call, status)                                                                       \
    do {                                                                                           \
        int expect_status = (call);                                                                \
        if (expect_status != (status))                                                             \
            fail_msg("%s: %s instead of %s (%s)", #call, howdah_status_name(expect_status),        \
                     howdah_status_name(status), expect_status < 0 ? ss_error.message : "");       \
    } while (0)

/* For ok(store->ops->...(…, &ss_error)). */
extern howdah_error ss_error;

#define S(text) hw_str_of(text)

/* What its owner shows, whichever log it is. */
#define SS_HOLD(id, token) (&(hw_hold){(id), (token), HW_STR_NULL})

#define SS_TEST(name) cmocka_unit_test_setup_teardown(name, ss_setup, ss_teardown)

typedef struct ss_group {
    const struct CMUnitTest *tests;
    size_t n;
} ss_group;
ss_group ss_row_tests(void);
ss_group ss_checkpoint_tests(void);
ss_group ss_dead_letter_tests(void);
ss_group ss_one_log_tests(void);
ss_group ss_tx_tests(void);
ss_group ss_read_tests(void);
ss_group ss_evidence_tests(void);
ss_group ss_bell_tests(void);
ss_group ss_flaky_tests(void);
ss_group ss_memory_tests(void);
ss_group ss_queue_tests(void);
ss_group ss_queue_admin_tests(void);
ss_group ss_queue_key_tests(void);
ss_group ss_queue_exchange_tests(void);
ss_group ss_queue_dead_letter_tests(void);
ss_group ss_queue_model_tests(void);
ss_group ss_route_tests(void);
ss_group ss_times_tests(void);
ss_group ss_times_knowledge_tests(void);
ss_group ss_times_model_tests(void);
ss_group ss_times_purge_tests(void);

#define SS_GROUP(tests) ((ss_group){(tests), sizeof(tests) / sizeof(tests)[0]})

#endif
