/*
 * run.c - one run: chunk by chunk every face is asked, then the stores are read back.
 *
 * Three buses: a SQLite file, a schema that the library writes to, and a schema that the SQL
 * functions write to.  While a server works on a question, the other faces are asked.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

#define SINGLES 32 /* of every 16th chunk are appended one by one */

/* -------------------------------------------------------------- disagreements */

void runner_note(runner *r, uint64_t number)
{
    findings *found = r->found;

    for (size_t i = 0; i < found->n; i++)
        if (found->cases[i] == number)
            return;
    if (found->n < FINDINGS_MAX)
        found->cases[found->n++] = number;
}

static void disagree(runner *r, uint64_t number, const char *who, const char *what)
{
    (void)printf("# case %" PRIu64 " of seed %" PRIu64 ": %s %s\n", number, r->o->seed, who, what);
    runner_note(r, number);
    r->found->verdicts++;
}

/* --plant. */
static void maybe_invert(const runner *r, uint64_t number, face f, verdict *v)
{
    if (!r->o->plants || r->o->plant_case != number || r->o->plant_face != f)
        return;
    v->field = F_STREAM;
    v->outcome = v->outcome == STORED ? REFUSED : STORED;
    (void)snprintf(v->text, sizeof v->text, "(planted)");
}

static void judge(runner *r, size_t i, face f)
{
    const candidate *c = &r->candidates[i];
    verdict *v = &r->judgements[i].by[f];
    const char *what;

    maybe_invert(r, c->number, f, v);
    if (r->o->verbose)
        print_verdict(f, v);
    if (c->line_only)
        return; /* compared when the command has answered */
    what = compare(c, &r->judgements[i], f, v);
    if (what)
        disagree(r, c->number, face_name(f), what);
}

/* ------------------------------------------------------------------- making */

static void make_case(runner *r, size_t i)
{
    candidate *c = &r->candidates[i];
    judgement *j = &r->judgements[i];
    const char *what;
    dice d;

    candidate_make(c, r->o->seed, r->first + i);
    r->events[i] = NULL;
    memset(j, 0, sizeof *j);
    if (!c->line_only) {
        judge_by_rules(c, j);
        judge_by_builder(c, r->builder, j, &r->events[i]);
    }
    if (r->o->verbose)
        candidate_print(c);
    if (!c->line_only) {
        judge(r, i, FACE_RULES);
        judge(r, i, FACE_BUILDER);
        what = compare_beliefs(c, j);
        if (what)
            disagree(r, c->number, "the rules", what);
    }
    r->lines[i].len_max = SIZE_MAX;
    dice_start(&d, ~r->o->seed, c->number);
    r->cases[i] = (sql_case){
        .c = c,
        .j = j,
        .line = candidate_line(c, &d, &r->lines[i]) ? &r->lines[i] : NULL,
        .alone = j->outcome == CONFLICT,
    };
}

static void remember_case(runner *r, size_t i)
{
    const candidate *c = &r->candidates[i];
    const judgement *j = &r->judgements[i];
    record *m = &r->records[c->number - r->o->first];

    *m = (record){.before = (uint8_t)c->before,
                  .outcome = (uint8_t)j->outcome,
                  .faults = j->faults,
                  .flags = c->line_only ? LINE_ONLY : 0};
    if (r->cases[i].line)
        m->flags |= ASKED_COMMAND;
    if (candidate_line_unreadable(c))
        m->flags |= UNREADABLE;
    r->found->lines_only += c->line_only;
    r->found->stored += !c->line_only && j->outcome == STORED;
    r->found->refused += !c->line_only && j->outcome == REFUSED;
    r->found->conflicts += !c->line_only && j->outcome == CONFLICT;
    r->found->asked_command += r->cases[i].line != NULL;
}

/* --------------------------------------------------------------- the library */

static void store_before(runner *r)
{
    static howdah_event *before[CHUNK * 4];
    verdict v;
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        for (unsigned k = 1; k <= r->candidates[i].before; k++)
            before[n++] = plain_event(&r->candidates[i], k);
    for (int s = 0; s < STORES; s++)
        if (append_all(&r->stores[s], before, n, &v) != n)
            die("%s: %s", r->stores[s].name, v.text);
    for (size_t i = 0; i < n; i++)
        howdah_event_free(before[i]);
}

/* What must not be stored, one by one; then the rest together. */
static void judge_by_store(runner *r, int which, face f)
{
    howdah_event *good[CHUNK] = {NULL};
    size_t good_case[CHUNK];
    size_t good_n = 0;
    size_t singles = r->first / CHUNK % 16 == 0 ? SINGLES : 0;
    size_t failed;
    store *s = &r->stores[which];
    verdict v = {.outcome = STORED};

    for (size_t i = 0; i < r->n; i++) {
        const candidate *c = &r->candidates[i];
        judgement *j = &r->judgements[i];

        if (c->line_only)
            continue;
        if (j->outcome == REFUSED && raw_event_possible(c)) {
            j->by[f] = judge_raw_by_append(s, c);
        } else if (j->outcome == CONFLICT || (r->events[i] && singles > 0)) {
            j->by[f] = judge_by_append(s, r->events[i]);
            singles -= singles > 0;
        } else if (j->outcome == STORED && r->events[i]) {
            good_case[good_n] = i;
            good[good_n++] = r->events[i];
            j->by[f].outcome = STORED;
        }
    }
    failed = append_all(s, good, good_n, &v);
    if (failed < good_n)
        r->judgements[good_case[failed]].by[f] = v;
    for (size_t i = 0; i < r->n; i++)
        judge(r, i, f);
}

/* -------------------------------------------------------------------- chunks */

