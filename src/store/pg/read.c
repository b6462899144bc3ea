/*
 * read.c - reading on PostgreSQL: keyset pages, the next ones fetched while one is handed out.
 *
 *   I1  A cursor holds at most the page handed out and AHEAD_MAX after it.  Where the next page
 *       begins is known when the last row of this one is, so one page flies ahead.  While the log
 *       is dense, a page is a span of numbers: the next ones can be asked for before this one has
 *       come, and the server never waits for us.  They count only if this one has the last of its
 *       numbers: else a row may have appeared after it was read, and before they were; what comes
 *       next is then asked for from the last row on.
 *   I2  A page is bounded in rows and in bytes.  Of each row the server is told how large it may
 *       be: the page's bound divided by the rows asked for.  A larger one comes without its
 *       payload, and ends the page before it; if it is the first, fewer rows are asked for, down to
 *       one, which may have any size.  How many rows the next page asks for follows from the last
 *       one: it aims at a quarter of the bound, and at a cap that none of the last rows would have
 *       passed.
 *   I3  No transaction stays open between pages.  A page is asked for by position, so that it can
 *       be asked for again on another connection.
 *   I4  Events point into their page's PGresult, which NUL-terminates every value.
 *   I5  Behind a pooler a page comes together with the name of its log, and none is fetched ahead.
 *   I6  A page that nobody takes in keeps the server writing, and over TCP the server gives such a
 *       client up (tcp_user_timeout, conn.c).  So after a page ahead has waited for long, or was
 *       lost then, none is asked for ahead for a while: else an event whose handler is slow would
 *       come again and again, because no checkpoint is stored after it.
 */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/pattern.h"
#include "store/pg/columns.h"
#include "store/pg/pg.h"

#define FIRST_PAGE 64
#define PAGE_BYTES ((size_t)8 * 1024 * 1024)
#define RANGES_BYTES ((size_t)4 * 1024 * 1024) /* the reader keeps some of these */
#define IDS_A_PAGE 1000
#define JUDGED_ROWS_MIN 32
#define AHEAD 2        /* pages ahead while the log is dense */
#define AHEAD_MAX 3    /* one more behind a statement that went in between (hw_pg_exec_behind()) */
#define WAITED_MS 1000 /* a page ahead that waits for so long was not needed, */
#define REST_TIMES 10  /* and for so many times as long none is asked for, */
#define REST_MS 60000  /* or for so long */
#define FEWER_ROWS 8   /* so many times fewer, when a row was too large */
#define ROW_BYTES 512  /* of a row, besides its payload */
#define ROWS_MAX 10000 /* for more the cap is no smaller */
#define REGEX_BYTES_MAX ((size_t)1024 * 1024) /* of all patterns of a bus together */

/* A page that was asked for before it was wanted. */
typedef struct page_ahead {
    size_t asked; /* rows */
    int64_t upto; /* the last of its numbers; 0: it is asked for by rows alone */
    int64_t sent_ms;
    PGresult *page; /* NULL: under way, or failed */
} page_ahead;

struct hw_pg_cursor {
    hw_cursor base;
    hw_pg *pg;
    bool direct; /* by the table, not the functions; what filter is depends on it */
    /* What is asked for. */
    char *texts; /* owns the strings below */
    hw_str stream;
    hw_str type;
    hw_str filter; /* a regular expression, or the pattern itself for the function */
    hw_str correlation_id;
    hw_str whole; /* a regular expression: which types come whole; absent: all */
    hw_str only_stream;
    int64_t only_from;
    hw_str lowest; /* sparse: where types that can match begin, and end */
    hw_str beyond;
    bool sparse;
    bool judged; /* its pages tell whether it stays sparse; with ranges the caller decides */
    bool backward;
    hw_uuid *ids;
    size_t ids_n;
    hw_range *ranges;
    size_t ranges_n;
    hw_pg_times_query *query; /* a query of the two times: it decides what comes next, and where */
    /* Where it stands. */
    int64_t first;
    int64_t last;
    int64_t left; /* events still wanted */
    size_t ids_done;
    size_t batch;
    size_t page_rows; /* rows to ask for next (I2) */
    size_t largest;   /* payload of the last page; 1: none yet */
    size_t asked;     /* rows that the page was asked for */
    int64_t upto;     /* the last number that it was asked for; 0: by rows alone */
    bool dense;       /* I1 */
    bool end;
    /* Pages. */
    page_ahead ahead[AHEAD_MAX]; /* in the order of the log */
    size_t ahead_n;
    size_t landed;  /* the first so many of them; the others are in flight (pg.h I4) */
    PGresult *page; /* handed out */
    size_t page_n;  /* how many rows of it can be used (I2) */
    size_t handed;  /* how many of it */
    howdah_event *events;
    size_t events_room;
    /* Parameters of the page under way. */
    uint64_t numbers[3];
    hw_buf arrays;
};

