/* store.c - the way in: a URL chooses the engine. */
#include "store/store.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text.h"

typedef enum engine { ENGINE_PG, ENGINE_SQLITE, ENGINE_UNKNOWN } engine;

/* Schemes of URLs are written in any case. */
static bool starts_with(const char *text, const char *prefix)
{
    return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

/*
 * "key = value": what libpq takes as a connection string.  In a URL the first word ends with a
 * colon.
 */
static bool is_conninfo(const char *url)
{
    size_t word = strspn(url, "abcdefghijklmnopqrstuvwxyz_");

    return word > 0 && url[word + strspn(url + word, " \t")] == '=';
}

static engine choose(const char *url)
{
    if (starts_with(url, "postgres://") || starts_with(url, "postgresql://"))
        return ENGINE_PG;
    if (starts_with(url, "sqlite:"))
        return ENGINE_SQLITE;
    return is_conninfo(url) ? ENGINE_PG : ENGINE_UNKNOWN;
}

/* The URL itself is not quoted: it may hold a password. */
static int refuse(const char *url, howdah_error *reterr)
{
    int s = hw_fail_field(reterr, HOWDAH_INVALID, "store", "no known scheme in a URL of %zu bytes",
                          strlen(url));
    return hw_advise(reterr, s,
                     "use postgres://user@host/db, \"host=... dbname=...\", sqlite:FILE or "
                     "sqlite::memory:");
}

int hw_store_open(const hw_config *config, hw_store **ret_store, howdah_error *reterr)
{
    switch (choose(config->url)) {
    case ENGINE_PG:
        return hw_pg_open(config, ret_store, reterr);
    case ENGINE_SQLITE:
        return hw_sqlite_open(config, ret_store, reterr);
    case ENGINE_UNKNOWN:
        break;
    }
    return refuse(config->url, reterr);
}

/* Some hundred kilobytes of SQL; the limit only stops a runaway. */
#define PRINT_BYTES_MAX (16 * 1024 * 1024)

/* *ret_sql is the caller's, freed with hw_free(); no connection is made. */
int hw_store_print(const hw_config *config, char **ret_sql, howdah_error *reterr)
{
    hw_buf out = HW_BUF_INIT(PRINT_BYTES_MAX);
    int s;

    switch (choose(config->url)) {
    case ENGINE_PG:
        s = hw_pg_print(config, &out, reterr);
        break;
    case ENGINE_SQLITE:
        s = hw_sqlite_print(config, &out, reterr);
        break;
    default:
        return refuse(config->url, reterr);
    }
    if (s >= 0)
        s = hw_buf_check(&out, reterr);
    if (s >= 0)
        *ret_sql = hw_buf_take(&out);
    hw_buf_done(&out);
    return s;
}

/* An atomic load: a signal handler, or another thread, sets it at any time. */
bool hw_interrupted(const hw_interrupt *interrupt)
{
    return interrupt && atomic_load(&interrupt->raised);
}

/* As they are stored in both engines and shown to users. */
static const char *const dead_letter_states[] = {[HW_DEAD_LETTER_DEAD] = "dead",
                                                 [HW_DEAD_LETTER_REDRIVE] = "redrive",
                                                 [HW_DEAD_LETTER_REDRIVEN] = "redriven",
                                                 [HW_DEAD_LETTER_DISCARDED] = "discarded"};

const char *hw_dead_letter_state_name(hw_dead_letter_state state)
{
    assert(state <= HW_DEAD_LETTER_DISCARDED);
    return dead_letter_states[state];
}

bool hw_dead_letter_state_of(hw_str name, hw_dead_letter_state *ret_state)
{
    for (int i = HW_DEAD_LETTER_DEAD; i <= HW_DEAD_LETTER_DISCARDED; i++) {
        if (hw_str_equal(name, hw_str_of(dead_letter_states[i]))) {
            *ret_state = (hw_dead_letter_state)i;
            return true;
        }
    }
    return false;
}
