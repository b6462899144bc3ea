/*
 * reader.c - the one reader of a bus: it knows the log's edge and feeds all subscriptions.
 *
 * The order of a round is that of engine/frontier.h: evidence, rows, verdict.  What a subscription
 * reads for itself is bounded by the frontier as it was before that read (subscription.h I2).
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "bus/subscription/subscription.h"
#include "engine/pattern.h"

/* How often to try again while open transactions keep the end of the log from being known. */
#define LOOK_EVERY_MS 20
/* A page of the edge: so many rows, and about so many bytes.  A page is kept until the
   subscriptions have passed it, or its place in the window is needed. */
#define ROWS_MAX 1000
#define PAGE_BYTES ((size_t)2 * 1024 * 1024)
/* A standby looks into so many holes without counting what that costs. */
#define PROBE_FREE 64
#define PROBE_SHARE 100 /* else, it spends one part in so many of its time on it */

/* As a pattern: no type is empty. */
#define NO_PAYLOAD HW_STR_LIT("")

void hw_log_reader_init(hw_log_reader *reader)
{
    *reader = (hw_log_reader){.rows = HW_ROWS_FIRST};
    hw_frontier_init(&reader->frontier, 0);
    hw_holders_init(&reader->holders);
}

/* ---------------------------------------------------------------- pages */

void hw_page_drop(howdah_bus *bus, hw_page *page)
{
    assert(!page || page->refs > 0);
    if (!page || --page->refs > 0)
        return;
    if (page->cursor && !page->keeps_cursor)
        bus->store->ops->read_close(page->cursor);
    hw_free(page->holes);
    hw_still_drop(page->still);
    hw_free(page);
}

/* What a page weighs in memory, roughly; adapt() aims at PAGE_BYTES with it. */
static size_t bytes_of(const howdah_event *events, size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += events[i].data.len + events[i].headers.len + sizeof events[i];
    return bytes;
}

/* Few rows while they are large: a page is to stay below PAGE_BYTES. */
static size_t adapt(size_t rows, size_t rows_max, const hw_page *page)
{
    size_t bytes = bytes_of(page->events, page->n);

    if (bytes > PAGE_BYTES)
        rows = rows > 1 ? rows / 2 : 1;
    else if (page->full && bytes < PAGE_BYTES / 2)
        rows *= 2;
    return rows < rows_max ? rows : rows_max;
}

/* The first reference is the caller's; hw_page_drop() gives it back. */
static int new_page(hw_page **ret_page, howdah_error *reterr)
{
    hw_page *page = hw_calloc(1, sizeof *page);

    if (!page)
        return hw_fail_no_memory(reterr);
    page->refs = 1;
    *ret_page = page;
    return HOWDAH_OK;
}

/* The holes as they are now become the page's. */
static int note_holes(hw_page *page, const hw_log_reader *reader, howdah_error *reterr)
{
    const hw_frontier *f = &reader->frontier;

    page->still = hw_still_share(reader->still);
    page->still_version = reader->versions;
    if (f->holes_n == 0)
        return HOWDAH_OK;
    page->holes = hw_calloc(f->holes_n, sizeof *page->holes);
    if (!page->holes)
        return hw_fail_no_memory(reterr);
    memcpy(page->holes, f->holes, f->holes_n * sizeof *page->holes);
    page->holes_n = f->holes_n;
    return HOWDAH_OK;
}

/* Every answer is worthless if it came from another log than the one the pass began with, and a
   pooler or a reconnect can change that between any two statements. */
int hw_log_reader_check_session(howdah_bus *bus, howdah_error *reterr)
{
    uint64_t session = 0;
    int s = hw_sub_ops_of(bus)->session(bus->store, &session, reterr);

    if (s >= 0 && session != bus->service->reader.session)
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE,
                    "the connection was lost and made again, or it leads to another log");
    return s;
}

/* After rows were read: the log that they came from is the one that all else here came from. */
static int check_log(howdah_bus *bus, howdah_error *reterr)
{
    int s = hw_sub_ops_of(bus)->confirm(bus->store, &bus->service->reader.top, reterr);

    return s < 0 ? s : hw_log_reader_check_session(bus, reterr);
}

