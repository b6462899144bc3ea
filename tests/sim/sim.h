/*
 * sim.h - one run: processes with subscriptions over a simulated world, faults, healing, checks.
 *
 * Two processes subscribe with the same names.  Before each store operation the world goes on and
 * something may go wrong: the connection, the process, the server; or the other process gets its
 * turn.  After a while everything is healed, and must come to its end.
 */
#ifndef HW_TESTS_SIM_SIM_H
#define HW_TESTS_SIM_SIM_H

#include "checker.h"
#include "planted.h"

enum { SIM_PROCESSES = CHECK_PROCESSES, SIM_IMAGES = 2 };

/* Chances of 10,000, most of them per store operation. */
typedef struct sim_faults {
    uint32_t refuse; /* the operation fails, nothing else */
    uint32_t cut_before;
    uint32_t cut_after;
    uint32_t late_commit;
    uint32_t kill;         /* the process, before or after the operation */
    uint32_t slow;         /* the operation takes a while to get to the server */
    uint32_t switches;     /* the other process is served in between */
    uint32_t handler_kill; /* per delivery */
    uint32_t handler_nap;
    uint32_t handler_fail;
    uint32_t handler_halt;
    uint32_t pause;   /* per service */
    uint32_t restart; /* per service: the server */
    uint32_t leave;   /* per service: the process ends as it should, and starts again later */
    uint32_t meddle;  /* per service: an operator pauses, resumes, redrives */
    uint32_t poison;  /* of events: no handler ever succeeds */
    uint32_t killers; /* of events: its handler ends the process every time */
    uint32_t image;   /* an image of the server is kept, for when it is replaced */
    uint32_t replace; /* and is put in its place */
} sim_faults;

typedef struct sim_plan {
    char id[16];
    const char *pattern;
    bool from_end;
    howdah_subscribe_options options;
} sim_plan;

typedef struct sim sim;

typedef struct sim_handler {
    sim *sim;
    int process;
    int sub;
} sim_handler;

typedef struct sim_process {
    fake_client client;
    howdah_bus *bus; /* NULL: not running */
    howdah_subscription *subs[FAKE_SUBS];
    sim_handler handlers[FAKE_SUBS];
    int64_t wake_us; /* served, or started, then */
    bool on_stack;
} sim_process;

typedef struct sim_stats {
    int64_t deliveries, handled, dead_letters, redrives, skips, takes, kills, refusals, cuts, late,
        restarts, halts, checkpoints, services, operations, events, bursts, images, replaced,
        hidden, untold;
} sim_stats;

/* A standby that lags, or a backup: the server as it was at one moment. */
typedef struct sim_image {
    bool there;
    world world;
    fake server;
    checker checker;
} sim_image;

struct sim {
    uint64_t seed;
    world world;
    fake server;
    checker checker;
    sim_faults faults;
    sim_plan plans[FAKE_SUBS];
    int plans_n;
    bool calm; /* nothing goes wrong: events are to come soon (C6) */
    bool bell; /* calm, one process, and nothing but the bell tells of events, soon (C6) */
    int64_t soon_from_us;
    size_t rows; /* of a page of the reader; 0: as many as it likes */
    int pace;    /* a process may be served so many times later than it asked for */
    sim_process processes[SIM_PROCESSES];
    int depth; /* of processes on the stack */
    sim_image images[SIM_IMAGES];
    int replacements; /* that are still to come, */
    bool untold;      /* and the server's timeline stays as it was */
    bool healing;
    bool show; /* tell what happens */
    bool all;  /* judge also what is not promised (checker.h) */
    sim_stats stats;
};

/* A mistake of the library or of the world (planted.c). */
typedef struct sim_bug {
    const char *name; /* what is done wrong */
    planted_bug library;
    world_bug world;
} sim_bug;

extern const sim_bug sim_bugs[]; /* the first one is none */
extern const int sim_bugs_n;

/* What happened in one run; violation is "" when all was well. */
typedef struct sim_result {
    bool violated;
    char what[256];
    uint64_t trace;
    sim_stats stats;
} sim_result;

/* The run of a seed, a pure function.  s is scratch, so that many runs need one allocation. */
void sim_run(sim *s, uint64_t seed, const sim_bug *bug, sim_result *ret_result);

/* ---- plan.c: what a seed stands for */
void sim_plan_run(sim *s);

/* ---- process.c */
/* Starts it if it is not running, serves it once, and says when it wants to be served again. */
void sim_serve(sim *s, int process);
/* It is gone, from one moment to the next. */
void sim_kill(sim *s, sim_process *p);
/* It closes its bus: as it should, or, when it is dead, in vain. */
void sim_stop(sim *s, sim_process *p);
fake_verdict sim_before(void *ctx, fake_store *store, fake_op op);
/* Lets some time pass, in which everybody but the processes on the stack goes on. */
void sim_pass_time(sim *s, int64_t us);
bool sim_is_poison(const sim *s, int sub, int64_t number);
/* A line of the story, when it is to be shown. */
void sim_tell(const sim *s, const char *fmt, ...) HW_PRINTF(2, 3);

#endif
