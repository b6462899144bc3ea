/*
 * times_query.c - a query of the two times, page by page.
 *
 *   I1  In the order of the log a page is one call of query_page() after the last sequence.
 *   I2  In another order, or where a range of times is all that leads to the rows, keys come first:
 *       up to KEYS_MAX of (time, sequence) after the last key, sorted by the server once; then
 *       their rows by sequence, page by page.  Reading n rows takes about n / KEYS_MAX scans, and
 *       no more memory than that many keys.
 *   I3  Keys and pages are asked for by position (times.h I4): any connection will do.
 *   I4  A query as of some time looks at what was there when it was opened, if that could still
 *       grow.  No family comes twice, or is left out, because it is corrected between two pages;
 *       not even by a correction with a lower number that was being written already.  The server
 *       says what to look at (query_pin()), and only the server interprets it.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "engine/pattern.h"
#include "store/pg/pg.h"

#define KEYS_MAX 50000
#define ARRAYS_BYTES_MAX ((size_t)16 * 1024 * 1024)

enum key_column { KEY_TIME, KEY_SEQUENCE };

struct hw_pg_times_query {
    hw_times_query q; /* its texts are in here, its sets are in arrays */
    hw_buf texts;
    hw_buf arrays; /* families, names and values of headers */
    hw_pg_arrays sets;
    bool keys_first; /* I2 */
    hw_buf pin;      /* I4; an array as it came, empty: all */
    /* The key after which the next page, or the next keys, begin. */
    bool begun;
    int64_t after_time; /* as the server counts; of keys only */
    int64_t after_sequence;
    /* I2 */
    PGresult *keys;
    int keys_at;
    bool keys_end; /* there are none after those in hand */
    hw_buf page;   /* the sequences of a page */
};

/* ------------------------------------------------------------------- copies */

/* The buffer may move while it grows: first the bytes, then the places. */
static void keep_texts(hw_pg_times_query *query)
{
    hw_times_query *q = &query->q;
    hw_str *const texts[] = {&q->stream, &q->type, &q->pattern, &q->correlation_id};
    size_t at = 0;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        hw_buf_put(&query->texts, texts[i]->s, texts[i]->len);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i]->s)
            texts[i]->s = query->texts.data ? query->texts.data + at : "";
        at += texts[i]->len;
    }
}

/* As the parameters that they will be; absent ones are skipped, and travel as NULL. */
static void keep_sets(hw_pg_times_query *query, const hw_times_query *q)
{
    hw_pg_arrays *sets = &query->sets;
    hw_pg_array array;

    sets->out = &query->arrays;
    if (q->families) {
        hw_pg_arrays_begin(sets, HW_OID_UUID, q->families_n, &array);
        for (size_t i = 0; i < q->families_n; i++)
            hw_pg_array_put(sets->out, q->families[i].b, sizeof q->families[i].b);
    } else {
        hw_pg_arrays_skip(sets);
    }
    if (q->headers_n == 0) {
        hw_pg_arrays_skip(sets);
        hw_pg_arrays_skip(sets);
        return;
    }
    hw_pg_arrays_begin(sets, HW_OID_TEXT, q->headers_n, &array);
    for (size_t i = 0; i < q->headers_n; i++)
        hw_pg_array_put(sets->out, q->headers[i].name.s, q->headers[i].name.len);
    hw_pg_arrays_begin(sets, HW_OID_TEXT, q->headers_n, &array);
    for (size_t i = 0; i < q->headers_n; i++)
        hw_pg_array_put(sets->out, q->headers[i].value.s, q->headers[i].value.len);
}

static bool is_span(hw_time_span span)
{
    return span.from != HW_TIME_ABSENT || span.before != HW_TIME_ABSENT;
}

/* I2.  query_page() has the same condition: the two must agree. */
static bool needs_keys(const hw_times_query *q)
{
    bool led = q->stream.s || q->type.s || q->correlation_id.s || q->has_causation;

    assert(q->type.s || !hw_pattern_is_exact(q->pattern));
    return q->order != HOWDAH_ORDER_SEQUENCE || q->families ||
           (!led && (is_span(q->valid) || is_span(q->recorded)));
}