/* Opens the query and takes its only page.  A short page whose cursor says "more" was cut off by
   bytes or by the work of finding rows: it counts as full. */
static int read_page(howdah_bus *bus, hw_query *query, hw_page *page, howdah_error *reterr)
{
    const hw_store_ops *ops = bus->store->ops;
    int s;

    assert(query->batch > 0); /* adapt() never goes below one row */
    query->limit = (int64_t)query->batch;
    s = ops->read_open(bus->store, query, &page->cursor, reterr);
    if (s < 0)
        return s;
    s = ops->read_next(page->cursor, &page->events, &page->n, reterr);
    if (s == HOWDAH_END)
        page->n = 0;
    page->full = s == HOWDAH_OK && (page->n == query->batch || page->cursor->more);
    return s < 0 ? s : check_log(bus, reterr);
}

/* Without payloads, which may be large: the page is never cut off by bytes. */
int hw_log_reader_events_at(howdah_bus *bus, hw_anchor *anchors, size_t n, size_t *ret_n,
                            howdah_error *reterr)
{
    hw_range ranges[HW_AGAIN_ROWS];
    hw_str none = NO_PAYLOAD;
    hw_query query = {
        .ranges = ranges, .ranges_n = n, .batch = n, .payload_of = &none, .payload_of_n = 1};
    hw_page *page = NULL;
    int s;

    assert(n <= HW_AGAIN_ROWS);
    *ret_n = 0;
    if (n == 0)
        return HOWDAH_OK;
    bus->service->reader.session = bus->service->session;
    for (size_t i = 0; i < n; i++)
        ranges[i] = (hw_range){anchors[i].sequence, anchors[i].sequence};
    s = new_page(&page, reterr);
    if (s >= 0)
        s = read_page(bus, &query, page, reterr);
    for (size_t i = 0; s >= 0 && i < page->n; i++)
        anchors[(*ret_n)++] = (hw_anchor){page->events[i].global_sequence, page->events[i].id};
    hw_page_drop(bus, page);
    return s < 0 ? s : HOWDAH_OK;
}

int hw_log_reader_last(howdah_bus *bus, int64_t upto, hw_anchor *ret_last, howdah_error *reterr)
{
    const hw_store_ops *ops = bus->store->ops;
    hw_query query = {.to = upto, .limit = 1, .batch = 1, .backward = true};
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    size_t n = 0;
    int s = ops->read_open(bus->store, &query, &cursor, reterr);

    if (s < 0)
        return s;
    s = ops->read_next(cursor, &events, &n, reterr);
    if (s >= 0)
        *ret_last = s == HOWDAH_OK ? (hw_anchor){events[0].global_sequence, events[0].id}
                                   : (hw_anchor){.sequence = 0};
    ops->read_close(cursor);
    return s < 0 ? s : HOWDAH_OK;
}

/* Rounds until nothing more comes: then what is missing is all that may still appear. */
int hw_log_reader_end(howdah_bus *bus, int64_t *ret_high, hw_ranges *ret_outstanding,
                      howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    bool news = false;
    int s;

    hw_log_reader_reset(bus);
    s = hw_sub_ops_of(bus)->session(bus->store, &reader->session, reterr);
    if (s < 0)
        return s;
    while ((s = hw_holes_cover(bus, 0, reterr)) == HOWDAH_END) {
        s = hw_sleep(bus->interrupt, LOOK_EVERY_MS, reterr);
        if (s < 0)
            return s;
    }
    if (s >= 0)
        s = hw_log_reader_round(bus, &news, reterr);
    while (s >= 0 && reader->more)
        s = hw_log_reader_round(bus, &news, reterr);
    if (s >= 0)
        s = hw_ranges_copy(ret_outstanding, hw_still_ranges(reader->still), reterr);
    for (size_t i = 0; s >= 0 && i < reader->frontier.holes_n; i++)
        s = hw_ranges_add(ret_outstanding, reader->frontier.holes[i].first,
                          reader->frontier.holes[i].last, reterr);
    if (s >= 0)
        *ret_high = reader->frontier.high;
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------------------ rounds */

/* The patterns whose payloads the reader has to fetch.  Routers need none.  0 means all of them:
   some subscription has no pattern, or there are more patterns than room. */
static size_t wanted_patterns(const howdah_bus *bus, hw_str *out, size_t room)
{
    bool routers = false;
    size_t n = 0;

    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (!hw_sub_is_active(sub))
            continue;
        if (sub->kind == HW_KIND_ROUTER) {
            routers = true;
            continue;
        }
        if (!sub->pattern || n == room)
            return 0; /* all */
        out[n++] = hw_str_of(sub->pattern);
    }
    if (n == 0 && routers)
        out[n++] = NO_PAYLOAD;
    return n;
}

