/*
 * site.h - where a bench works, and who works there.
 *
 * A bench has two sides: ours (howdah_append and its kin) and the ceiling (the same work by the
 * store's own driver, or, for fanout, by us on a bus that nobody listens to).  A side is a number
 * of clients, each with a connection of its own, and sometimes subscribers (subscribers.h); all
 * that the runner knows of a client is bench_client_ops.
 *
 *   I1  A bench works in a bus of its own: a schema or a file that did not exist before and is
 *       gone afterwards, however the bench ends (but for SIGKILL).
 *   I2  Both sides store the same rows in tables with the same columns and indexes, with the same
 *       durability.
 */
#ifndef HW_BENCH_SITE_H
#define HW_BENCH_SITE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "cli/cli.h"

typedef enum bench_kind {
    BENCH_APPEND,
    BENCH_APPEND_BATCH,
    BENCH_READ,
    BENCH_DELIVER,
    BENCH_LATENCY,
    BENCH_FANOUT,
    BENCH_QUEUE,
    BENCH_ASOF,
    BENCH_CONTEND,
    BENCH_GROUP_READ,
    BENCH_LISTEN /* http: live and idle */
} bench_kind;

/* asof: of what; see asof.h. */
typedef enum bench_of {
    BENCH_OF_STREAM,
    BENCH_OF_TYPE,
    BENCH_OF_APPEND,
    BENCH_OF_APPEND_VALID
} bench_of;

/* group: how the members take their events; see group.h. */
typedef enum bench_through {
    BENCH_THROUGH_MEMBERS,  /* each with a bus of its own, as separate processes */
    BENCH_THROUGH_HANDLERS, /* of one bus, in its threads */
    BENCH_THROUGH_SQL       /* the functions, by plain libpq */
} bench_through;

/* group: what the ceiling is. */
typedef enum bench_against {
    BENCH_AGAINST_READ,   /* as many connections that read disjoint parts of the log */
    BENCH_AGAINST_DELETE, /* that take the same payloads from a table: one DELETE ... SKIP LOCKED */
    BENCH_AGAINST_QUEUE   /* workers of a queue that is bound to the log */
} bench_against;

/* http: which work; see http.h. */
typedef enum bench_over {
    BENCH_OVER_APPEND,
    BENCH_OVER_BATCH,
    BENCH_OVER_READ,
    BENCH_OVER_GROUP,
    BENCH_OVER_LIVE,
    BENCH_OVER_IDLE
} bench_over;

/* Behind a schema's name: that of the bus that nobody listens to. */
#define BENCH_QUIET "_quiet"

/* What was asked for. */
typedef struct bench_plan {
    bench_kind kind;
    const char *name; /* of the kind */
    bool ceiling;
    int64_t clients;
    int64_t ms; /* of each side */
    int64_t payload;
    int64_t streams; /* of each client */
    int64_t batch;   /* events of one append */
    int64_t events;  /* of one read, or of one delivery */
    int64_t combine; /* append: sessions of the publisher that all clients share; 0: none */
    int64_t rate;    /* latency: appends a second */
    int64_t subscriptions;
    int64_t members; /* fanout, latency: those who listen are so many members of a group; 0: not */
    int64_t jobs;    /* queue: pushed before a slice, and drained by it */
    int64_t keys;    /* queue: that the jobs have in turn, 0: none */
    bool pin;        /* queue, group: an old snapshot is held open */
    bench_through through; /* group */
    bench_against against; /* group */
    int64_t handler_us;    /* group: how long an event takes */
    bench_of of;           /* asof */
    bool http;             /* our side speaks with a gateway; kind is that of the work */
    bench_over over;       /* http */
    int64_t pattern_share; /* deliver: one in so many has the type that is asked for; 0: none */
    int64_t holes; /* deliver: numbers burnt between events under an open appender; 0: none */
} bench_plan;

/* The log is filled before it is measured, and a piece of work goes through all of it. */
bool bench_is_whole(const bench_plan *plan);
/* A slice is one piece of work for each client, however long it takes. */
bool bench_is_by_piece(const bench_plan *plan);

