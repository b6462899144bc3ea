/* times.c - times, headers and what an answer is worth; see times.h. */
#include "cli/out/times.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

#define HEADERS_BYTES_MAX ((size_t)1024 * 1024) /* above what the library takes */

/* Most times that people type have no fraction; six zeros would hide the rest. */
void cli_time_text(int64_t time_us, char ret_text[HOWDAH_TIME_SIZE])
{
    char *fraction;

    howdah_time_format(time_us, ret_text);
    fraction = strstr(ret_text, ".000000Z");
    if (fraction)
        memcpy(fraction, "Z", 2);
}

/* Only for an answer as of a moment: any other is of now. */
void cli_knowledge_note(cli_context *cli, const howdah_knowledge *knowledge)
{
    char known_at[HOWDAH_TIME_SIZE];

    if (knowledge->final || knowledge->known_at_us == HOWDAH_NO_TIME)
        return;
    cli_time_text(knowledge->known_at_us, known_at);
    cli_note(cli, "not final: what was known at %s can still grow%s%s", known_at,
             knowledge->waits_for[0] ? "; it waits for " : "", knowledge->waits_for);
}

/* ------------------------------------------------------------------ headers */

/* The same sentence for all that take --header. */
static int fail_pair(howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_MISUSE, "--header needs NAME=VALUE");
}

/* A name is copied, to end it at the "="; the value is used where it is. */
int cli_pairs_take(const cli_args *args, cli_pairs *pairs, howdah_error *reterr)
{
    const char *pair;
    size_t pos = 0;

    pairs->n = 0;
    while ((pair = cli_args_next(args, "header", &pos))) {
        const char *equals = strchr(pair, '=');
        char *name;

        if (!equals)
            return fail_pair(reterr);
        if (pairs->n == HOWDAH_QUERY_HEADERS_MAX)
            return hw_fail_field(reterr, HOWDAH_LIMIT, "header", "at most %d of them",
                                 HOWDAH_QUERY_HEADERS_MAX);
        name = hw_strndup(pair, (size_t)(equals - pair));
        if (!name)
            return hw_fail_no_memory(reterr);
        assert(pairs->n < HOWDAH_QUERY_HEADERS_MAX);
        pairs->names[pairs->n] = name;
        pairs->texts[2 * pairs->n] = name;
        pairs->texts[2 * pairs->n + 1] = equals + 1;
        pairs->n++;
    }
    return HOWDAH_OK;
}

void cli_pairs_done(cli_pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++)
        hw_free(pairs->names[i]);
    pairs->n = 0;
}

/* An empty buffer when there are no headers: the library tells that from {}. */
int cli_headers_json(const cli_args *args, hw_buf *out, howdah_error *reterr)
{
    const char *pair;
    size_t pos = 0;

    *out = (hw_buf)HW_BUF_INIT(HEADERS_BYTES_MAX);
    while ((pair = cli_args_next(args, "header", &pos))) {
        const char *equals = strchr(pair, '=');

        if (!equals)
            return fail_pair(reterr);
        if (!hw_utf8_valid(pair, strlen(pair)))
            return hw_fail_field(reterr, HOWDAH_INVALID, "headers", "not UTF-8");
        hw_buf_putc(out, out->len == 0 ? '{' : ',');
        hw_json_put_string(out, pair, (size_t)(equals - pair));
        hw_buf_putc(out, ':');
        hw_json_put_string(out, equals + 1, strlen(equals + 1));
    }
    if (out->len > 0)
        hw_buf_putc(out, '}');
    return hw_buf_check(out, reterr);
}