/* One statement, so one snapshot: with holes, every number that was missing and everything above
   the frontier; without, only what is above. */
static int read_ranges(howdah_bus *bus, bool holes, hw_page *page, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    const hw_frontier *f = &reader->frontier;
    size_t n = holes ? f->holes_n : 0;
    hw_str patterns[32];
    hw_range *ranges = hw_calloc(n + 1, sizeof *ranges);
    hw_query query = {.ranges = ranges,
                      .ranges_n = n + 1,
                      .batch = reader->rows,
                      .payload_of = patterns,
                      .payload_of_n = wanted_patterns(bus, patterns, 32)};
    int s;

    if (!ranges)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < n; i++)
        ranges[i] = (hw_range){f->holes[i].first, f->holes[i].last};
    ranges[n] = (hw_range){f->high + 1, INT64_MAX};
    s = read_page(bus, &query, page, reterr);
    hw_free(ranges);
    return s;
}

/*
 * Where nobody can tell when a hole may have filled there may be thousands of them for as long as
 * we run.  Rows above are never given out without those inside holes of the same snapshot; but
 * while there are none, holes are looked into only now and then.  *ret_whole: they were.
 */
static int read_edge(howdah_bus *bus, hw_page *page, bool *ret_whole, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    int64_t now = hw_clock_mono_ms();
    int s;

    *ret_whole = true;
    if (reader->standby && reader->frontier.holes_n > PROBE_FREE && now < reader->probe_ms) {
        s = read_ranges(bus, false, page, reterr);
        if (s < 0 || page->n == 0) {
            *ret_whole = false;
            return s;
        }
        bus->store->ops->read_close(page->cursor);
        page->cursor = NULL;
    }
    s = read_ranges(bus, true, page, reterr);
    reader->probe_ms = now + PROBE_SHARE * (hw_clock_mono_ms() - now);
    return s;
}

/* The window takes over the caller's reference.  A slot is used again after HW_WINDOW_PAGES
   pages: a subscription that is slower than that reads for itself. */
static void into_window(howdah_bus *bus, hw_page *page)
{
    hw_log_reader *reader = &bus->service->reader;
    size_t slot = (size_t)(++reader->pages % HW_WINDOW_PAGES);

    assert(page->number == 0);
    hw_page_drop(bus, reader->window[slot]);
    page->number = reader->pages;
    reader->window[slot] = page;
}

/* The first page of the window that some subscription may still take. */
static int64_t first_needed(const howdah_bus *bus)
{
    int64_t first = bus->service->reader.pages + 1;

    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (hw_sub_is_live(sub) && sub->reading.next_page < first)
            first = sub->reading.next_page;
        /* What it reads for itself may end where a page of the window goes on. */
        if (hw_sub_is_catching_up(sub) && (hw_sub_is_busy(sub) || sub->work.page))
            return 0;
    }
    return first;
}

/* A bus at rest does not keep its last burst of events.  A subscription that misses a page reads
   for itself. */
static void drop_passed(howdah_bus *bus)
{
    hw_log_reader *reader = &bus->service->reader;
    int64_t first = first_needed(bus);

    for (size_t i = 0; i < HW_WINDOW_PAGES; i++) {
        if (reader->window[i] && reader->window[i]->number < first) {
            hw_page_drop(bus, reader->window[i]);
            reader->window[i] = NULL;
        }
    }
}