/* --------------------------------------------------------------- the call */

/*
 * The narrowest index that gives the order leads; the other filters are applied to what it
 * finds (sql.c).
 */
static hw_pg_statement choose_path(const hw_pg_cursor *c)
{
    if (c->stream.s)
        return c->backward ? HW_PG_READ_STREAM_BACK : HW_PG_READ_STREAM;
    if (c->correlation_id.s)
        return c->backward ? HW_PG_READ_CORRELATION_BACK : HW_PG_READ_CORRELATION;
    if (c->type.s)
        return c->backward ? HW_PG_READ_TYPE_BACK : HW_PG_READ_TYPE;
    if (c->backward)
        return HW_PG_READ_SOME_BACK;
    return c->filter.s ? HW_PG_READ_SOME : HW_PG_READ_ALL;
}

/* Kept in the cursor: a call can be copied without its numbers moving. */
static void param_number(hw_pg_cursor *c, hw_pg_call *call, size_t slot, int64_t value)
{
    assert(slot < sizeof c->numbers / sizeof c->numbers[0]);
    c->numbers[slot] = htobe64((uint64_t)value);
    hw_pg_param_bin(call, &c->numbers[slot], sizeof c->numbers[slot]);
}

static int64_t rows_wanted(const hw_pg_cursor *c)
{
    int64_t rows = (int64_t)c->page_rows;

    assert(rows > 0);
    return rows < c->left ? rows : c->left;
}

static void call_of_page(hw_pg_cursor *c, hw_range numbers, hw_pg_call *call)
{
    call->statement = c->direct ? (int)choose_path(c) : (int)HW_PG_FN_READ;
    c->asked = (size_t)rows_wanted(c);
    hw_pg_param_str(call, c->stream);
    param_number(c, call, 0, numbers.first);
    param_number(c, call, 1, numbers.last);
    param_number(c, call, 2, (int64_t)c->asked);
    hw_pg_param_str(call, c->type);
    hw_pg_param_str(call, c->filter);
    hw_pg_param_str(call, c->correlation_id);
    if (!c->direct)
        hw_pg_param_str(call, c->backward ? HW_STR_LIT("true") : HW_STR_LIT("false"));
}

/* The next ids, in the order given; their rows come by sequence. */
static void call_of_ids(hw_pg_cursor *c, hw_pg_call *call)
{
    size_t n = c->ids_n - c->ids_done;
    hw_pg_array array;

    assert(c->ids_done < c->ids_n);
    c->asked = n < c->page_rows ? n : c->page_rows;
    hw_pg_array_begin(&c->arrays, HW_OID_UUID, c->asked, &array);
    for (size_t i = 0; i < c->asked; i++)
        hw_pg_array_put(&c->arrays, c->ids[c->ids_done + i].b, sizeof c->ids[0].b);
    call->statement = c->direct ? HW_PG_READ_IDS : HW_PG_FN_READ_IDS;
    hw_pg_param_bin(call, c->arrays.data, c->arrays.len);
}

/* I2.  The bus's reader keeps several pages of ranges in its window, so those are smaller. */
static size_t bytes_max(const hw_pg_cursor *c)
{
    return c->ranges ? RANGES_BYTES : PAGE_BYTES;
}

/*
 * I2: what each row may have of the page.  A single row may have any size, or nobody could read
 * it.
 */
static int32_t cap_of(const hw_pg_cursor *c)
{
    size_t rows = c->asked < ROWS_MAX ? c->asked : ROWS_MAX;

    return rows <= 1 ? INT32_MAX : (int32_t)(bytes_max(c) / rows);
}