/* append_batch() is slow: all that only a line can be, and a share of the rest. */
static void ask_lines(runner *r, sql_case *cases)
{
    memcpy(cases, r->cases, r->n * sizeof *cases);
    for (size_t i = 0; i < r->n; i++)
        if (!r->candidates[i].line_only && !r->o->verbose &&
            i % (r->judgements[i].outcome == STORED ? 16 : 4) != 0)
            cases[i].line = NULL;
    sql_ask_lines(r->sql, cases, r->n);
}

static void take_line_answers(runner *r, sql_case *cases)
{
    sql_answers(r->sql, cases, r->n);
    for (size_t i = 0; i < r->n; i++) {
        record *m = &r->records[r->candidates[i].number - r->o->first];
        const verdict *v = &r->judgements[i].by[FACE_LINES];

        judge(r, i, FACE_LINES);
        r->found->asked_lines += v->outcome != NOT_ASKED;
        if (!r->candidates[i].line_only)
            continue;
        m->outcome = (uint8_t)v->outcome;
        m->sql_field = (uint8_t)v->field;
        if (v->outcome == BROKEN)
            (void)printf("# case %" PRIu64 ": append_batch() says: %s\n", r->candidates[i].number,
                         v->text);
    }
}

static void store_list(runner *r, const sql_case *list, size_t n, bool by_lines)
{
    verdict v = {.outcome = STORED};
    size_t failed = sql_store(r->sql, list, n, by_lines, &v);

    r->stores[SQL].stored += (int64_t)failed;
    if (failed < n) {
        (void)printf("# %s\n", v.text);
        disagree(r, list[failed].c->number, "the SQL functions", "do not store it");
    }
}

/* Every other chunk goes through append_batch(), as far as it can be lines. */
static void store_by_sql(runner *r)
{
    bool odd = r->first / CHUNK % 2 == 1;
    static sql_case arrays[CHUNK];
    static sql_case lines[CHUNK];
    size_t arrays_n = 0;
    size_t lines_n = 0;

    for (size_t i = 0; i < r->n; i++) {
        record *m = &r->records[r->candidates[i].number - r->o->first];

        if (r->candidates[i].line_only || r->judgements[i].outcome != STORED)
            continue;
        m->flags |= IN_STORE;
        if (odd && r->cases[i].line) {
            m->flags |= BY_LINE;
            lines[lines_n++] = r->cases[i];
        } else {
            arrays[arrays_n++] = r->cases[i];
        }
    }
    store_list(r, arrays, arrays_n, false);
    store_list(r, lines, lines_n, true);
}

static void run_chunk(runner *r)
{
    static sql_case lines[CHUNK];

    for (size_t i = 0; i < r->n; i++) {
        make_case(r, i);
        remember_case(r, i);
    }
    store_before(r);
    sql_ask(r->sql, r->cases, r->n);
    for (size_t i = 0; i < r->n; i++)
        if (r->cases[i].line)
            command_send(r->command, &r->lines[i]);
    judge_by_store(r, SQLITE, FACE_SQLITE);
    sql_answers(r->sql, r->cases, r->n);
    for (size_t i = 0; i < r->n; i++) {
        judge(r, i, FACE_SQL);
        r->found->asked_sql += r->judgements[i].by[FACE_SQL].outcome != NOT_ASKED;
    }
    ask_lines(r, lines);
    judge_by_store(r, PG, FACE_PG);
    take_line_answers(r, lines);
    store_by_sql(r);
    for (size_t i = 0; i < r->n; i++)
        howdah_event_free(r->events[i]);
}

/* --------------------------------------------------------------- the command */

/* Its answers come last; by then the case itself is forgotten, but can be made again. */
static void judge_by_command(runner *r)
{
    size_t line = 0;

    command_finish(r->command);
    for (uint64_t i = 0; i < r->o->cases; i++) {
        const record *m = &r->records[i];
        uint64_t number = r->o->first + i;
        candidate *c = &r->candidates[0];
        judgement j = {.faults = m->faults, .outcome = (outcome)m->outcome};
        verdict v;
        const char *what;

        if (!(m->flags & ASKED_COMMAND))
            continue;
        v = command_verdict(r->command, line++);
        maybe_invert(r, number, FACE_COMMAND, &v);
        if (r->o->verbose)
            print_verdict(FACE_COMMAND, &v);
        if (m->flags & LINE_ONLY) {
            verdict sql = {.outcome = (outcome)m->outcome, .field = (field)m->sql_field};

            if (sql.outcome == NOT_ASKED)
                continue;
            what = compare_lines((m->flags & UNREADABLE) != 0, &sql, &v);
        } else if (v.outcome != (m->outcome == REFUSED ? REFUSED : STORED) ||
                   v.outcome == REFUSED) {
            candidate_make(c, r->o->seed, number);
            what = compare(c, &j, FACE_COMMAND, &v);
        } else {
            what = NULL;
        }
        if (what)
            disagree(r, number, face_name(FACE_COMMAND), what);
    }
}

void run(const options *o, findings *ret_findings)
{
    runner *r = calloc(1, sizeof *r);

    if (!r)
        die("no memory");
    r->o = o;
    r->found = ret_findings;
    runner_open(r);
    for (uint64_t done = 0; done < o->cases && r->found->n < FINDINGS_MAX; done += r->n) {
        r->first = o->first + done;
        r->n = o->cases - done < CHUNK ? (size_t)(o->cases - done) : CHUNK;
        run_chunk(r);
    }
    judge_by_command(r);
    if (o->tampers)
        runner_tamper(r);
    for (int s = 0; s < STORES; s++)
        runner_read_back(r, &r->stores[s]);
    runner_close(r);
    free(r);
}