/* The number is compared as well: the slot may have another page by now. */
hw_page *hw_log_reader_page(const hw_log_reader *reader, int64_t number)
{
    hw_page *page = number > 0 ? reader->window[number % HW_WINDOW_PAGES] : NULL;

    return page && page->number == number ? page : NULL;
}

/* The frontier learns of every row; the last one of all is what the reader stands on. */
static int see_rows(howdah_bus *bus, const hw_page *page, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    int64_t now = hw_clock_mono_ms();
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < page->n; i++) {
        bool is_new = false;

        s = hw_frontier_see(&reader->frontier, page->events[i].global_sequence, now, &is_new,
                            reterr);
        if (s >= 0 && page->events[i].global_sequence == reader->frontier.high)
            reader->top = (hw_anchor){page->events[i].global_sequence, page->events[i].id};
    }
    return s;
}

/* Rows first, so that what they show is no hole any more when the verdict comes.  *ret_resolved:
   how many numbers turned out to be dead. */
static int judge(howdah_bus *bus, hw_page *page, bool verdict, const hw_ranges *alive,
                 int64_t *ret_resolved, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    int s = see_rows(bus, page, reterr);

    if (s >= 0 && verdict) {
        s = hw_frontier_keep(&reader->frontier, alive, ret_resolved, reterr);
        if (s >= 0)
            s = hw_holes_put_aside(bus, reterr);
    }
    return s < 0 ? s : note_holes(page, reader, reterr);
}

/* The order matters: evidence taken after the rows would call dead what committed in between. */
int hw_log_reader_round(howdah_bus *bus, bool *ret_news, howdah_error *reterr)
{
    hw_log_reader *reader = &bus->service->reader;
    hw_ranges alive = HW_RANGES_INIT;
    hw_page *page = NULL;
    bool looked = false;
    bool whole = true;
    bool sound = true;
    int64_t resolved = 0;
    int s = hw_holes_look(bus, &looked, &alive, reterr);

    *ret_news = false;
    if (s >= 0)
        s = new_page(&page, reterr);
    if (s >= 0)
        s = read_edge(bus, page, &whole, reterr);
    if (s >= 0 && page->n > 0)
        s = hw_holes_confirm(bus, &sound, reterr);
    else
        reader->freed_from = INT64_MAX;
    /* A full page may have left rows inside holes unread after its last row: no verdict there. */
    reader->read_upto =
        s >= 0 && page->full ? page->events[page->n - 1].global_sequence : INT64_MAX;
    if (s >= 0 && looked && reader->read_upto < INT64_MAX)
        s = hw_ranges_add(&alive, reader->read_upto + 1, INT64_MAX, reterr);
    if (s >= 0 && sound)
        s = judge(bus, page, looked && whole, &alive, &resolved, reterr);
    hw_ranges_done(&alive);
    if (s < 0) {
        /* What the frontier has seen nobody has been given: start anew. */
        hw_page_drop(bus, page);
        hw_log_reader_reset(bus);
        return s;
    }
    reader->more = page->full || !sound;
    if (!sound) { /* read again, together with what has come out of standing still */
        hw_page_drop(bus, page);
        return HOWDAH_OK;
    }
    reader->rows = adapt(reader->rows, ROWS_MAX, page);
    page->upto = reader->frontier.high;
    page->anchor = reader->top;
    *ret_news = page->n > 0 || resolved > 0 || reader->told != reader->versions;
    reader->told = reader->versions;
    if (*ret_news) {
        into_window(bus, page);
    } else {
        hw_page_drop(bus, page);
        drop_passed(bus);
    }
    return hw_holes_store_proven(bus, reterr);
}

