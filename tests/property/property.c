/*
 * property.c - makes cases, asks every face, compares.
 *
 *   property [--seed N] [--cases N] [--case N] [--plant FACE:N] [--tamper N]
 *
 * A disagreement is printed with its case, then that case is run again, alone, and every face's
 * verdict is shown.  To see that all this is noticed, --plant turns one verdict round, and --tamper
 * changes the payload of a stored case and puts an event there that nobody appended.  Needs
 * HOWDAH_TEST_PG (tools/with-pg) and HOWDAH, the command.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "run.h"

#define SEED_DEFAULT 20260131
#define CASES_DEFAULT 100000
#define EXPLAIN_MAX 3

void die(const char *fmt, ...)
{
    va_list args;

    (void)fflush(stdout);
    (void)fputs("Bail out! ", stdout);
    va_start(args, fmt);
    (void)vprintf(fmt, args);
    va_end(args);
    (void)putchar('\n');
    exit(2);
}

/* ------------------------------------------------------------------------ names */

static const char *const field_names[FIELD_COUNT] = {
#define FIELD_NAME(name, text) text,
    FIELDS(FIELD_NAME)
#undef FIELD_NAME
        "no field"};

static const char *const face_names[FACE_COUNT] = {
#define FACE_NAME(name, text) text,
    FACES(FACE_NAME)
#undef FACE_NAME
};

const char *field_name(field f)
{
    return field_names[f];
}

const char *face_name(face f)
{
    return face_names[f];
}

field field_of(hw_str name)
{
    for (int f = 0; f < F_NONE; f++)
        if (hw_str_equal(name, hw_str_of(field_names[f])))
            return (field)f;
    return hw_str_equal(name, HW_STR_LIT("expect")) ? F_EXPECTED : F_NONE;
}

/* -------------------------------------------------------------------- arguments */

static uint64_t number_of(const char *word)
{
    char *end;
    uint64_t value = strtoull(word ? word : "", &end, 10);

    if (!word || end == word || *end)
        die("a number is needed, not %s", word ? word : "nothing");
    return value;
}

static void parse_plant(const char *word, options *o)
{
    const char *colon = word ? strchr(word, ':') : NULL;

    if (!colon)
        die("--plant needs FACE:NUMBER");
    o->plants = true;
    o->plant_case = number_of(colon + 1);
    for (int f = 0; f < FACE_COUNT; f++)
        if (hw_str_equal((hw_str){word, (size_t)(colon - word)}, hw_str_of(face_names[f]))) {
            o->plant_face = (face)f;
            return;
        }
    die("no such face: %s", word);
}

static void parse_arguments(int argc, char **argv, options *o)
{
    *o = (options){.seed = SEED_DEFAULT, .cases = CASES_DEFAULT};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--seed") == 0) {
            o->seed = number_of(value);
        } else if (strcmp(argv[i], "--cases") == 0) {
            o->cases = number_of(value);
        } else if (strcmp(argv[i], "--case") == 0) {
            o->first = number_of(value);
            o->cases = 1;
            o->verbose = true;
        } else if (strcmp(argv[i], "--plant") == 0) {
            parse_plant(value, o);
        } else if (strcmp(argv[i], "--tamper") == 0) {
            o->tampers = true;
            o->tamper_case = number_of(value);
        } else {
            die("unknown argument %s", argv[i]);
        }
    }
    o->pg_url = getenv("HOWDAH_TEST_PG");
    o->command = getenv("HOWDAH");
    if (!o->pg_url || !o->command)
        die("HOWDAH_TEST_PG and HOWDAH must be set: run inside tools/with-pg");
}

/* ------------------------------------------------------------------------- main */

static void say(int number, bool good, const char *sentence)
{
    (void)printf("%s %d - %s\n", good ? "ok" : "not ok", number, sentence);
}

/* Runs a case alone and shows what every face says. */
static void explain(const options *o, const char *program, uint64_t number)
{
    options alone = *o;
    findings found = {.n = 0};

    alone.first = number;
    alone.cases = 1;
    alone.verbose = true;
    (void)printf("# case %" PRIu64 " of seed %" PRIu64 " alone:\n", number, o->seed);
    run(&alone, &found);
    (void)printf("# to repeat: HOWDAH=%s tools/with-pg %s --seed %" PRIu64 " --case %" PRIu64,
                 o->command, program, o->seed, number);
    if (o->plants)
        (void)printf(" --plant %s:%" PRIu64, face_name(o->plant_face), o->plant_case);
    if (o->tampers)
        (void)printf(" --tamper %" PRIu64, o->tamper_case);
    (void)putchar('\n');
}

int main(int argc, char **argv)
{
    findings found = {.n = 0};
    int64_t start_ms = hw_clock_mono_ms();
    options o;

    parse_arguments(argc, argv, &o);
    (void)printf("1..3\n");
    run(&o, &found);
    say(1, found.verdicts == 0, "every face comes to the same verdict on every case");
    say(2, found.losses == 0, "what is accepted comes back from every store to the letter");
    say(3, found.strays == 0, "what is refused is in no store");
    (void)printf("# seed %" PRIu64 ", %" PRIu64 " cases: %" PRIu64 " stored, %" PRIu64
                 " refused, %" PRIu64 " in conflict, %" PRIu64 " only as lines; %" PRIu64
                 " asked of the SQL functions, %" PRIu64 " of append_batch, %" PRIu64
                 " of the command; %.1f s\n",
                 o.seed, o.cases, found.stored, found.refused, found.conflicts, found.lines_only,
                 found.asked_sql, found.asked_lines, found.asked_command,
                 (double)(hw_clock_mono_ms() - start_ms) / 1000);
    if (!o.verbose)
        for (size_t i = 0; i < found.n && i < EXPLAIN_MAX; i++)
            explain(&o, argv[0], found.cases[i]);
    return found.verdicts + found.losses + found.strays == 0 ? 0 : 1;
}