int hw_pg_times_query_new(const hw_times_query *q, hw_pg_times_query **ret_query,
                          howdah_error *reterr)
{
    hw_pg_times_query *query = hw_calloc(1, sizeof *query);
    int s;

    if (!query)
        return hw_fail_no_memory(reterr);
    query->q = *q;
    query->texts = (hw_buf)HW_BUF_INIT(ARRAYS_BYTES_MAX);
    query->arrays = (hw_buf)HW_BUF_INIT(ARRAYS_BYTES_MAX);
    query->page = (hw_buf)HW_BUF_INIT(ARRAYS_BYTES_MAX);
    query->keys_first = needs_keys(&query->q);
    query->pin = (hw_buf)HW_BUF_INIT(ARRAYS_BYTES_MAX);
    keep_texts(query);
    keep_sets(query, q);
    s = hw_buf_check(&query->texts, reterr);
    if (s >= 0)
        s = hw_buf_check(&query->arrays, reterr);
    if (s < 0) {
        hw_pg_times_query_free(query);
        return s;
    }
    *ret_query = query;
    return HOWDAH_OK;
}

/*
 * I4: once, when the query is opened.  A view of the log or of originals is not pinned: rows
 * that are there do not change their place.
 */
int hw_pg_times_query_pin(hw_pg_times_query *query, hw_store *store, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_QUERY_PIN};
    PGresult *result = NULL;
    int s;

    if (query->q.view != HOWDAH_VIEW_AS_OF || query->q.unpinned)
        return HOWDAH_OK;
    s = hw_pg_ready(pg, reterr);
    if (s >= 0)
        s = hw_pg_query(pg, &call, &result, reterr);
    if (s >= 0) {
        hw_buf_put(&query->pin, PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0));
        s = hw_buf_check(&query->pin, reterr);
    }
    PQclear(result);
    return s;
}

void hw_pg_times_query_free(hw_pg_times_query *query)
{
    if (!query)
        return;
    PQclear(query->keys);
    hw_buf_done(&query->texts);
    hw_buf_done(&query->arrays);
    hw_buf_done(&query->page);
    hw_buf_done(&query->pin);
    hw_free(query);
}

/* ------------------------------------------------------------------- calls */

static hw_str view_name(howdah_view view)
{
    switch (view) {
    case HOWDAH_VIEW_AS_OF:
        return HW_STR_LIT("as_of");
    case HOWDAH_VIEW_ORIGINALS:
        return HW_STR_LIT("originals");
    default:
        return HW_STR_LIT("log");
    }
}

static hw_str order_name(howdah_order order)
{
    switch (order) {
    case HOWDAH_ORDER_VALID:
        return HW_STR_LIT("valid");
    case HOWDAH_ORDER_RECORDED:
        return HW_STR_LIT("recorded");
    default:
        return HW_STR_LIT("sequence");
    }
}

/* $1 to $17, as HW_PG_TIMES_QUERY_ROW names them. */
void hw_pg_param_query(hw_pg_call *call, const hw_pg_times_query *query)
{
    const hw_times_query *q = &query->q;

    assert(call->n == 0);
    hw_pg_param_str(call, view_name(q->view));
    hw_pg_param_bool(call, q->retractions);
    hw_pg_param_time(call, q->valid_at);
    hw_pg_param_time(call, q->known_at);
    hw_pg_param_str(call, q->stream);
    hw_pg_param_str(call, q->type);
    hw_pg_param_str(call, q->pattern);
    hw_pg_param_str(call, q->correlation_id);
    hw_pg_param_uuid(call, q->has_causation, &q->causation_id);
    hw_pg_param_arrays(call, &query->sets);
    hw_pg_param_time(call, q->valid.from);
    hw_pg_param_time(call, q->valid.before);
    hw_pg_param_time(call, q->recorded.from);
    hw_pg_param_time(call, q->recorded.before);
    if (query->pin.len > 0)
        hw_pg_param_bin(call, query->pin.data, query->pin.len);
    else
        hw_pg_param_null(call);
}