/* Counters go on: a number that came back would be taken for what it was before. */
void hw_log_reader_reset(howdah_bus *bus)
{
    hw_log_reader *reader = &bus->service->reader;
    int64_t pages = reader->pages;
    uint64_t session = reader->session;
    uint64_t versions = reader->versions;
    uint64_t starts = reader->starts;
    int64_t prove_ms = reader->prove_ms;

    for (size_t i = 0; i < HW_WINDOW_PAGES; i++)
        hw_page_drop(bus, reader->window[i]);
    hw_frontier_done(&reader->frontier);
    hw_holders_done(&reader->holders);
    hw_still_drop(reader->still);
    hw_late_done(&reader->late);
    hw_ranges_done(&reader->proven_holes);
    hw_log_reader_init(reader);
    reader->starts = starts + 1;
    reader->pages = pages + 1;       /* no number of a page comes back, */
    reader->versions = versions + 1; /* and no version of what stands still */
    hw_late_init(&reader->late, reader->versions);
    reader->prove_ms = prove_ms;
    reader->session = session;
    for (howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (hw_sub_is_live(sub))
            hw_sub_move(sub, HW_STATE_CATCHING_UP);
        sub->reading.met_sequence = sub->reading.met_version = 0; /* the log may be another one */
    }
}

void hw_log_reader_done(howdah_bus *bus)
{
    hw_log_reader_reset(bus);
}

/* ------------------------------------------------- what a subscription reads */

/* A stream of its own is read by version: what was met before is not looked through again. */
static void filter_by(const howdah_subscription *sub, hw_query *query)
{
    if (sub->filter.stream.s && query->ranges_n > 0) {
        query->only_stream = sub->filter.stream;
        query->only_from =
            query->ranges[0].first > sub->reading.met_sequence ? sub->reading.met_version + 1 : 1;
    }
    if (!sub->pattern)
        return;
    query->pattern = hw_str_of(sub->pattern);
    hw_pattern_to_type(&query->type, &query->pattern);
    query->sparse = sub->reading.sparse;
}

/* How far down the reader has to know the log for this subscription. */
static int64_t lowest_wanted(const howdah_subscription *sub)
{
    const hw_delivery *d = &sub->d;
    const hw_ranges *still = hw_still_ranges(sub->place.still);
    int64_t lowest = d->high + 1;

    if (d->missing.n > 0 && d->missing.items[0].first < lowest)
        lowest = d->missing.items[0].first;
    if (still->n > 0 && still->items[0].first < lowest)
        lowest = still->items[0].first;
    return lowest;
}

/* Decides how the next page is read: by the index of the type where few events match, else along
   the log.  A short span says nothing. */
static void judge_density(howdah_subscription *sub, int64_t first, const hw_page *page)
{
    int64_t span = page->n > 0 && page->full ? page->events[page->n - 1].global_sequence - first + 1
                                             : page->upto - first + 1;

    if (sub->pattern && span >= HW_ROWS_FIRST)
        sub->reading.sparse = span / HW_SPARSE_BELOW > (int64_t)page->n;
}

/* Below the frontier's high it is not known what was seen last: the rows themselves tell. */
static hw_anchor anchor_at(const hw_log_reader *reader, int64_t upto)
{
    return upto >= reader->top.sequence ? reader->top : (hw_anchor){.sequence = 0};
}

/* Many pages with one cursor, which the store may fetch ahead.  Only without holes: the cursor
   does not see what appears below the place where it is. */
static int open_stream(howdah_subscription *sub, int64_t to, howdah_error *reterr)
{
    hw_query query = {
        .from = sub->d.high + 1, .to = to, .batch = (size_t)sub->options.catch_up_batch};

    filter_by(sub, &query);
    sub->reading.stream_to = to;
    sub->reading.stream_top = anchor_at(&sub->bus->service->reader, to);
    return sub->bus->store->ops->read_open(sub->bus->store, &query, &sub->reading.stream, reterr);
}

static void close_stream(howdah_subscription *sub)
{
    if (sub->reading.stream)
        sub->bus->store->ops->read_close(sub->reading.stream);
    sub->reading.stream = NULL;
}

/* The next page of the stream.  A stream that ends has passed everything up to stream_to.  The
   page borrows the stream's cursor: dropping the page does not close it. */