/* The ranges, or the one that is left of first..last, as two arrays. */
static void param_ranges(hw_pg_cursor *c, hw_pg_call *call)
{
    const hw_range rest = {c->first, c->last};
    const hw_range *ranges = c->ranges ? c->ranges : &rest;
    size_t n = c->ranges ? c->ranges_n : 1;
    hw_pg_array array;
    size_t middle;

    hw_pg_array_begin(&c->arrays, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(&c->arrays, ranges[i].first);
    middle = c->arrays.len;
    hw_pg_array_begin(&c->arrays, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(&c->arrays, ranges[i].last);
    hw_pg_param_bin(call, c->arrays.data, middle);
    hw_pg_param_bin(call, c->arrays.data + middle, c->arrays.len - middle);
}

/*
 * A read of ranges is often one page long, so what was learnt about the size of rows is kept
 * with the connection, not with the cursor.
 */
static size_t range_rows_wanted(const hw_pg_cursor *c)
{
    int64_t rows = c->pg->range_rows > 0 ? (int64_t)c->pg->range_rows : INT64_MAX;

    return (size_t)(rows < c->left ? rows : c->left);
}

/*
 * A page of ranges is one snapshot; what comes after a page that was too large for that is
 * another one.  The parameters differ: see range_types, sparse_types and stream_range_types in
 * sql.c.
 */
static void call_of_ranges(hw_pg_cursor *c, hw_pg_call *call)
{
    if (!c->direct)
        call->statement = HW_PG_FN_READ_RANGES;
    else if (c->only_stream.s)
        call->statement = HW_PG_READ_RANGES_STREAM;
    else if (c->sparse)
        call->statement = c->backward ? HW_PG_READ_SPARSE_BACK : HW_PG_READ_SPARSE;
    else
        call->statement = c->type.s ? HW_PG_READ_RANGES_TYPE : HW_PG_READ_RANGES;
    c->asked = c->ranges ? range_rows_wanted(c) : (size_t)rows_wanted(c);
    param_ranges(c, call);
    param_number(c, call, 0, (int64_t)c->asked);
    hw_pg_param_str(call, c->sparse ? c->lowest : c->type);
    hw_pg_param_str(call, c->filter);
    if (c->direct)
        hw_pg_param_str(call, c->whole);
    if (c->direct && c->only_stream.s) {
        hw_pg_param_str(call, c->only_stream);
        param_number(c, call, 1, c->only_from);
    } else if (c->sparse) {
        hw_pg_param_str(call, c->beyond);
    }
}

/*
 * numbers: those of the page, where it is not ids or ranges.  Also called for a page ahead, whose
 * error nobody hears: then the page is asked for again when it is wanted.
 */
static int make_call(hw_pg_cursor *c, hw_range numbers, hw_pg_call *call, howdah_error *reterr)
{
    *call = (hw_pg_call){.statement = -1};
    hw_buf_clear(&c->arrays);
    if (c->query)
        c->asked = hw_pg_times_query_call(c->query, c->direct, (size_t)rows_wanted(c), call);
    else if (c->ids)
        call_of_ids(c, call);
    else if (c->ranges || c->sparse)
        call_of_ranges(c, call);
    else
        call_of_page(c, numbers, call);
    hw_pg_param_int4(call, cap_of(c));
    return hw_buf_check(&c->arrays, reterr);
}

/* --------------------------------------------------------------- the rows */

/* The column after those of an event, when ranges are read: false when it comes without payload
   because nobody wants it, NULL when it is too large. */
#define WHOLE HW_PG_EVENT_COLUMNS_N

/* Only direct reads of ranges have the column WHOLE. */
static void decode(const PGresult *r, int row, howdah_event *e)
{
    hw_pg_decode_event(r, row, 0, e);
    if (PQnfields(r) > WHOLE && !hw_pg_get_bool(r, row, WHOLE)) {
        e->no_payload = true;
        e->broken = false;
        e->data = HW_STR_NULL;
    }
}

/* All rows of the page, usable or not: which they are is known only when they are decoded. */
static int make_room(hw_pg_cursor *c, size_t n, howdah_error *reterr)
{
    howdah_event *events;

    if (n <= c->events_room)
        return HOWDAH_OK;
    events = hw_realloc(c->events, n * sizeof *events);
    if (!events)
        return hw_fail_no_memory(reterr);
    c->events = events;
    c->events_room = n;
    return HOWDAH_OK;
}

static void decode_page(hw_pg_cursor *c)
{
    int n = PQntuples(c->page);

    assert((size_t)n <= c->events_room);
    for (int i = 0; i < n; i++)
        decode(c->page, i, &c->events[i]);
}

/* An event without any payload (from somebody's own INSERT) looks like one that is too large,
   unless it comes alone or in a page of ranges. */
static bool is_too_large(const hw_pg_cursor *c, size_t row)
{
    const howdah_event *event = &c->events[row];

    if (event->no_payload)
        return PQgetisnull(c->page, (int)row, WHOLE);
    return c->asked > 1 && event->broken && PQnfields(c->page) <= WHOLE;
}

typedef struct verdict {
    size_t usable;  /* the first so many rows */
    size_t bytes;   /* of them */
    size_t largest; /* of their payloads */
} verdict;

/* I2: a decoded page ends before the first row that is too large. */
static verdict judge_page(const hw_pg_cursor *c)
{
    size_t n = (size_t)PQntuples(c->page);
    verdict v = {.largest = 1};

    for (; v.usable < n && !is_too_large(c, v.usable); v.usable++) {
        size_t len = c->events[v.usable].data.len;

        v.bytes += len + ROW_BYTES;
        v.largest = len > v.largest ? len : v.largest;
    }
    return v;
}

/* I2: how many rows to ask for when n rows took these bytes and the largest payload was this. */
static size_t rows_that_fit(const hw_pg_cursor *c, size_t bytes, size_t n, size_t largest)
{
    size_t rows;

    assert(n > 0 && largest > 0);
    rows = bytes_max(c) / 4 / (bytes / n + 1);
    rows = bytes_max(c) / largest < rows ? bytes_max(c) / largest : rows;
    return rows > 0 ? rows : 1;
}

/* A page is handed out whole, so it has at most the caller's batch; of ranges see hand_rest(). */
static void adapt(hw_pg_cursor *c, size_t rows)
{
    size_t rows_max = c->ids ? IDS_A_PAGE : c->batch;

    assert(rows > 0 && rows_max > 0);
    if (c->ranges)
        c->pg->range_rows = rows;
    else
        c->page_rows = rows < rows_max ? rows : rows_max;
}

/* Keeps what of the ranges lies after the position, in the direction of reading. */
static void trim_ranges(hw_pg_cursor *c, int64_t at)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->ranges_n; i++) {
        hw_range range = c->ranges[i];

        if (c->backward)
            range.last = range.last < at ? range.last : at - 1;
        else
            range.first = range.first > at ? range.first : at + 1;
        if (range.first <= range.last)
            c->ranges[kept++] = range;
    }
    c->ranges_n = kept;
}