/* $18 to $22: order, direction, how many, and the key to begin after; NULL at the beginning. */
static void param_position(hw_pg_call *call, const hw_pg_times_query *query, int64_t n)
{
    hw_pg_param_str(call, order_name(query->q.order));
    hw_pg_param_bool(call, query->q.backward);
    hw_pg_param_int8(call, n);
    if (query->begun && query->q.order != HOWDAH_ORDER_SEQUENCE)
        hw_pg_param_int8(call, query->after_time);
    else
        hw_pg_param_null(call);
    if (query->begun)
        hw_pg_param_int8(call, query->after_sequence);
    else
        hw_pg_param_null(call);
}

/* Of the keys in hand, those whose rows were not read yet. */
static size_t keys_left(const hw_pg_times_query *query)
{
    assert(!query->keys || query->keys_at <= PQntuples(query->keys));
    return query->keys ? (size_t)(PQntuples(query->keys) - query->keys_at) : 0;
}

bool hw_pg_times_query_has_page(const hw_pg_times_query *query)
{
    return !query->keys_first || keys_left(query) > 0;
}

/*
 * I2, I3: the position moves to the last key at once, because these keys are all in hand.  Not
 * sent ahead: the next page depends on the answer.
 */
int hw_pg_times_query_find(hw_pg_times_query *query, hw_pg *pg, int64_t left, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_QUERY_KEYS};
    int64_t wanted = left < KEYS_MAX ? left : KEYS_MAX;
    int n;
    int s;

    if (hw_pg_times_query_has_page(query))
        return HOWDAH_OK;
    PQclear(query->keys);
    query->keys = NULL;
    query->keys_at = 0;
    hw_pg_param_query(&call, query);
    param_position(&call, query, wanted);
    s = hw_pg_query(pg, &call, &query->keys, reterr);
    if (s < 0)
        return s;
    n = PQntuples(query->keys);
    query->keys_end = n < wanted;
    if (n == 0)
        return HOWDAH_END;
    query->begun = true;
    query->after_time = hw_pg_get_int8_or(query->keys, n - 1, KEY_TIME, 0);
    query->after_sequence = hw_pg_get_int8(query->keys, n - 1, KEY_SEQUENCE);
    return HOWDAH_OK;
}

/* Either the next page of the log (I1), or the rows of the next keys (I2). */
size_t hw_pg_times_query_call(hw_pg_times_query *query, bool direct, size_t rows, hw_pg_call *call)
{
    hw_pg_array array;
    size_t n;

    assert(hw_pg_times_query_has_page(query));
    if (!query->keys_first) {
        call->statement = HW_PG_QUERY_PAGE;
        hw_pg_param_query(call, query);
        param_position(call, query, (int64_t)rows);
        return rows;
    }
    n = keys_left(query) < rows ? keys_left(query) : rows;
    hw_buf_clear(&query->page);
    hw_pg_array_begin(&query->page, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(&query->page,
                             hw_pg_get_int8(query->keys, query->keys_at + (int)i, KEY_SEQUENCE));
    call->statement = direct ? HW_PG_READ_SEQUENCES : HW_PG_FN_READ_SEQUENCES;
    hw_pg_param_bin(call, query->page.data, query->page.len);
    return n;
}

/*
 * With keys it counts what was asked for, not what came: a key whose row is gone is passed as
 * well.
 */
bool hw_pg_times_query_advance(hw_pg_times_query *query, size_t asked, size_t n, int64_t last)
{
    if (query->keys_first) {
        assert(asked <= keys_left(query));
        query->keys_at += (int)asked;
        return keys_left(query) == 0 && query->keys_end;
    }
    query->begun = true;
    query->after_sequence = last;
    return n < asked;
}
