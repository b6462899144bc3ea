/*
 * property.h - one verdict on every face.
 *
 * A case is an event that somebody might want to append, made near the edges of the rules.  A case
 * is a function of (seed, number) alone, so that any of them can be made again, alone.  Every face
 * is asked what it thinks of it:
 *
 *   rules     src/engine/rules.c, field by field: which fields are at fault
 *   builder   howdah_builder_...()
 *   sqlite    howdah_append() on a SQLite file
 *   pg        howdah_append() on PostgreSQL, as the owner
 *   sql       event_problem() and append_arrays() with typed parameters
 *   lines     append_batch() with the case as a JSON object
 *   command   howdah append --batch --dry-run with the same JSON line
 *
 *   I1  All accept it, or all refuse it and each names a field that is at fault.
 *   I2  What is accepted comes back from every store to the letter; what is refused is nowhere.
 *   I3  Where the generator knows what must come out, that comes out.
 */
#ifndef HW_TESTS_PROPERTY_H
#define HW_TESTS_PROPERTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/str.h"

/* Small, so that its edge is cheap to reach. */
#define PAYLOAD_MAX 4096

#define FIELDS(X)                                                                                  \
    X(STREAM, "stream")                                                                            \
    X(TYPE, "type")                                                                                \
    X(DATA, "data")                                                                                \
    X(DATA_BASE64, "data_base64")                                                                  \
    X(CONTENT_TYPE, "content_type")                                                                \
    X(HEADERS, "headers")                                                                          \
    X(CORRELATION, "correlation_id")                                                               \
    X(ACTOR, "actor")                                                                              \
    X(ID, "id")                                                                                    \
    X(CAUSATION, "causation_id")                                                                   \
    X(VALID_TIME, "valid_time")                                                                    \
    X(SCHEMA_VERSION, "schema_version")                                                            \
    X(EXPECTED, "expected_version")                                                                \
    X(CORRECTS, "corrects")                                                                        \
    X(REASON, "reason")

typedef enum field {
#define FIELD_ENUM(name, text) F_##name,
    FIELDS(FIELD_ENUM)
#undef FIELD_ENUM
        F_NONE, /* no field is named, or one that events do not have */
    FIELD_COUNT
} field;

#define BIT(f) (1u << (f))

const char *field_name(field f);
/* The field that a face named; the command says "expect" for F_EXPECTED. */
field field_of(hw_str name);

/* ---- dice.c: chance that can be repeated */

typedef struct dice {
    uint64_t state;
} dice;

void dice_start(dice *d, uint64_t seed, uint64_t number);
uint64_t dice_u64(dice *d);
/* 0 .. n - 1 */
uint32_t dice_below(dice *d, uint32_t n);
bool dice_percent(dice *d, uint32_t percent);
#define DICE_PICK(d, array) ((array)[dice_below((d), sizeof(array) / sizeof(array)[0])])

/* ---- gen_text.c, gen_json.c, gen_headers.c: values near the edges */

/* What the generator knows about a value: it is its own, second opinion (I3). */
typedef enum belief { UNSURE, GOOD, BAD } belief;

void put_code_point(hw_buf *out, uint32_t c);
belief gen_name(dice *d, hw_buf *out);
belief gen_type(dice *d, hw_buf *out);
belief gen_content_type(dice *d, hw_buf *out);
belief gen_uuid_text(dice *d, const char *own, hw_buf *out);
belief gen_time_text(dice *d, hw_buf *out);

/* Pieces of documents: a string, perhaps a blank; and one change that may break what is there. */
void put_sound_string(dice *d, hw_buf *out);
void put_space(dice *d, hw_buf *out);
void break_document(dice *d, hw_buf *out);

/* A sound document, and one near an edge. */
void gen_plain_json(dice *d, hw_buf *out);
belief gen_json(dice *d, hw_buf *out);
belief gen_headers(dice *d, hw_buf *out);

/* ---- gen_case.c */

typedef struct text {
    hw_buf buf;
    bool has;
} text;

#define PAIRS_MAX 3

typedef struct candidate {
    uint64_t number;
    text stream, type, data, content_type, headers, correlation, actor;
    text id, causation;
    text valid_time; /* as text; without it, the number below counts */
    bool has_valid_time_us;
    int64_t valid_time_us;
    bool has_schema_version;
    int64_t schema_version;
    bool expects;
    int64_t expected;
    unsigned before;   /* events that are in its stream before it */
    bool header_pairs; /* for howdah_builder_add_header(); headers is the same as text */
    text pair_name[PAIRS_MAX], pair_value[PAIRS_MAX];
    size_t pairs_n;
    bool line_only; /* only a JSON line can say this: one member is replaced by raw text */
    text raw_member, raw_value;
    uint32_t good, bad; /* bits of fields: what the generator believes */
} candidate;

