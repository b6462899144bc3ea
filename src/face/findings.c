/* findings.c - see findings.h. */
#include "face/findings.h"

#include <assert.h>

/* In the order of howdah_severity. */
static void get_severity(const void *thing, face_value *v)
{
    static const char *const names[] = {"good", "warning", "bad"};
    const howdah_finding *finding = thing;

    assert((size_t)finding->severity < sizeof names / sizeof *names);
    v->text = hw_str_of(names[finding->severity]);
}

#define AT(member) FACE_AT(howdah_finding, member)

static const face_field fields[] = {
    {"severity", FACE_WORD, .get = get_severity},
    {"check", FACE_STRING, AT(check)},
    {"message", FACE_STRING, AT(message)},
    {"advice", FACE_STRING, AT(advice)},
    {.name = NULL},
};

const face_entity face_finding = {fields, .json = "severity check message advice"};