/*
 * How far apart the rows of a page are tells whether the index of types is worth it
 * (HW_SPARSE_BELOW); a few rows tell nothing.
 */
static void judge_pattern(hw_pg_cursor *c, size_t n, int64_t at)
{
    int64_t first = hw_pg_get_int8(c->page, 0, HW_PG_EVENT_GLOBAL_SEQUENCE);
    int64_t span = at > first ? at - first : first - at;

    if (c->judged && n >= JUDGED_ROWS_MIN)
        c->sparse = span / HW_SPARSE_BELOW > (int64_t)n;
}

/* I1: numbers without gaps to speak of, and all of them wanted. */
static bool is_dense(const hw_pg_cursor *c, size_t n)
{
    int64_t span;

    if (n < JUDGED_ROWS_MIN || c->stream.s || c->backward || c->ids || c->ranges || c->query ||
        c->sparse || c->left < INT64_MAX / 2)
        return false;
    span = c->events[n - 1].global_sequence - c->events[0].global_sequence + 1;
    if (span > (int64_t)(n + n / 4))
        return false;
    return c->upto ? c->events[n - 1].global_sequence == c->upto : n == c->asked;
}

/*
 * Moves past n rows of the page: the next one starts where they end.  cut: the server has more
 * rows of this page, which were too large.  A page of rows that is short without a cut was the
 * last, and so is that of the last numbers.
 */
static void advance(hw_pg_cursor *c, size_t n, bool cut)
{
    const howdah_event *last;
    bool last_page;
    int64_t at;

    if (c->ids) {
        c->ids_done += c->asked;
        c->end = c->ids_done == c->ids_n;
        return;
    }
    c->left -= (int64_t)n;
    if (c->query) {
        at = n > 0 ? c->events[n - 1].global_sequence : 0;
        c->end = hw_pg_times_query_advance(c->query, cut ? n : c->asked, n, at) || c->left == 0;
        return;
    }
    c->dense = !cut && is_dense(c, n);
    last_page = c->upto ? c->upto == c->last : n < c->asked;
    if ((last_page && !cut) || c->left == 0) {
        c->end = true;
        return;
    }
    if (n == 0) /* of these numbers; a cut page without rows does not come here */
        return;
    last = &c->events[n - 1];
    if (c->ranges) {
        trim_ranges(c, last->global_sequence);
        c->end = c->ranges_n == 0;
        return;
    }
    judge_pattern(c, n, last->global_sequence);
    at = c->stream.s ? last->version : last->global_sequence;
    if (c->backward)
        c->last = at - 1;
    else
        c->first = at + 1;
    c->end = c->first > c->last || at == INT64_MAX;
}

/* ---------------------------------------------------------- pages in flight */

/* I6: the next page in flight is taken in, or lost. */
static void end_flight(const hw_pg_cursor *c)
{
    int64_t now = hw_clock_mono_ms();
    int64_t waited_ms = now - c->ahead[c->landed].sent_ms;
    int64_t rest_ms = waited_ms * REST_TIMES;

    assert(c->landed < c->ahead_n);
    if (waited_ms >= WAITED_MS)
        c->pg->ahead_after_ms = now + (rest_ms > REST_MS ? rest_ms : REST_MS);
}

