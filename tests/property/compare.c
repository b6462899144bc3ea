/* compare.c - when two verdicts are the same. */
#include <inttypes.h>
#include <stdio.h>

#include "run.h"

static bool is_line_face(face f)
{
    return f == FACE_LINES || f == FACE_COMMAND;
}

static const char *compare_refusal(const candidate *c, const judgement *j, face f, const verdict *v)
{
    uint32_t allowed = j->faults;

    if (is_line_face(f) && candidate_line_unreadable(c))
        allowed |= BIT(F_NONE);
    if (!(allowed & BIT(v->field)))
        return "names a field that is not at fault";
    /* Bytes come as data_base64 in a line, but it is the payload that is too large. */
    if (!v->unordered && !is_line_face(f) && v->field != j->first)
        return "does not name the first field at fault";
    return NULL;
}

const char *compare(const candidate *c, const judgement *j, face f, const verdict *v)
{
    outcome wanted = j->outcome;

    if (v->outcome == NOT_ASKED)
        return f == FACE_SQL && j->outcome != REFUSED ? "cannot be said in SQL, yet is accepted"
                                                      : NULL;
    if (f == FACE_COMMAND && wanted == CONFLICT) /* --dry-run does not look at the stream */
        wanted = STORED;
    if (v->outcome == BROKEN)
        return "fails in a way it must not";
    if (v->outcome != wanted)
        return v->outcome == STORED    ? "accepts it"
               : v->outcome == REFUSED ? "refuses it"
                                       : "finds a conflict";
    if (wanted == CONFLICT && v->actual != c->before)
        return "names another version";
    return wanted == REFUSED ? compare_refusal(c, j, f, v) : NULL;
}

const char *compare_beliefs(const candidate *c, const judgement *j)
{
    if (j->faults & c->good)
        return "refuse a field that was made sound";
    if (c->bad & ~j->faults)
        return "accept a field that was made to break a rule";
    return NULL;
}

const char *compare_lines(bool unreadable, const verdict *sql, const verdict *command)
{
    outcome wanted = sql->outcome == CONFLICT ? STORED : sql->outcome;

    if (sql->outcome == BROKEN)
        return "append_batch() fails in a way it must not";
    if (command->outcome != wanted)
        return "append_batch() and the command differ";
    if (wanted == REFUSED && sql->field != command->field &&
        !(unreadable && (sql->field == F_NONE || command->field == F_NONE)))
        return "append_batch() and the command name different fields";
    return NULL;
}

void print_verdict(face f, const verdict *v)
{
    (void)printf("#   %-8s ", face_name(f));
    switch (v->outcome) {
    case NOT_ASKED:
        (void)printf("was not asked");
        break;
    case STORED:
        (void)printf("accepts");
        break;
    case REFUSED:
        (void)printf("refuses, for %s", field_name(v->field));
        break;
    case CONFLICT:
        (void)printf("conflict, version %" PRId64, v->actual);
        break;
    case BROKEN:
        (void)printf("broken");
        break;
    }
    (void)printf("%s%s\n", v->text[0] ? ": " : "", v->text);
}
