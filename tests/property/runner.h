/* runner.h - the inside of one run, shared by run.c and run_stores.c. */
#ifndef HW_TESTS_RUNNER_H
#define HW_TESTS_RUNNER_H

#include "run.h"

#define CHUNK 1000

/* What is remembered of each case. */
enum { IN_STORE = 1, BY_LINE = 2, ASKED_COMMAND = 4, UNREADABLE = 8, LINE_ONLY = 16 };

enum { SQLITE, PG, SQL, STORES };

typedef struct record {
    uint8_t flags;
    uint8_t before;
    uint8_t outcome;   /* of all faces; of append_batch() for LINE_ONLY */
    uint8_t sql_field; /* LINE_ONLY */
    uint32_t faults;
} record;

typedef struct runner {
    const options *o;
    findings *found;
    char dir[64];
    char schema[2][64];
    store stores[STORES];
    sql_face *sql;
    command_face *command;
    howdah_builder *builder;
    record *records; /* one a case */
    /* The present chunk. */
    uint64_t first;
    size_t n;
    candidate candidates[CHUNK];
    judgement judgements[CHUNK];
    howdah_event *events[CHUNK];
    hw_buf lines[CHUNK];
    sql_case cases[CHUNK];
} runner;

void runner_open(runner *r);
void runner_close(runner *r);
/* --tamper. */
void runner_tamper(const runner *r);
/* Reads a whole store and compares each event with its case. */
void runner_read_back(runner *r, store *s);
/* Notes a case that somebody disagrees about, once. */
void runner_note(runner *r, uint64_t number);

#endif