/* The cursor keeps its position (I3) and asks again. */
void hw_pg_forget(hw_pg *pg)
{
    if (pg->in_flight) {
        end_flight(pg->in_flight);
        pg->in_flight->ahead_n = pg->in_flight->landed;
    }
    pg->in_flight = NULL;
}

/*
 * Takes in the first n pages.  An error is dropped with its page: the cursor asks again, and gets
 * the error then if it is still one.
 */
static void land(hw_pg_cursor *c, size_t n)
{
    hw_pg *pg = c->pg;
    hw_pg_call call = {.statement = -1};

    while (pg->in_flight == c && c->landed < n) {
        PGresult *page = NULL;
        int s;

        end_flight(c);
        s = hw_pg_collect(pg, &call, &page, NULL);
        if (pg->in_flight != c) /* the connection is gone, and with it the rest */
            return;
        c->ahead[c->landed++].page = s < 0 ? NULL : page;
        if (c->landed == c->ahead_n)
            pg->in_flight = NULL;
    }
}

/* Every statement passes here before it is sent, unless it goes behind the pages. */
void hw_pg_drain_reply(hw_pg *pg)
{
    assert(!pg->in_flight || !pg->bell.ringing); /* pg.h I4 */
    hw_pg_bell_drain_reply(pg);
    if (pg->in_flight)
        land(pg->in_flight, pg->in_flight->ahead_n);
}

/* They are asked for again when they are wanted (I3). */
static void drop_ahead(hw_pg_cursor *c)
{
    land(c, c->ahead_n);
    for (size_t i = 0; i < c->ahead_n; i++)
        PQclear(c->ahead[i].page);
    c->ahead_n = c->landed = 0;
}

/* The numbers of the next page ahead; none are left: first > last. */
static hw_range next_numbers(const hw_pg_cursor *c)
{
    hw_range numbers = {c->first, c->last};
    int64_t rows = (int64_t)c->page_rows;

    if (c->ahead_n > 0) {
        assert(c->ahead[c->ahead_n - 1].upto > 0);
        numbers.first = c->ahead[c->ahead_n - 1].upto + 1;
    }
    if (c->dense && numbers.first <= c->last && c->last - numbers.first >= rows)
        numbers.last = numbers.first + rows - 1;
    return numbers;
}

/* False: there is nothing to ask for, or no way to do it. */
static bool fly(hw_pg_cursor *c)
{
    hw_range numbers = next_numbers(c);
    size_t asked = c->asked;
    hw_pg_call call;
    bool sent;

    assert(c->ahead_n < AHEAD_MAX);
    if (numbers.first > numbers.last || hw_clock_mono_ms() < c->pg->ahead_after_ms)
        return false;
    sent = make_call(c, numbers, &call, NULL) >= 0 && hw_pg_send_behind(c->pg, &call, NULL) >= 0;
    if (sent) {
        c->ahead[c->ahead_n++] =
            (page_ahead){c->asked, c->dense ? numbers.last : 0, hw_clock_mono_ms(), NULL};
        c->pg->in_flight = c;
    }
    c->asked = asked;
    return sent;
}

/*
 * Asks for the next pages while this one is handled.  Not on the caller's connection, which the
 * caller uses meanwhile; not behind a pooler (I5); not for ranges, whose next page would be
 * another snapshot that may not be wanted; not while another cursor has its page under way
 * (pg.h I4).
 */
static void fly_ahead(hw_pg_cursor *c)
{
    size_t most = c->dense ? AHEAD : 1;

    if (c->end || c->ranges || c->pg->caller_owned || c->pg->pooled ||
        (c->pg->in_flight && c->pg->in_flight != c) ||
        (c->query && !hw_pg_times_query_has_page(c->query)))
        return;
    while (c->ahead_n < most && fly(c))
        continue;
}

/*
 * The statement goes behind the pages under way, and one more page behind it: the server has work
 * while we take all that in.  Its own answer is waited for.
 */