typedef struct bench_client bench_client;
typedef struct bench_subscribers bench_subscribers;

typedef struct bench_client_ops {
    /* One append, one batch, or one read of the whole log. */
    int (*work)(bench_client *client, int64_t *ret_events, howdah_error *reterr);
    /* Makes the work that runs end soon; called by another thread.  May be NULL. */
    void (*interrupt)(bench_client *client);
    void (*close)(bench_client *client);
    /* Before a slice.  queue: pushes n jobs; group: puts it back.  NULL elsewhere. */
    int (*push)(bench_client *client, int64_t n, howdah_error *reterr);
} bench_client_ops;

struct bench_client {
    const bench_client_ops *ops;
    /* Set when the work is not wanted any more; NULL: never.  Long work looks at it. */
    const atomic_bool *stop;
    atomic_llong *backlog;          /* queue, group: what this side has not drained yet */
    bench_subscribers *subscribers; /* those who hear what is appended; NULL: nobody */
};

typedef struct bench_backend bench_backend;

typedef struct bench_site {
    const bench_backend *backend;
    const bench_plan *plan;
    const howdah_settings *settings;
    char *url;     /* of the buses */
    char *place;   /* the schema, or the file */
    char *ceiling; /* the ceiling's table, or its file */
    bool one_time; /* asof: the client writes to the table that knows one time only */
    struct bench_gateway *gateway; /* http: that is up; NULL elsewhere */
    howdah_publisher *publisher;   /* append: that all clients share; NULL: each has a bus */
    /* fanout: a second bus, which nobody listens to. */
    char *quiet_url;
    howdah_settings *quiet_settings;
} bench_site;

struct bench_backend {
    const char *name;
    /* Fills url, place and ceiling with names that nobody has; creates nothing. */
    int (*name_site)(bench_site *site, const char *store_url, howdah_error *reterr);
    /* Makes the ceiling's table beside the migrated bus. */
    int (*make_ceiling)(const bench_site *site, howdah_error *reterr);
    /* group: how many bytes of WAL there were so far.  NULL: there is no such thing. */
    int (*wal_bytes)(const bench_site *site, int64_t *ret_bytes, howdah_error *reterr);
    /* queue, group: holds a snapshot open from now on; free with unpin.  NULL: there is no such
     * thing. */
    int (*pin)(const bench_site *site, void **ret_pin, howdah_error *reterr);
    void (*unpin)(void *pin);
    /* deliver: opens an appender that stays open, and fills the log with plan->events events and
       plan->holes burnt numbers between them; free with unpin.  NULL: there is no such thing. */
    int (*fill_with_holes)(const bench_site *site, void **ret_pin, howdah_error *reterr);
    /* asof: every tenth event is corrected, in one go. */
    int (*correct)(const bench_site *site, howdah_error *reterr);
    /* What a store does by itself in quiet times, done before reads are measured. */
    int (*quiesce)(const bench_site *site, howdah_error *reterr);
    /* A client of the ceiling; number is its place among the clients. */
    int (*open_client)(const bench_site *site, unsigned number, bench_client **ret_client,
                       howdah_error *reterr);
    /* Who hears what the ceiling's clients append. */
    int (*open_subscribers)(const bench_site *site, bench_subscribers **ret_subscribers,
                            howdah_error *reterr);
    /* Removes all that the bench made, also half of it. */
    int (*remove)(const bench_site *site, howdah_error *reterr);
};

extern const bench_backend bench_backend_pg;
extern const bench_backend bench_backend_sqlite;

/* A client of our side; quiet: on the second bus. */
int bench_ours_open(const bench_site *site, unsigned number, bool quiet, bench_client **ret_client,
                    howdah_error *reterr);

/* Fills the log with plan->events events; INTERRUPTED after a signal. */
int bench_ours_fill(cli_context *cli, const bench_site *site, howdah_error *reterr);

#endif