void candidate_done(candidate *c);
void candidate_make(candidate *c, uint64_t seed, uint64_t number);
/* The case for people. */
void candidate_print(const candidate *c);
/* The id of its kth event before (1 ..), or of itself (0); the way back. */
void candidate_id(uint64_t number, unsigned k, char ret_uuid[HOWDAH_UUID_SIZE]);
bool candidate_of_id(const char *uuid, uint64_t *ret_number, unsigned *ret_k);

/* Its valid time; false when that is no time. */
bool candidate_time(const candidate *c, int64_t *ret_us);

/* The case as a JSON line for the command and append_batch(); false when it cannot be one. */
bool candidate_line(const candidate *c, dice *d, hw_buf *out);
/* The line is not even JSON: nobody can say which field is to blame. */
bool candidate_line_unreadable(const candidate *c);

/* ---- verdicts */

#define FACES(X)                                                                                   \
    X(RULES, "rules")                                                                              \
    X(BUILDER, "builder")                                                                          \
    X(SQLITE, "sqlite")                                                                            \
    X(PG, "pg")                                                                                    \
    X(SQL, "sql")                                                                                  \
    X(LINES, "lines")                                                                              \
    X(COMMAND, "command")

typedef enum face {
#define FACE_ENUM(name, text) FACE_##name,
    FACES(FACE_ENUM)
#undef FACE_ENUM
        FACE_COUNT
} face;

typedef enum outcome {
    NOT_ASKED, /* the case cannot be said to this face */
    STORED,
    REFUSED,
    CONFLICT,
    BROKEN /* the face failed in a way it must not */
} outcome;

typedef struct verdict {
    outcome outcome;
    field field;    /* of REFUSED */
    bool unordered; /* the field need not be the first at fault */
    int64_t actual; /* of CONFLICT */
    char text[200];
} verdict;

typedef struct judgement {
    uint32_t faults;    /* bits: fields that break a rule */
    field first;        /* the first of them in the order of hw_rule_event(), or F_NONE */
    outcome outcome;    /* what must come out */
    bool cannot_be_sql; /* what it is made of cannot reach SQL */
    verdict by[FACE_COUNT];
} judgement;

const char *face_name(face f);

/* ---- face_c.c: rules, builder and both stores */

typedef struct store {
    const char *name;
    howdah_bus *bus;
    int64_t stored; /* how many events must be in it */
} store;

void judge_by_rules(const candidate *c, judgement *j);
/* ret_event is NULL when refused. */
void judge_by_builder(const candidate *c, howdah_builder *builder, judgement *j,
                      howdah_event **ret_event);
/* Appends alone, past the builder's checks when unbuilt is given. */
verdict judge_by_append(store *s, const howdah_event *event);
bool raw_event_possible(const candidate *c);
verdict judge_raw_by_append(store *s, const candidate *c);
howdah_event *plain_event(const candidate *c, unsigned k);
/* Appends all at once, or finds the one that is refused: its index, or n. */
size_t append_all(store *s, howdah_event *const *events, size_t n, verdict *ret_verdict);
/* NULL, or the name of the field that did not come back. */
const char *differs_from_case(const howdah_event *event, const candidate *c, bool trimmed);

/* ---- face_sql.c: the SQL functions, with the bus in a schema of its own */

typedef struct sql_face sql_face;
typedef struct sql_case {
    const candidate *c;
    judgement *j;
    const hw_buf *line; /* NULL: none */
    bool alone;         /* to be appended alone, because it must not be stored */
} sql_case;

sql_face *sql_open(const char *url, const char *schema);
void sql_close(sql_face *s);
/* Sends the question about all that can be asked; sql_answers() fills the judgements. */
void sql_ask(sql_face *s, const sql_case *cases, size_t n);
/* The same for append_batch(), about those that have a line. */
void sql_ask_lines(sql_face *s, const sql_case *cases, size_t n);
void sql_answers(sql_face *s, sql_case *cases, size_t n);
/* Stores by append_arrays(), or by append_batch(); the index of the refused one, or n. */
size_t sql_store(sql_face *s, const sql_case *cases, size_t n, bool by_lines, verdict *ret_verdict);

/* ---- face_command.c: one process */

typedef struct command_face command_face;

command_face *command_open(const char *path);
void command_send(command_face *s, const hw_buf *line);
/* Ends it; verdicts are then there by the number of the line (0 ..). */
void command_finish(command_face *s);
verdict command_verdict(const command_face *s, size_t line);
void command_close(command_face *s);

/* Ends the program: the test itself cannot go on. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
