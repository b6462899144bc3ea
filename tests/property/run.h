/* run.h - one run over a range of cases. */
#ifndef HW_TESTS_RUN_H
#define HW_TESTS_RUN_H

#include "property.h"

typedef struct options {
    uint64_t seed;
    uint64_t first;
    uint64_t cases;
    bool verbose; /* show every verdict */
    bool plants;  /* turn plant_face's verdict on plant_case round */
    face plant_face;
    uint64_t plant_case;
    bool tampers; /* change tamper_case in the store, and put a stray event there */
    uint64_t tamper_case;
    const char *pg_url;
    const char *command;
} options;

#define FINDINGS_MAX 10

typedef struct findings {
    uint64_t cases[FINDINGS_MAX]; /* cases that somebody disagrees about, each once */
    size_t n;
    uint64_t verdicts; /* disagreements */
    uint64_t losses;   /* accepted, and not come back as it was */
    uint64_t strays;   /* in a store, and must not be */
    uint64_t stored, refused, conflicts, lines_only;
    uint64_t asked_sql, asked_lines, asked_command;
} findings;

void run(const options *o, findings *ret_findings);

/* compare.c: NULL, or what is wrong with a face's verdict. */
const char *compare(const candidate *c, const judgement *j, face f, const verdict *v);
/* What is wrong between the generator's belief and the rules. */
const char *compare_beliefs(const candidate *c, const judgement *j);
/* A line that only a line can be: append_batch() and the command against each other. */
const char *compare_lines(bool unreadable, const verdict *sql, const verdict *command);
void print_verdict(face f, const verdict *v);

#endif
