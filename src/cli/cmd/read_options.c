/*
 * read_options.c - the options of "howdah read", and which of them go together.
 *
 * Which options go together is checked before their values are parsed, except for --id and --last,
 * which are checked at the end: so a range that is no number is reported first.
 */
#include <assert.h>
#include <string.h>

#include "cli/cmd/read.h"

static const char *const as_of_options[] = {"valid-at", "known-at", "current", NULL};
/* The forms of the answer other than events. */
static const char *const forms[] = {"count", "stats", "streams", NULL};

/* ------------------------------------------------------------- combinations */

/* The first of the names that is given; NULL: none. */
static const char *given_of(const cli_args *args, const char *const *names)
{
    for (; *names; names++)
        if (cli_args_has(args, *names))
            return *names;
    return NULL;
}

/* The first option that makes it a query; NULL: none does. */
static const char *query_option(const cli_args *args)
{
    static const char *const names[] = {
        "versions",     "originals",     "causation",       "header", "valid-from",
        "valid-before", "recorded-from", "recorded-before", "order",  NULL};

    const char *given = given_of(args, as_of_options);

    if (!given)
        given = given_of(args, forms);
    return given ? given : given_of(args, names);
}

/* The two options in the order in which the check names them. */
static int fail_both(const char *one, const char *other, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_MISUSE, "--%s and --%s exclude each other", one, other);
}

/* A query has no positions: its order may be another than that of the log. */
static int check_positions(const cli_args *args, howdah_error *reterr)
{
    static const char *const positions[] = {"from", "to", "since", "id", "last", NULL};
    const char *given = given_of(args, positions);
    const char *query = query_option(args);
    int s;

    if (!given || !query)
        return HOWDAH_OK;
    s = hw_fail(reterr, HOWDAH_MISUSE, "--%s does not go with --%s", given, query);
    if (strcmp(given, "id") == 0)
        return hw_advise(reterr, s, "--versions UUID shows all revisions of that event");
    if (strcmp(given, "last") == 0)
        return given_of(args, forms) ? s : hw_advise(reterr, s, "--backward --limit 1 gives it");
    return hw_advise(reterr, s, "--recorded-from and --recorded-before choose by time");
}

/* --versions names all there is to see. */
static int check_versions(const cli_args *args, howdah_error *reterr)
{
    static const char *const others[] = {"stream",        "type",
                                         "pattern",       "correlation",
                                         "valid-at",      "known-at",
                                         "current",       "originals",
                                         "causation",     "header",
                                         "valid-from",    "valid-before",
                                         "recorded-from", "recorded-before",
                                         "order",         "stats",
                                         "streams",       NULL};
    const char *given = given_of(args, others);

    if (!given || !cli_args_has(args, "versions"))
        return HOWDAH_OK;
    return hw_advise(reterr, fail_both("versions", given, reterr),
                     "--versions prints every revision of one event; --backward, --limit and "
                     "--count go with it");
}

/* One form of answer at a time, and types and streams have an order of their own. */
static int check_forms(const cli_args *args, howdah_error *reterr)
{
    static const char *const of_types[] = {"order", "backward", "limit", NULL};
    static const char *const of_streams[] = {"order", "backward", NULL};
    const char *form = given_of(args, forms);
    const char *given = NULL;

    if (!form)
        return HOWDAH_OK;
    for (size_t i = 0; forms[i]; i++)
        if (cli_args_has(args, forms[i]) && strcmp(forms[i], form) != 0)
            return fail_both(form, forms[i], reterr);
    if (strcmp(form, "stats") == 0)
        given = given_of(args, of_types);
    else if (strcmp(form, "streams") == 0)
        given = given_of(args, of_streams);
    return given ? fail_both(form, given, reterr) : HOWDAH_OK;
}

/* The order of the checks decides which of several mistakes is reported. */
static int check_query(const cli_args *args, howdah_error *reterr)
{
    const char *as_of = given_of(args, as_of_options);
    int s = check_positions(args, reterr);

    if (s == HOWDAH_OK)
        s = check_versions(args, reterr);
    if (s == HOWDAH_OK && as_of && cli_args_has(args, "originals"))
        s = fail_both("originals", as_of, reterr);
    if (s == HOWDAH_OK && cli_args_has(args, "current") && cli_args_has(args, "known-at"))
        s = fail_both("current", "known-at", reterr);
    return s == HOWDAH_OK ? check_forms(args, reterr) : s;
}