static int next_of_stream(howdah_subscription *sub, hw_page *page, howdah_error *reterr)
{
    const hw_store_ops *ops = sub->bus->store->ops;
    int s = ops->read_next(sub->reading.stream, &page->events, &page->n, reterr);

    page->keeps_cursor = true;
    page->full = s == HOWDAH_OK;
    if (s >= 0) {
        int known = check_log(sub->bus, reterr);

        s = known < 0 ? known : s;
    }
    if (s == HOWDAH_OK) {
        page->upto = page->events[page->n - 1].global_sequence;
        return HOWDAH_OK;
    }
    page->n = 0;
    page->upto = sub->reading.stream_to;
    page->anchor = sub->reading.stream_top;
    close_stream(sub);
    return s < 0 ? s : HOWDAH_OK;
}

/* How far its stream has been met: what comes after it has later versions, and the next read can
   start there. */
static void meet_stream(howdah_subscription *sub, const hw_page *page)
{
    for (size_t i = page->n; sub->filter.stream.s && i > 0; i--) {
        const howdah_event *event = &page->events[i - 1];

        if (!hw_str_equal(event->stream, sub->filter.stream))
            continue;
        if (event->global_sequence > sub->reading.met_sequence) {
            sub->reading.met_sequence = event->global_sequence;
            sub->reading.met_version = event->version;
        }
        return;
    }
}

/* One page of the numbers that the subscription lacks.  If it reaches the reader's frontier, the
   subscription goes on with the next page of the window (joins). */
static int read_wanted(howdah_subscription *sub, const hw_ranges *wanted, int64_t upto,
                       hw_page *page, howdah_error *reterr)
{
    hw_str none = NO_PAYLOAD;
    hw_query query = {.ranges = wanted->items,
                      .ranges_n = wanted->n,
                      .batch = sub->reading.rows,
                      .payload_of = &none,
                      .payload_of_n = sub->kind == HW_KIND_ROUTER ? 1 : 0};
    int s;

    filter_by(sub, &query);
    s = read_page(sub->bus, &query, page, reterr);
    if (s < 0)
        return s;
    meet_stream(sub, page);
    page->upto = page->full ? page->events[page->n - 1].global_sequence : upto;
    page->anchor = anchor_at(&sub->bus->service->reader, page->upto);
    if (!page->full && upto == sub->bus->service->reader.frontier.high)
        page->joins = sub->bus->service->reader.pages + 1;
    judge_density(sub, wanted->items[0].first, page);
    sub->reading.rows = adapt(sub->reading.rows, (size_t)sub->options.catch_up_batch, page);
    return HOWDAH_OK;
}

/*
 * Whether a stream of pages will do: nothing is missing, and what is wanted begins right after
 * high.  Wildcards go page by page, because each page decides anew whether the pattern is sparse;
 * routers do too, because they read without payloads.  The last few events come as a page, which
 * joins the window: while a stream comes to its end the log goes on, and would always be ahead.
 */
static bool is_plain(const howdah_subscription *sub, const hw_ranges *wanted)
{
    if (sub->kind == HW_KIND_ROUTER || sub->filter.stream.s)
        return false;
    if (sub->pattern && !hw_pattern_is_exact(hw_str_of(sub->pattern)))
        return false;
    return sub->bus->service->reader.frontier.holes_n == 0 && wanted->n == 1 &&
           wanted->items[0].first == sub->d.high + 1 &&
           wanted->items[0].last - sub->d.high > (int64_t)sub->reading.rows;
}

/* As far as it may read.  With strict order nothing may be given out past a number that may still
   appear, so it stops before the first one that stands still. */
static int64_t readable(const howdah_subscription *sub)
{
    const hw_log_reader *reader = &sub->bus->service->reader;
    int64_t to = reader->frontier.high;
    int64_t still = INT64_MAX;

    if (sub->d.config.ordering == HOWDAH_ORDERING_STRICT)
        still = hw_holes_first_still(reader, 0);
    return to < still ? to : still - 1;
}