int hw_pg_exec_behind(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result,
                      howdah_error *reterr)
{
    hw_pg_cursor *c = pg->in_flight;
    size_t before = c ? c->ahead_n : 0;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (!c || !c->dense || before == AHEAD_MAX || !pg->prepared[call->statement])
        return hw_pg_exec(pg, call, ret_result, reterr);
    s = hw_pg_send_behind(pg, call, &err);
    if (s >= 0) {
        (void)fly(c);
        land(c, before);
        s = pg->conn ? hw_pg_collect(pg, call, ret_result, &err)
                     : hw_pg_lost(pg, true, call->writes, &err);
    }
    if (s < 0 && pg->conn && hw_pg_go_unprepared(pg, &err))
        return hw_pg_exec(pg, call, ret_result, reterr);
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/*
 * A page that flew ahead, if there is one; otherwise a new question.  HOWDAH_END: no keys are
 * left.
 */
static int fetch(hw_pg_cursor *c, PGresult **ret_page, howdah_error *reterr)
{
    const hw_range numbers = {c->first, c->last};
    hw_pg_call call;
    int s;

    assert(c->landed == c->ahead_n || c->pg->in_flight == c);
    if (c->ahead_n > 0 && c->landed == 0)
        land(c, 1);
    if (c->landed > 0 && c->ahead[0].page) {
        *ret_page = c->ahead[0].page;
        c->asked = c->ahead[0].asked;
        c->upto = c->ahead[0].upto;
        c->landed--;
        c->ahead_n--;
        memmove(c->ahead, c->ahead + 1, c->ahead_n * sizeof c->ahead[0]);
        return HOWDAH_OK;
    }
    drop_ahead(c);
    c->upto = 0;
    s = hw_pg_ready(c->pg, reterr);
    if (s >= 0 && c->query)
        s = hw_pg_times_query_find(c->query, c->pg, c->left, reterr);
    if (s == HOWDAH_OK)
        s = make_call(c, numbers, &call, reterr);
    return s == HOWDAH_OK ? hw_pg_query_log(c->pg, &call, ret_page, reterr) : s;
}

/* -------------------------------------------------------------- operations */

/* The types that can match begin with the pattern's prefix, which ends with a dot or is empty.
   Types are ASCII and ordered by their bytes, so the first text after them all ends with the
   character after the dot, or is that after every ASCII character. */
static void put_bounds(hw_str pattern, hw_buf *lowest, hw_buf *beyond)
{
    hw_str prefix = hw_pattern_prefix(pattern);

    assert(prefix.len == 0 || prefix.s[prefix.len - 1] == '.');
    hw_buf_put(lowest, prefix.s, prefix.len);
    if (prefix.len > 0)
        hw_buf_put(beyond, prefix.s, prefix.len - 1);
    hw_buf_putc(beyond, prefix.len > 0 ? '.' + 1 : '\x7f');
}

enum text {
    STREAM_TEXT,
    TYPE_TEXT,
    FILTER,
    CORRELATION,
    WHOLE_TYPES,
    LOWEST,
    BEYOND,
    ONLY_STREAM,
    TEXTS
};

/*
 * What the query does not say literally: regular expressions, and where to look for types.  The
 * functions take the pattern itself, so these are for direct reads only.
 */
static void make_texts(const hw_pg_cursor *c, const hw_query *q, hw_buf made[TEXTS])
{
    if (q->pattern.s && c->direct)
        hw_pattern_regex(q->pattern, &made[FILTER]);
    for (size_t i = 0; c->direct && q->ranges && i < q->payload_of_n; i++) {
        if (i > 0)
            hw_buf_putc(&made[WHOLE_TYPES], '|');
        hw_pattern_regex(q->payload_of[i], &made[WHOLE_TYPES]);
    }
    if (c->sparse)
        put_bounds(q->pattern, &made[LOWEST], &made[BEYOND]);
}

/* Copies the strings into one block, each with a NUL; absent ones stay absent. */
static int copy_texts(hw_pg_cursor *c, const hw_str from[TEXTS], howdah_error *reterr)
{
    hw_str *const to[TEXTS] = {&c->stream, &c->type,   &c->filter, &c->correlation_id,
                               &c->whole,  &c->lowest, &c->beyond, &c->only_stream};
    size_t room = 0;
    char *at;

    for (int i = 0; i < TEXTS; i++)
        room += from[i].len + 1;
    c->texts = at = hw_alloc(room);
    if (!at)
        return hw_fail_no_memory(reterr);
    for (int i = 0; i < TEXTS; i++) {
        if (!from[i].s)
            continue;
        memcpy(at, from[i].s, from[i].len);
        at[from[i].len] = '\0';
        *to[i] = (hw_str){at, from[i].len};
        at += from[i].len + 1;
    }
    assert(at <= c->texts + room);
    return HOWDAH_OK;
}

/*
 * The caller's query need not outlive read_open() (store.h), but pages are asked for long after
 * it.
 */
static int keep_texts(hw_pg_cursor *c, const hw_query *q, howdah_error *reterr)
{
    hw_buf made[TEXTS];
    hw_str from[TEXTS] = {q->stream, q->type, q->pattern, q->correlation_id};
    int s = HOWDAH_OK;

    for (int i = 0; i < TEXTS; i++)
        made[i] = (hw_buf)HW_BUF_INIT(REGEX_BYTES_MAX);
    make_texts(c, q, made);
    if (c->sparse) /* the prefix may be empty */
        from[LOWEST] = HW_STR_LIT("");
    if (q->ranges)
        from[ONLY_STREAM] = q->only_stream;
    for (int i = 0; i < TEXTS && s >= 0; i++) {
        s = hw_buf_check(&made[i], reterr);
        if (made[i].len > 0)
            from[i] = (hw_str){hw_buf_str(&made[i]), made[i].len};
    }
    if (s >= 0)
        s = copy_texts(c, from, reterr);
    for (int i = 0; i < TEXTS; i++)
        hw_buf_done(&made[i]);
    return s;
}

/*
 * One element more than needed: an empty set is not a missing one, and an allocation of nothing
 * may be NULL.
 */
static int keep_sets(hw_pg_cursor *c, const hw_query *q, howdah_error *reterr)
{
    if (q->ids) {
        c->ids = hw_calloc(q->ids_n + 1, sizeof *c->ids);
        if (!c->ids)
            return hw_fail_no_memory(reterr);
        memcpy(c->ids, q->ids, q->ids_n * sizeof *c->ids);
        c->ids_n = q->ids_n;
        c->end = q->ids_n == 0;
    }
    if (q->ranges) {
        c->ranges = hw_calloc(q->ranges_n + 1, sizeof *c->ranges);
        if (!c->ranges)
            return hw_fail_no_memory(reterr);
        memcpy(c->ranges, q->ranges, q->ranges_n * sizeof *c->ranges);
        c->ranges_n = q->ranges_n;
    }
    return HOWDAH_OK;
}

/*
 * Nothing but the pattern leads to the rows, and the caller believes that it matches few.  A
 * pattern without a wildcard has become a type (hw_pattern_to_type()).
 */
static bool is_sparse(const hw_query *q)
{
    assert(q->type.s || !hw_pattern_is_exact(q->pattern));
    return q->sparse && q->pattern.s && !q->type.s && !q->stream.s && !q->only_stream.s &&
           !q->correlation_id.s && !q->ids;
}

/*
 * Nothing is asked for yet.  The first page is small, so that a caller who wants one event does
 * not wait for a thousand; sizes grow with what pages show (I2).
 */
int hw_pg_read_open(hw_store *store, const hw_query *query, hw_cursor **ret_cursor,
                    howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_cursor *c;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    c = hw_calloc(1, sizeof *c);
    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.store = store;
    c->pg = pg;
    c->direct = pg->direct_read;
    c->arrays = (hw_buf)HW_BUF_INIT((size_t)16 * 1024 * 1024);
    c->backward = query->backward;
    c->first = query->from;
    c->last = query->to ? query->to : INT64_MAX;
    c->left = query->limit ? query->limit : INT64_MAX;
    c->batch = query->batch ? query->batch : 1000;
    c->largest = 1;
    c->page_rows = c->batch < FIRST_PAGE ? c->batch : FIRST_PAGE;
    if (query->ids)
        c->page_rows = IDS_A_PAGE;
    c->end = c->first > c->last;
    c->only_from = query->only_from;
    c->sparse = c->direct && is_sparse(query);
    c->judged = c->sparse && !query->ranges;
    s = keep_texts(c, query, reterr);
    if (s >= 0)
        s = keep_sets(c, query, reterr);
    if (s < 0) {
        hw_pg_read_close(&c->base);
        return s;
    }
    *ret_cursor = &c->base;
    return HOWDAH_OK;
}

/* Events from..to of the page. */
static void hand_out(hw_pg_cursor *c, size_t from, size_t to, const howdah_event **ret_events,
                     size_t *ret_n)
{
    assert(from < to && to <= c->page_n);
    c->handed = to;
    *ret_events = c->events + from;
    *ret_n = to - from;
}

/*
 * A page of ranges is one snapshot, and can be larger than a batch: the rest of it comes first.
 */
static bool hand_rest(hw_pg_cursor *c, const howdah_event **ret_events, size_t *ret_n)
{
    size_t left = c->page ? c->page_n - c->handed : 0;

    if (left == 0)
        return false;
    hand_out(c, c->handed, c->handed + (left < c->batch ? left : c->batch), ret_events, ret_n);
    return true;
}

/*
 * The last row says where the next page starts, so the server can work on that page while the other
 * rows are decoded here.  If one of them turns out to be too large, the pages ahead are thrown away
 * and the position restored; that is rare.  False: go_on() has to deal with the page.
 */
static bool go_ahead(hw_pg_cursor *c, size_t n)
{
    const hw_pg_cursor before = *c;
    verdict v;

    if (n == 0 || c->ids || c->ranges || c->query)
        return false;
    decode(c->page, 0, &c->events[0]);
    decode(c->page, (int)n - 1, &c->events[n - 1]);
    if (is_too_large(c, n - 1))
        return false;
    advance(c, n, false);
    adapt(c, rows_that_fit(c, PQresultMemorySize(c->page), n, c->largest));
    if (!c->dense)
        drop_ahead(c);
    fly_ahead(c);
    decode_page(c);
    v = judge_page(c);
    if (v.usable == n) {
        c->largest = v.largest;
        return true;
    }
    c->first = before.first;
    c->last = before.last;
    c->left = before.left;
    c->end = before.end;
    c->sparse = before.sparse;
    return false;
}

/*
 * Moves past the rows that can be used.  False: there are none, or only part of the ids came;
 * the same position is asked for again, with fewer rows.
 */
static bool go_on(hw_pg_cursor *c, size_t n)
{
    verdict v;
    bool cut;

    drop_ahead(c);
    decode_page(c);
    v = judge_page(c);
    cut = v.usable < n;
    if (cut)
        adapt(c, c->asked > FEWER_ROWS ? c->asked / FEWER_ROWS : 1);
    else if (n > 0)
        adapt(c, rows_that_fit(c, v.bytes, n, v.largest));
    /* Rows of ids are not in the order of the ids: part of a page tells nothing of the rest. */
    if (cut && (v.usable == 0 || c->ids))
        return false;
    c->largest = v.largest;
    c->page_n = v.usable;
    advance(c, v.usable, cut);
    fly_ahead(c);
    return true;
}

static bool has_more(const hw_pg_cursor *c)
{
    return c->handed < c->page_n || !c->end;
}

/*
 * A page without usable rows is not the end: fewer rows are asked for until one fits, or until
 * the cursor says that it is at its end.
 */
int hw_pg_read_next(hw_cursor *cursor, const howdah_event **ret_events, size_t *ret_n,
                    howdah_error *reterr)
{
    hw_pg_cursor *c = (hw_pg_cursor *)cursor;

    if (hand_rest(c, ret_events, ret_n)) {
        c->base.more = has_more(c);
        return HOWDAH_OK;
    }
    PQclear(c->page);
    c->page = NULL;
    while (!c->end) {
        int s = fetch(c, &c->page, reterr);

        if (s < 0)
            return s;
        if (s == HOWDAH_END)
            break;
        c->page_n = (size_t)PQntuples(c->page);
        c->handed = 0;
        s = make_room(c, c->page_n, reterr);
        if (s < 0)
            return s;
        if ((go_ahead(c, c->page_n) || go_on(c, c->page_n)) && c->page_n > 0) {
            size_t n = c->page_n;

            if (c->stream.s)
                hw_pg_know(
                    c->pg, c->stream,
                    hw_pg_get_int8(c->page, c->backward ? 0 : (int)n - 1, HW_PG_EVENT_VERSION));
            hand_out(c, 0, c->ranges && c->batch < n ? c->batch : n, ret_events, ret_n);
            c->base.more = has_more(c);
            return HOWDAH_OK;
        }
        PQclear(c->page);
        c->page = NULL;
    }
    return HOWDAH_END;
}

/* Pages under way are taken in: until then the connection points at this cursor. */
void hw_pg_read_close(hw_cursor *cursor)
{
    hw_pg_cursor *c = (hw_pg_cursor *)cursor;

    if (!c)
        return;
    drop_ahead(c);
    PQclear(c->page);
    hw_buf_done(&c->arrays);
    hw_free(c->events);
    hw_free(c->ids);
    hw_free(c->ranges);
    hw_free(c->texts);
    hw_pg_times_query_free(c->query);
    hw_free(c);
}

/*
 * A cursor over the log with a query of the two times in it: pages, their bounds and
 * prefetching are the same, and what is asked for is the query's (query.c).
 */
int hw_pg_query_open(hw_store *store, const hw_times_query *query, hw_cursor **ret_cursor,
                     howdah_error *reterr)
{
    const hw_query log = {
        .backward = query->backward, .limit = query->limit, .batch = query->batch};
    hw_cursor *cursor = NULL;
    int s = hw_pg_read_open(store, &log, &cursor, reterr);

    if (s < 0)
        return s;
    s = hw_pg_times_query_new(query, &((hw_pg_cursor *)cursor)->query, reterr);
    if (s >= 0)
        s = hw_pg_times_query_pin(((hw_pg_cursor *)cursor)->query, store, reterr);
    if (s < 0) {
        hw_pg_read_close(cursor);
        return s;
    }
    *ret_cursor = cursor;
    return HOWDAH_OK;
}
