/*
 * sim.h - one run: processes with members of a group over the SQLite store, faults, healing,
 * checks.
 *
 * The library is the one that ships, with its store on a file in memory; only time and chance are
 * simulated (../wraps.h).  A process is a bus of its own.  Each step is one call of the library by
 * one member, or by a person; SQLite has one writer at a time, so nothing finer can be interleaved.
 */
#ifndef HW_TESTS_SIM_GROUPS_SIM_H
#define HW_TESTS_SIM_GROUPS_SIM_H

#include <sqlite3.h>

#include "../dice.h"
#include "checker.h"
#include "planted.h"

enum { SIM_PROCESSES = 3, SIM_MEMBERS = 3, SIM_STREAMS = 6, SIM_DEAD_LETTERS = CHECK_EVENTS };

#define SIM_GROUP "group"

/* Chances of 10,000. */
typedef struct sim_faults {
    uint32_t fail;    /* per event handled: it fails this time */
    uint32_t regret;  /* an event that was handled is said to have failed after all */
    uint32_t kill;    /* the process ends inside a handler, or after a call */
    uint32_t nap;     /* the member sleeps until its lease has run out */
    uint32_t part;    /* it acks what it has so far */
    uint32_t extend;  /* it extends its lease */
    uint32_t release; /* it gives the rest back */
    uint32_t leave;   /* it leaves, with or without giving back what it has */
    uint32_t again;   /* the answer to an ack is lost: it acks again */
    uint32_t meddle;  /* per step: a person pauses, resumes, redrives, discards */
    uint32_t reset;   /* per step */
    uint32_t reboot;  /* per step: the machine */
    uint32_t poison;  /* of events: no handler ever succeeds */
    uint32_t killers; /* of events: its handler ends the process every time */
} sim_faults;

typedef struct sim_plan {
    int processes;
    int members; /* of each */
    int streams;
    int64_t events; /* at most */
    int steps;
    int64_t before; /* events before the group is made */
    int64_t start;  /* of the group */
    const char *pattern;
    const char *stream;
    int64_t lanes;
    int64_t max_events;
    int64_t lease_ms;
    howdah_order_key key;
    int64_t pace_us; /* a step takes as long at most */
    check_rules rules;
    sim_faults faults;
} sim_plan;

typedef struct sim_member {
    howdah_member *member;           /* NULL: it has left */
    howdah_batch *batch;             /* NULL: none */
    int held;                        /* the checker's number of it */
    size_t next;                     /* to be handled */
    bool done[CHECK_BATCH_EVENTS];   /* handled, and not acked */
    bool failed[CHECK_BATCH_EVENTS]; /* or an earlier one of its stream */
    int64_t nap_until_us;
} sim_member;

typedef struct sim_process {
    howdah_bus *bus; /* NULL: not running */
    int64_t down_until_us;
    sim_member members[SIM_MEMBERS];
} sim_process;

typedef struct sim_dead_letter {
    int64_t id;
    int64_t number;
    int64_t at_us; /* when it was made, or made again */
    bool open;
    bool redrive;
} sim_dead_letter;

typedef struct sim_stats {
    int64_t events, batches, retries, suspects, handled, fails, kills, naps, lost, late, parts,
        extends, releases, leaves, agains, exchanges, dead_letters, redrives, discards, pauses,
        halts, resets, reboots;
} sim_stats;

typedef struct group_sim {
    uint64_t seed;
    sim_dice dice;
    int64_t now_us;
    sim_plan plan;
    group_checker checker;
    howdah_bus *bus; /* of writers and people */
    sqlite3_stmt *version;
    sqlite3_stmt *dead_letters;
    sqlite3_stmt *status;
    sqlite3_stmt *rows;
    int64_t seen_version; /* of the database, when it was looked at last */
    sim_dead_letter found[SIM_DEAD_LETTERS];
    int found_n;
    int64_t dead_at_us[CHECK_EVENTS + 1]; /* when the last of each number was found to be made */
    sim_process processes[SIM_PROCESSES];
    int boots;
    bool healing;
    bool show; /* tell what happens */
    uint64_t trace;
    sim_stats stats;
} group_sim;

/* What happened in one run; what is "" when all was well. */
typedef struct sim_result {
    bool violated;
    char what[CHECK_WHAT];
    uint64_t trace;
    sim_stats stats;
} sim_result;

/* ---- sim.c */
/* The run of a seed, a pure function.  s is scratch; only show is looked at. */
void sim_run(group_sim *s, uint64_t seed, planted_bug bug, sim_result *ret_result);
/* One line of the story: a part of the trace. */
void sim_tell(group_sim *s, const char *what, int64_t who, int64_t number, int64_t more);
/* A call has answered something that it should not. */
void sim_surprise(group_sim *s, const char *call, int status, const howdah_error *err);

/* ---- plan.c: what a seed stands for */
void sim_make_plan(sim_plan *plan, sim_dice *dice);
/* The name and the type of an event, and whether it concerns the group. */
const char *sim_stream_name(int stream);
const char *sim_type_of(uint64_t seed, int64_t number);
bool sim_concerns(const sim_plan *plan, uint64_t seed, int64_t number, int stream);
bool sim_is_poison(const group_sim *s, int64_t number);
bool sim_is_killer(const group_sim *s, int64_t number);

/* ---- log.c: the file, and what can be seen in it */
/* Once for all runs: the directory, and a file with the tables.  False: it cannot be. */
bool sim_log_init(void);
void sim_log_done(void);
/* A new log, and the bus of writers and people. */
bool sim_log_open(group_sim *s);
void sim_log_close(group_sim *s);
howdah_bus *sim_log_bus(group_sim *s);
void sim_append(group_sim *s);
/* Changes when another bus has written something. */
int64_t sim_version(group_sim *s);
/* Tells the checker of dead letters and of the status. */
void sim_observe(group_sim *s);
/* Lots and retries that are left. */
int64_t sim_rows_left(group_sim *s);

/* ---- member.c */
void sim_start(group_sim *s, sim_process *p);
/* It is gone, from one moment to the next, with all that its members had. */
void sim_kill(group_sim *s, sim_process *p);
/* One step of one member.  False: it had nothing to do. */
bool sim_member_step(group_sim *s, sim_process *p, sim_member *m);

/* ---- people.c */
void sim_meddle(group_sim *s);
void sim_reset(group_sim *s);
/* What people do when all is to become well: they resume, and discard what a stream waits for. */
void sim_mend(group_sim *s);

#endif