/* --id and --last name one event, so nothing else may choose. */
static int check_one(const cli_args *args, howdah_error *reterr)
{
    static const char *const choosing[] = {"from", "to",          "since",    "limit", "pattern",
                                           "type", "correlation", "backward", NULL};
    bool stream = cli_args_has(args, "stream");
    bool last = cli_args_has(args, "last");
    bool id = cli_args_has(args, "id");

    if (last && !stream)
        return hw_fail(reterr, HOWDAH_MISUSE, "--last needs --stream");
    if (id && (stream || given_of(args, choosing)))
        return hw_fail(reterr, HOWDAH_MISUSE, "--id names one event: no other choice goes with it");
    if (last && given_of(args, choosing))
        return hw_fail(reterr, HOWDAH_MISUSE, "--last names one event: only --stream goes with it");
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------- values */

/* Each option fills its own field; what is not given stays open. */
static int take_times(const cli_args *args, howdah_query_options *o, howdah_error *reterr)
{
    const struct {
        const char *option;
        int64_t *time_us;
    } times[] = {
        {"valid-at", &o->valid_at_us},           {"known-at", &o->known_at_us},
        {"valid-from", &o->valid_from_us},       {"valid-before", &o->valid_before_us},
        {"recorded-from", &o->recorded_from_us}, {"recorded-before", &o->recorded_before_us},
    };

    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int s = cli_args_time(args, times[i].option, times[i].time_us, reterr);

        if (s < 0)
            return s;
    }
    return HOWDAH_OK;
}

/* --from, --to, --since: in the library 0 means "open", here it is a position like any other. */
static int take_range(const cli_args *args, cli_read *r, howdah_error *reterr)
{
    int64_t since = 0;
    int64_t to = HOWDAH_ABSENT;
    int s = cli_args_number(args, "from", 0, INT64_MAX, &r->from, reterr);

    if (s == HOWDAH_OK)
        s = cli_args_number(args, "to", 0, INT64_MAX, &to, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "since", 0, INT64_MAX, &since, reterr);
    if (s < 0)
        return s;
    if (cli_args_has(args, "since")) {
        if (cli_args_has(args, "from"))
            return fail_both("since", "from", reterr);
        r->nothing = since == INT64_MAX;
        r->from = r->nothing ? since : since + 1;
    }
    if (to != HOWDAH_ABSENT) {
        r->nothing = r->nothing || to == 0 || to < r->from;
        r->to = to;
    }
    return HOWDAH_OK;
}

/* The choices of --order stand in the order of the library's values. */
static int take_order_and_limit(const cli_args *args, cli_read *r, howdah_error *reterr)
{
    int order = (int)r->query.order;
    int64_t limit = HOWDAH_ABSENT;
    int s = cli_args_choice(args, "order", &order, reterr);

    if (s == HOWDAH_OK)
        s = cli_args_number(args, "limit", 0, INT64_MAX, &limit, reterr);
    r->query.order = (howdah_order)order;
    r->nothing = r->nothing || limit == 0; /* the library's 0 is no limit */
    if (limit != HOWDAH_ABSENT)
        r->query.limit = limit;
    return s;
}

/* The checks have not run yet: of several forms the first is taken, and then refused. */
static cli_read_form form_of(const cli_args *args)
{
    if (cli_args_has(args, "id") || cli_args_has(args, "last"))
        return CLI_READ_ONE;
    if (cli_args_has(args, "count"))
        return CLI_READ_COUNT;
    if (cli_args_has(args, "stats"))
        return CLI_READ_TYPES;
    return cli_args_has(args, "streams") ? CLI_READ_STREAMS : CLI_READ_EVENTS;
}

/* A text that is not given is NULL, which the library takes as no choice. */
static void take_texts(const cli_args *args, howdah_query_options *o)
{
    if (given_of(args, as_of_options))
        o->view = HOWDAH_VIEW_AS_OF;
    else if (cli_args_has(args, "originals"))
        o->view = HOWDAH_VIEW_ORIGINALS;
    o->stream = cli_args_text(args, "stream");
    o->type = cli_args_text(args, "type");
    o->pattern = cli_args_text(args, "pattern");
    o->correlation_id = cli_args_text(args, "correlation");
    o->causation_id = cli_args_text(args, "causation");
    o->family = cli_args_text(args, "versions");
    o->backward = cli_args_has(args, "backward");
}

/* For a plain read the checks and values of queries find nothing, and the other way round. */
int cli_read_parse(const cli_args *args, cli_read *ret_read, howdah_error *reterr)
{
    cli_read *r = ret_read;
    int s;

    *r = (cli_read){.form = form_of(args),
                    .is_query = query_option(args) != NULL,
                    .query = HOWDAH_QUERY_OPTIONS_INIT,
                    .id = cli_args_text(args, "id")};
    take_texts(args, &r->query);
    s = cli_args_words(args, 0, 0, reterr);
    if (s == HOWDAH_OK)
        s = check_query(args, reterr);
    if (s == HOWDAH_OK)
        s = take_times(args, &r->query, reterr);
    if (s == HOWDAH_OK)
        s = take_range(args, r, reterr);
    if (s == HOWDAH_OK)
        s = take_order_and_limit(args, r, reterr);
    if (s == HOWDAH_OK)
        s = cli_pairs_take(args, &r->headers, reterr);
    if (s == HOWDAH_OK)
        s = check_one(args, reterr);
    r->query.headers = r->headers.texts;
    r->query.headers_n = r->headers.n;
    assert(s < 0 || !r->is_query || (r->from == 0 && r->to == 0 && r->form != CLI_READ_ONE));
    return s;
}

/* Everything else points into argv. */
void cli_read_done(cli_read *read)
{
    cli_pairs_done(&read->headers);
}
