/*
 * test_pg_help.h - what the PostgreSQL tests share: a bus of its own for each test, SQL past the
 * library, small events, and a program that runs the tests named on its command line.
 *
 * In SQL texts {events} stands for that table (or function) of the bus, {schema} for its schema,
 * {_publish} for the role that is named after it; all quoted.  The name has a quote and a space
 * in it on purpose.
 */
#ifndef HW_TESTS_FAULT_TEST_PG_HELP_H
#define HW_TESTS_FAULT_TEST_PG_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <howdah/howdah.h>
#include <libpq-fe.h>

#include "store/store.h"

typedef struct pgt {
    char url[1024]; /* as superuser, over the Unix socket */
    char schema[48];
    howdah_settings *settings; /* the schema is set */
    howdah_bus *bus;           /* straight to the server */
    PGconn *admin;             /* a session for SQL past the library */
} pgt;

extern howdah_error pgt_error;

#define pgt_ok(call)                                                                               \
    do {                                                                                           \
        int pgt_status = (call);                                                                   \
        if (pgt_status < 0)                                                                        \
            fail_msg("%s: %s %s", #call, howdah_status_name(pgt_status), pgt_error.message);       \
    } while (0)

/* HOWDAH_TEST_PG or another variable of tools/with-pg; the program ends without it. */
const char *pgt_env(const char *name);
/* url with one more parameter, "name=value" (percent-encoded by the caller); a static buffer. */
const char *pgt_url_with(const char *url, const char *parameter);

/* Setup and teardown of a test: a migrated bus, open. */
int pgt_setup(void **state);
int pgt_teardown(void **state);
#define PGT_TEST(name) cmocka_unit_test_setup_teardown(name, pgt_setup, pgt_teardown)

/* As cmocka_run_group_tests, but only the tests named in argv[1...]; all without names. */
int pgt_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t n);
#define PGT_MAIN(group, tests)                                                                     \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return pgt_main(argc, argv, group, tests, sizeof(tests) / sizeof(tests)[0]);               \
    }

/* ---- handles; they assert */

howdah_bus *pgt_open(const pgt *t, const char *url);
/* A copy of the test's settings with one changed. */
howdah_settings *pgt_settings(const pgt *t, const char *key, const char *value);
howdah_bus *pgt_open_with(const pgt *t, const char *url, const char *key, const char *value);
PGconn *pgt_session(const char *url);

/* A store of its own on this bus; url NULL: straight to the server. */
hw_store *pgt_store(const pgt *t, const char *url);
void pgt_store_close(hw_store *store);

/* ---- SQL */

#define PGT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

void pgt_run(const pgt *t, PGconn *conn, const char *fmt, ...) PGT_PRINTF(3, 4);
int64_t pgt_number(const pgt *t, PGconn *conn, const char *fmt, ...) PGT_PRINTF(3, 4);
/* A static buffer; "NULL" for SQL NULL, "" without a row. */
const char *pgt_text(const pgt *t, PGconn *conn, const char *fmt, ...) PGT_PRINTF(3, 4);
/* The SQLSTATE of a statement that fails, "00000" of one that does not; a static buffer. */
const char *pgt_state(const pgt *t, PGconn *conn, const char *fmt, ...) PGT_PRINTF(3, 4);
/* The whole result, whatever it is; PQclear it. */
PGresult *pgt_result(const pgt *t, PGconn *conn, const char *fmt, ...) PGT_PRINTF(3, 4);

/* Waits until the query answers with this number; fails after some seconds. */
void pgt_wait_for(const pgt *t, PGconn *conn, int64_t number, const char *sql);

/* ---- events */

howdah_event *pgt_event(const char *stream);
/* With an id made from a number, and a payload. */
howdah_event *pgt_event_no(const char *stream, int no, const char *json);
howdah_position pgt_append(howdah_bus *bus, const char *stream);

/* Many events on one stream, or on several ("s-0", "s-1" ...). */
typedef struct pgt_batch {
    howdah_event **events;
    howdah_position *positions;
    size_t n;
} pgt_batch;
pgt_batch pgt_batch_new(const char *stream, size_t n, size_t streams);
void pgt_batch_free(pgt_batch *b);
#define PGT_EVENTS(b) ((const howdah_event *const *)(b)->events)

/* Committed events of the bus, seen past the library. */
int64_t pgt_count(const pgt *t);

int64_t pgt_now_ms(void);
/* Processor time that this process, and the sessions of clients on that server, have used. */
int64_t pgt_cpu_ms(const pgt *t, PGconn *conn);
/* A tail gives exactly this many events, and then none for a moment. */
void pgt_tail(howdah_tail *tail, int expected);

/* "stop -m immediate", "start" ...: a script of tools/with-pg; when it returns, it is done. */
int pgt_run_ctl(const char *script, const char *what);
/* The test's own server; asserts. */
void pgt_ctl(const char *what);
/* The test's own session, after the server was away. */
void pgt_reconnect(pgt *t);

/* The library's allocations fail after the first n; until it is fed again. */
void pgt_starve(long n);
void pgt_reader(void);

#endif
