/*
 * subs_help.h - subscribers as processes that can be killed, stopped and started again, on any
 * store; and the cases that both stores must pass.
 *
 * What an event does to its handler is in its type: plain is handled, fail fails, slow takes
 * SH_SLOW_MS, work a few ms, poison kills its whole process (SIGKILL), exit ends it (_exit).
 * Streams are named "s0" to "s9".
 */
#ifndef HW_TESTS_FAULT_SUBS_HELP_H
#define HW_TESTS_FAULT_SUBS_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include <howdah/howdah.h>

#define SH_SLOW_MS 1000      /* time enough to stop a process in the middle of it */
#define SH_PATIENCE_MS 60000 /* for what comes at once on a machine that is free */
#define SH_SEEN_MAX 8192
#define SH_STREAMS 10

/* A call of a handler; noted before anything else happens. */
typedef struct sh_sight {
    int64_t sequence;
    int64_t at_ms;
    int32_t stream;
    int32_t version;
    int32_t who; /* of the hands */
    int32_t attempt;
} sh_sight;

/* Of one subscription, shared by its processes and the test. */
typedef struct sh_board {
    atomic_size_t n;
    atomic_size_t ended; /* calls that came to their end */
    sh_sight seen[SH_SEEN_MAX];
    atomic_bool there[SH_SEEN_MAX]; /* n counts a sight before it is written down */
} sh_board;

sh_board *sh_board_new(void);
void sh_board_free(sh_board *board);

typedef struct sh_stage {
    howdah_bus *bus; /* the test's own */
    char url[1200];
    const howdah_settings *settings;
    const void *ctx;
    int64_t lease_ms;     /* of coordinated and leased instances */
    int64_t take_over_ms; /* after a kill -9, at most */
    /* A row (sequence, stream, version, subscriber) in the handler's transaction; false: failed. */
    bool (*effect)(const struct sh_stage *stage, const howdah_delivery *delivery,
                   const sh_sight *sight);
    /* The first column of the first row; {events} and the like stand for the bus's tables. */
    int64_t (*number)(const struct sh_stage *stage, const char *sql);
} sh_stage;

/* One subscriber process. */
typedef struct sh_hand {
    const sh_stage *stage;
    sh_board *board;
    howdah_subscribe_options o; /* without handler and ctx */
    int who;
    const char *failpoint; /* HOWDAH_FAILPOINT, NULL: none */
    const char *app;       /* PostgreSQL: application_name, NULL: none */
    const char *url;       /* NULL: the stage's */
} sh_hand;

/* Quick retries, the stage's lease. */
howdah_subscribe_options sh_options(const sh_stage *stage, const char *subscriber_id,
                                    howdah_checkpoint_mode mode);
/* Runs until SIGTERM (exits with 0 after a clean end, however early it came) or a worse fate. */
pid_t sh_start(const sh_hand *hand);
/* Whether SIGTERM may come to this process; while not, it waits. */
void sh_let_term(bool let);
/* SIGTERM, and a clean end within twenty seconds. */
void sh_end(pid_t pid);
/* SIGKILL; it was alive until then. */
void sh_kill(pid_t pid);
/* What became of it: an exit code, or 1000 + signal. */
int sh_result(pid_t pid);

/* Appends one event; its number. */
int64_t sh_append(const sh_stage *stage, const char *stream, const char *type);

/* The stored place. */
typedef struct sh_place {
    int64_t high;
    int64_t contiguous;
    int64_t token;
    int64_t dead_letters;
    int64_t skips;
    bool owned;
    howdah_subscription_state state;
    char owner[128];
    char reason[256];
} sh_place;
sh_place sh_stored(const sh_stage *stage, const char *subscriber_id);
/* Until contiguous is at least that. */
void sh_wait_stored(const sh_stage *stage, const char *subscriber_id, int64_t contiguous);
/* Until so many calls of handlers are on the board, written down; fails after ms. */
void sh_wait_seen(const sh_board *board, size_t n, int64_t ms);
/* How often each of the events 1 to n was seen, as "1121"; a static buffer. */
const char *sh_times(const sh_board *board, int64_t n);
/* First sights of each stream count 1, 2, 3 ...: how many do not. */
int sh_disorder(const sh_board *board);

/* ---- cases */

void sh_case_kill_points(const sh_stage *stage);
void sh_case_poison(const sh_stage *stage);
void sh_case_clean_end(const sh_stage *stage);
void sh_case_take_over(const sh_stage *stage);
/* The owner stops for longer than its lease: instance LEASE, or COORDINATED where that is one. */
void sh_case_zombie(const sh_stage *stage, howdah_instance instance);

#endif
