/* errors.c - what a SQLSTATE means to the caller, and what to do about it. */
#include <assert.h>
#include <string.h>

#include "store/pg/pg.h"

/* UH...  are raised by our own SQL functions. */
typedef struct state_row {
    const char *state; /* five characters, or a two-character class */
    int status;
    const char *advice;
} state_row;

/* Exact codes come before their class: the first row that fits decides. */
static const state_row states[] = {
    {"UH003", HOWDAH_CONFLICT, ""},
    {"UH004", HOWDAH_NOT_FOUND, ""},
    {"UH006", HOWDAH_INVALID, ""},
    {"UH007", HOWDAH_LOST, ""},
    {"UH008", HOWDAH_SCHEMA, "run: howdah migrate up"},
    {"UH009", HOWDAH_ID_REUSED, ""},
    {"08", HOWDAH_UNAVAILABLE, ""},
    {"22", HOWDAH_INVALID, ""},
    {"23", HOWDAH_INVALID, ""},
    {"25006", HOWDAH_READ_ONLY, "connect to the primary server, or use a writable transaction"},
    {"28", HOWDAH_DENIED, "check user and password of the store URL, and pg_hba.conf"},
    {"3D000", HOWDAH_UNAVAILABLE, "the database does not exist: create it with createdb"},
    {"3F000", HOWDAH_SCHEMA, "run: howdah init"},
    {"40", HOWDAH_UNAVAILABLE, ""},
    {"42501", HOWDAH_DENIED,
     "grant a role of this bus (..._publish, ..._read, ..._subscribe, ..._work, ..._admin) to the "
     "user"},
    {"42P01", HOWDAH_SCHEMA, "run: howdah init"},
    {"42883", HOWDAH_SCHEMA, "run: howdah init"},
    {"42703", HOWDAH_SCHEMA, "run: howdah init"},
    {"53100", HOWDAH_FULL, "make room on the database server's disk"},
    {"53300", HOWDAH_UNAVAILABLE,
     "the server has no connection left: raise max_connections or "
     "use fewer clients"},
    {"53", HOWDAH_UNAVAILABLE, ""},
    {"54", HOWDAH_LIMIT, ""},
    {"55P03", HOWDAH_TIMEOUT, ""},
    {"57014", HOWDAH_TIMEOUT, "raise statement_timeout, or look for a blocking session"},
    {"57P", HOWDAH_UNAVAILABLE, ""},
    {"58", HOWDAH_UNAVAILABLE, ""},
    {"XX001", HOWDAH_CORRUPT, "restore from a backup; see the server's log"},
    {"XX002", HOWDAH_CORRUPT, "rebuild the index; see the server's log"},
};

/* NULL: a code that nobody has thought of; the caller makes it FAILED. */
static const state_row *find(const char *sqlstate)
{
    assert(sqlstate);
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strncmp(states[i].state, sqlstate, strlen(states[i].state)) == 0)
            return &states[i];
    return NULL;
}

int hw_pg_status_of(const char *sqlstate)
{
    const state_row *row = find(sqlstate);

    return row ? row->status : HOWDAH_FAILED;
}

const char *hw_pg_advice_for(const char *sqlstate)
{
    const state_row *row = find(sqlstate);

    return row ? row->advice : "";
}