/* *ret_any: there was something to read; HOWDAH_END: rows came that must not be used yet. */
static int read_wanted_page(howdah_subscription *sub, hw_page *page, bool *ret_any,
                            howdah_error *reterr)
{
    const hw_frontier *f = &sub->bus->service->reader.frontier;
    hw_ranges wanted = HW_RANGES_INIT;
    bool sound = true;
    int64_t upto = 0;
    int s =
        hw_delivery_wanted(&sub->d, readable(sub), f->holes, f->holes_n, &wanted, &upto, reterr);

    *ret_any = s >= 0 && (wanted.n > 0 || sub->reading.stream);
    if (s >= 0 && *ret_any && !sub->reading.stream && is_plain(sub, &wanted))
        s = open_stream(sub, upto, reterr);
    if (s >= 0 && *ret_any && sub->reading.stream) {
        s = next_of_stream(sub, page, reterr);
    } else if (s >= 0 && *ret_any) {
        s = read_wanted(sub, &wanted, upto, page, reterr);
        if (s >= 0 && page->n > 0)
            s = hw_holes_confirm(sub->bus, &sound, reterr);
    }
    hw_ranges_done(&wanted);
    return s < 0 ? s : sound ? HOWDAH_OK : HOWDAH_END;
}

/*
 * A reader that starts anew knows nothing of the log before.  After a pooler has led it to an
 * older copy of the log, that copy looks like any other to it.  The event that the subscription
 * stands on tells them apart.
 */
static int check_place(howdah_subscription *sub, howdah_error *reterr)
{
    const hw_log_reader *reader = &sub->bus->service->reader;
    int s;

    if (sub->reading.met_reader == reader->starts)
        return HOWDAH_OK;
    s = hw_sub_ops_of(sub->bus)->confirm(sub->bus->store, &sub->place.anchor, reterr);
    if (s >= 0)
        s = check_log(sub->bus, reterr);
    if (s >= 0)
        sub->reading.met_reader = reader->starts;
    return s;
}

/* The holes are noted before the rows are read (subscription.h I2): a number that is then neither
   row nor hole is dead, or does not match. */
int hw_log_reader_read_own(howdah_subscription *sub, hw_page **ret_page, howdah_error *reterr)
{
    hw_log_reader *reader = &sub->bus->service->reader;
    hw_page *page = NULL;
    bool any = false;
    bool same;
    int s = hw_holes_cover(sub->bus, lowest_wanted(sub) - 1, reterr);

    if (s == HOWDAH_OK && hw_sub_state_of(sub) == HW_STATE_TAKEN) { /* holes.c I5 */
        s = hw_holes_refresh(sub->bus, reterr);
        if (s == HOWDAH_OK)
            hw_sub_move(sub, HW_STATE_CATCHING_UP);
    }
    *ret_page = NULL;
    if (s != HOWDAH_OK)
        return s;
    s = check_place(sub, reterr);
    if (s >= 0)
        s = new_page(&page, reterr);
    if (s >= 0)
        s = note_holes(page, reader, reterr);
    same = s >= 0 && sub->place.still == page->still;
    if (s >= 0)
        s = hw_holes_adopt(sub, page, true, reterr);
    /* A stream knows nothing of what has come out of standing still: below high, or above, where it
       may have passed already. */
    if (s >= 0 && (!same || sub->d.missing.n > 0))
        close_stream(sub);
    if (s >= 0)
        s = read_wanted_page(sub, page, &any, reterr);
    if (s != HOWDAH_OK || !any) {
        hw_page_drop(sub->bus, page);
        return s;
    }
    *ret_page = page;
    return HOWDAH_OK;
}

/* Rows that were delivered before and are due again.  They are asked for one by one: there are
   few, and they may lie far apart. */
int hw_log_reader_read_again(howdah_subscription *sub, hw_page **ret_page, howdah_error *reterr)
{
    hw_range ranges[HW_AGAIN_ROWS];
    hw_query query = {.ranges = ranges, .ranges_n = sub->work.asked_n, .batch = sub->work.asked_n};
    hw_page *page = NULL;
    int s;

    assert(sub->work.asked_n > 0 && sub->work.asked_n <= HW_AGAIN_ROWS);
    s = new_page(&page, reterr);
    if (s < 0)
        return s;
    for (size_t i = 0; i < sub->work.asked_n; i++)
        ranges[i] = (hw_range){sub->work.asked[i], sub->work.asked[i]};
    s = read_page(sub->bus, &query, page, reterr);
    if (s < 0) {
        hw_page_drop(sub->bus, page);
        return s;
    }
    *ret_page = page;
    return HOWDAH_OK;
}
