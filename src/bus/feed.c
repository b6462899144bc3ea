/*
 * feed.c - the one reader of a bus: it knows the log's edge and feeds all subscriptions.
 *
 * The order of a round is that of engine/frontier.h: evidence, rows, verdict.  What a subscription
 * reads for itself is bounded by the frontier as it was before that read (subscription.h I2).
 */
#include <assert.h>
#include <string.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "bus/subscription.h"
#include "engine/pattern.h"

#define LOOK_EVERY_MS 20
#define ROWS_MAX 1000
#define PAGE_BYTES ((size_t)2 * 1024 * 1024)
/* Writers mostly end within this time; until then a look back at all numbers is put off. */
#define PATIENCE_MS 200
#define END_PATIENCE_MS 10000
/* A filtered read that finds fewer than one in so many numbers goes by the index of types. */
#define SPARSE_BELOW 20

void hw_feed_init(hw_feed *feed)
{
    *feed = (hw_feed){.rows = HW_ROWS_FIRST};
    hw_frontier_init(&feed->frontier, 0);
    hw_owners_init(&feed->owners);
}

/* ---------------------------------------------------------------- pages */

void hw_page_drop(howdah_bus *bus, hw_page *page)
{
    if (!page || --page->refs > 0)
        return;
    if (page->cursor && !page->keeps_cursor)
        bus->store->ops->read_close(page->cursor);
    hw_free(page->holes);
    hw_free(page);
}

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
static int note_holes(hw_page *page, const hw_frontier *f, howdah_error *reterr)
{
    if (f->holes_n == 0)
        return HOWDAH_OK;
    page->holes = hw_calloc(f->holes_n, sizeof *page->holes);
    if (!page->holes)
        return hw_fail_no_memory(reterr);
    memcpy(page->holes, f->holes, f->holes_n * sizeof *page->holes);
    page->holes_n = f->holes_n;
    return HOWDAH_OK;
}

/*
 * A read that had to connect anew met a log of which nothing that is known here need be true (a
 * standby that took over, a server that lost its last moments): what it read is not used.
 */
static int check_session(howdah_bus *bus, howdah_error *reterr)
{
    uint64_t session = 0;
    int s = hw_sub_ops_of(bus)->session(bus->store, &session, reterr);

    if (s >= 0 && session != bus->service->feed.session)
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "the connection was lost and made anew");
    return s;
}

/* Opens the query and takes its only page. */
static int read_page(howdah_bus *bus, hw_query *query, hw_page *page, howdah_error *reterr)
{
    const hw_store_ops *ops = bus->store->ops;
    int s;

    query->limit = (int64_t)query->batch;
    s = ops->read_open(bus->store, query, &page->cursor, reterr);
    if (s < 0)
        return s;
    s = ops->read_next(page->cursor, &page->events, &page->n, reterr);
    if (s == HOWDAH_END)
        page->n = 0;
    page->full = s == HOWDAH_OK && (page->n == query->batch || page->cursor->more);
    return s < 0 ? s : check_session(bus, reterr);
}

/* --------------------------------------------------------------- evidence */

/* Looks and transaction ids are not to be compared: fences of the other kind are void. */
static void go_by_fence(hw_feed *feed)
{
    if (feed->by_fence)
        return;
    feed->by_fence = true;
    for (size_t i = 0; i < feed->frontier.holes_n; i++)
        feed->frontier.holes[i].fence = 0;
}

/* Who has drawn numbers and has not ended; HOWDAH_END when that cannot be told. */
static int look(howdah_bus *bus, howdah_error *reterr)
{
    hw_feed *feed = &bus->service->feed;
    uint64_t *ids = NULL;
    size_t n = 0;
    int s = bus->store->ops->subs->owners(bus->store, &ids, &n, reterr);

    if (s == HOWDAH_OK)
        s = hw_owners_look(&feed->owners, ids, n, reterr);
    else if (s == HOWDAH_END)
        go_by_fence(feed);
    hw_free(ids);
    feed->look_ms = hw_clock_mono_ms();
    return s;
}

/* The horizon for this round; 0 when it is too early to look again. */
static int take_evidence(howdah_bus *bus, uint64_t *ret_horizon, howdah_error *reterr)
{
    hw_feed *feed = &bus->service->feed;
    int s = HOWDAH_OK;

    *ret_horizon = 0;
    if (feed->frontier.holes_n == 0 || hw_clock_mono_ms() - feed->look_ms < LOOK_EVERY_MS)
        return HOWDAH_OK;
    if (!feed->by_fence) {
        s = look(bus, reterr);
        if (s == HOWDAH_OK) {
            hw_frontier_fence(&feed->frontier, hw_owners_fence(&feed->owners));
            *ret_horizon = hw_owners_horizon(&feed->owners);
        }
        if (s != HOWDAH_END)
            return s;
    }
    feed->look_ms = hw_clock_mono_ms();
    return bus->store->ops->horizon(bus->store, ret_horizon, reterr);
}

static int fence_new_holes(howdah_bus *bus, howdah_error *reterr)
{
    uint64_t fence = 0;
    int s;

    if (!bus->service->feed.by_fence || !hw_frontier_wants_fence(&bus->service->feed.frontier))
        return HOWDAH_OK;
    s = bus->store->ops->fence(bus->store, &fence, reterr);
    if (s >= 0)
        hw_frontier_fence(&bus->service->feed.frontier, fence);
    return s;
}

/* --------------------------------------------------------------- coverage */

typedef struct gap_walk {
    hw_frontier *frontier;
    int status;
    howdah_error *reterr;
} gap_walk;

static int on_gap(void *ctx, hw_range range)
{
    gap_walk *w = ctx;

    w->status =
        hw_frontier_add(w->frontier, range.first, range.last, hw_clock_mono_ms(), w->reterr);
    return w->status < 0 ? 1 : 0;
}

static int start(howdah_bus *bus, howdah_error *reterr)
{
    hw_feed *feed = &bus->service->feed;
    int64_t head = 0;
    int s;

    if (feed->started)
        return HOWDAH_OK;
    s = bus->store->ops->head(bus->store, &head, reterr);
    if (s < 0)
        return s;
    hw_feed_reset(bus);
    hw_frontier_init(&feed->frontier, head);
    feed->low = head;
    feed->started = true;
    return HOWDAH_OK;
}

/* What is missing below becomes holes, each to be proven; LIMIT when there are too many. */
static int look_back(howdah_bus *bus, int64_t low, howdah_error *reterr)
{
    hw_feed *feed = &bus->service->feed;
    gap_walk walk = {&feed->frontier, HOWDAH_OK, reterr};
    int s = bus->store->ops->subs->gaps(bus->store, low + 1, feed->low, on_gap, &walk, reterr);

    if (s >= 0)
        s = walk.status;
    if (s >= 0)
        s = fence_new_holes(bus, reterr);
    if (s >= 0)
        feed->low = low;
    return s < 0 ? s : HOWDAH_OK;
}

/*
 * Numbers up to the frontier were drawn before this look: once nobody of it is left, whatever is
 * not visible is dead, and there is nothing to be looked for.  Only when that takes long, because
 * some transaction does, the missing numbers are counted one by one.
 */
int hw_feed_cover(howdah_bus *bus, int64_t low, howdah_error *reterr)
{
    hw_feed *feed = &bus->service->feed;
    int64_t now = hw_clock_mono_ms();
    int s = start(bus, reterr);

    if (s < 0 || low >= feed->low)
        return s;
    s = feed->by_fence ? HOWDAH_END : look(bus, reterr);
    if (s == HOWDAH_END)
        return look_back(bus, low, reterr);
    if (s < 0)
        return s;
    if (feed->cover_fence == 0 || low < feed->cover_low) {
        feed->cover_fence = hw_owners_fence(&feed->owners);
        feed->cover_low = low;
        feed->cover_ms = now;
    }
    if (hw_owners_horizon(&feed->owners) >= feed->cover_fence) {
        feed->low = feed->cover_low;
        feed->cover_fence = 0;
        return HOWDAH_OK;
    }
    if (now - feed->cover_ms < PATIENCE_MS)
        return HOWDAH_END;
    s = look_back(bus, low, reterr);
    return s == HOWDAH_LIMIT ? HOWDAH_END : s;
}

int hw_feed_end(howdah_bus *bus, int64_t *ret_high, hw_ranges *ret_owed, howdah_error *reterr)
{
    hw_feed *feed = &bus->service->feed;
    int64_t until = hw_clock_mono_ms() + END_PATIENCE_MS;
    bool news = false;
    int s;

    hw_feed_reset(bus);
    s = hw_sub_ops_of(bus)->session(bus->store, &feed->session, reterr);
    if (s < 0)
        return s;
    while ((s = hw_feed_cover(bus, 0, reterr)) == HOWDAH_END) {
        if (hw_clock_mono_ms() > until)
            return hw_fail(reterr, HOWDAH_LIMIT,
                           "too many numbers are missing to tell which may still appear, while a "
                           "transaction is open");
        s = hw_sleep(&bus->interrupt, LOOK_EVERY_MS, reterr);
        if (s < 0)
            return s;
    }
    if (s >= 0)
        s = hw_feed_round(bus, &news, reterr);
    while (s >= 0 && feed->more)
        s = hw_feed_round(bus, &news, reterr);
    for (size_t i = 0; s >= 0 && i < feed->frontier.holes_n; i++)
        s = hw_ranges_add(ret_owed, feed->frontier.holes[i].first, feed->frontier.holes[i].last,
                          reterr);
    if (s >= 0)
        *ret_high = feed->frontier.high;
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------------------ rounds */

/* As a pattern: no type is empty. */
#define NO_PAYLOAD HW_STR_LIT("")

/* Payloads are fetched of what some subscription wants; routers want none. */
static size_t wanted_patterns(const howdah_bus *bus, hw_str *out, size_t room)
{
    bool routers = false;
    size_t n = 0;

    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (sub->phase != HW_PHASE_BEHIND && sub->phase != HW_PHASE_HEAD)
            continue;
        routers = routers || sub->route;
        if (sub->route)
            continue;
        if (!sub->pattern || n == room)
            return 0; /* all */
        out[n++] = hw_str_of(sub->pattern);
    }
    if (n == 0 && routers)
        out[n++] = NO_PAYLOAD;
    return n;
}

static int read_edge(howdah_bus *bus, hw_page *page, howdah_error *reterr)
{
    hw_feed *feed = &bus->service->feed;
    const hw_frontier *f = &feed->frontier;
    hw_str patterns[32];
    hw_range *ranges = hw_calloc(f->holes_n + 1, sizeof *ranges);
    hw_query query = {.ranges = ranges,
                      .ranges_n = f->holes_n + 1,
                      .batch = feed->rows,
                      .payload_of = patterns,
                      .payload_of_n = wanted_patterns(bus, patterns, 32)};
    int s;

    if (!ranges)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < f->holes_n; i++)
        ranges[i] = (hw_range){f->holes[i].first, f->holes[i].last};
    ranges[f->holes_n] = (hw_range){f->high + 1, INT64_MAX};
    s = read_page(bus, &query, page, reterr);
    hw_free(ranges);
    return s;
}

static void into_window(howdah_bus *bus, hw_page *page)
{
    hw_feed *feed = &bus->service->feed;
    size_t slot = (size_t)(++feed->pages % HW_WINDOW_PAGES);

    hw_page_drop(bus, feed->window[slot]);
    page->number = feed->pages;
    feed->window[slot] = page;
}

/* The first page of the window that some subscription may still take. */
static int64_t first_needed(const howdah_bus *bus)
{
    int64_t first = bus->service->feed.pages + 1;

    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (sub->phase == HW_PHASE_HEAD && sub->next_page < first)
            first = sub->next_page;
        /* What it reads for itself may end where a page of the window goes on. */
        if (sub->phase == HW_PHASE_BEHIND && (sub->busy || sub->page))
            return 0;
    }
    return first;
}

/* A bus at rest does not keep the last burst; whoever misses a page reads for itself. */
static void drop_passed(howdah_bus *bus)
{
    hw_feed *feed = &bus->service->feed;
    int64_t first = first_needed(bus);

    for (size_t i = 0; i < HW_WINDOW_PAGES; i++) {
        if (feed->window[i] && feed->window[i]->number < first) {
            hw_page_drop(bus, feed->window[i]);
            feed->window[i] = NULL;
        }
    }
}

hw_page *hw_feed_page(const hw_feed *feed, int64_t number)
{
    hw_page *page = number > 0 ? feed->window[number % HW_WINDOW_PAGES] : NULL;

    return page && page->number == number ? page : NULL;
}

static int see_rows(howdah_bus *bus, const hw_page *page, howdah_error *reterr)
{
    hw_feed *feed = &bus->service->feed;
    int64_t now = hw_clock_mono_ms();
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < page->n; i++) {
        bool is_new = false;

        s = hw_frontier_see(&feed->frontier, page->events[i].global_sequence, now, &is_new, reterr);
    }
    /* Planted: a look from before these rows. */
    if (HW_BUG(OWNERS_BEFORE_HOLE) && !feed->by_fence && feed->owners.look > 0)
        hw_frontier_fence(&feed->frontier, hw_owners_fence(&feed->owners));
    return s;
}

int hw_feed_round(howdah_bus *bus, bool *ret_news, howdah_error *reterr)
{
    hw_feed *feed = &bus->service->feed;
    hw_page *page = NULL;
    uint64_t horizon = 0;
    int64_t buried = 0;
    int s = HW_BUG(ROWS_BEFORE_PROOF) ? HOWDAH_OK : take_evidence(bus, &horizon, reterr);

    if (s >= 0)
        s = new_page(&page, reterr);
    if (s < 0)
        return s;
    s = read_edge(bus, page, reterr);
    if (s >= 0)
        s = see_rows(bus, page, reterr);
    if (HW_BUG(ROWS_BEFORE_PROOF) && s >= 0) /* planted: only now */
        s = take_evidence(bus, &horizon, reterr);
    /* A full page may have left rows inside holes unread: no verdict from it. */
    if (s >= 0 && !page->full)
        buried = hw_frontier_bury(&feed->frontier, horizon);
    if (s >= 0)
        s = fence_new_holes(bus, reterr);
    if (s >= 0)
        s = note_holes(page, &feed->frontier, reterr);
    if (s < 0) {
        /* What the frontier has seen nobody has been given: start anew. */
        hw_page_drop(bus, page);
        hw_feed_reset(bus);
        return s;
    }
    feed->more = page->full;
    feed->rows = adapt(feed->rows, ROWS_MAX, page);
    page->upto = feed->frontier.high;
    *ret_news = page->n > 0 || buried > 0;
    if (*ret_news) {
        into_window(bus, page);
    } else {
        hw_page_drop(bus, page);
        drop_passed(bus);
    }
    return HOWDAH_OK;
}

void hw_feed_reset(howdah_bus *bus)
{
    hw_feed *feed = &bus->service->feed;
    int64_t pages = feed->pages;
    uint64_t session = feed->session;

    for (size_t i = 0; i < HW_WINDOW_PAGES; i++)
        hw_page_drop(bus, feed->window[i]);
    hw_frontier_done(&feed->frontier);
    hw_owners_done(&feed->owners);
    hw_feed_init(feed);
    feed->pages = pages + 1; /* no number of a page comes back */
    feed->session = session;
    for (howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (sub->phase == HW_PHASE_HEAD)
            sub->phase = HW_PHASE_BEHIND;
        sub->met_sequence = sub->met_version = 0; /* the log may be another one */
    }
}

void hw_feed_done(howdah_bus *bus)
{
    hw_feed_reset(bus);
    hw_frontier_done(&bus->service->feed.frontier);
    hw_owners_done(&bus->service->feed.owners);
}

/* ------------------------------------------------- what a subscription reads */

static void filter_by(const howdah_subscription *sub, hw_query *query)
{
    hw_str pattern = hw_str_of(sub->pattern);

    if (sub->filter.stream.s && query->ranges_n > 0) {
        query->only_stream = sub->filter.stream;
        query->only_from = query->ranges[0].first > sub->met_sequence ? sub->met_version + 1 : 1;
    }
    if (!sub->pattern)
        return;
    if (hw_pattern_is_exact(pattern))
        query->type = pattern;
    else
        query->pattern = pattern;
    query->sparse = sub->sparse;
}

static int64_t lowest_wanted(const hw_delivery *d)
{
    return d->missing.n > 0 && d->missing.items[0].first <= d->high ? d->missing.items[0].first
                                                                    : d->high + 1;
}

/* How many of the numbers that the page spans did match? */
static void judge_density(howdah_subscription *sub, int64_t first, const hw_page *page)
{
    int64_t span = page->n > 0 && page->full ? page->events[page->n - 1].global_sequence - first + 1
                                             : page->upto - first + 1;

    if (sub->pattern && span >= HW_ROWS_FIRST)
        sub->sparse = span / SPARSE_BELOW > (int64_t)page->n;
}

static int open_stream(howdah_subscription *sub, int64_t to, howdah_error *reterr)
{
    hw_query query = {
        .from = sub->d.high + 1, .to = to, .batch = (size_t)sub->options.catch_up_batch};

    filter_by(sub, &query);
    sub->stream_to = to;
    return sub->bus->store->ops->read_open(sub->bus->store, &query, &sub->stream, reterr);
}

/* The next page of the stream; a stream that ends has passed all up to stream_to. */
static int next_of_stream(howdah_subscription *sub, hw_page *page, howdah_error *reterr)
{
    const hw_store_ops *ops = sub->bus->store->ops;
    int s = ops->read_next(sub->stream, &page->events, &page->n, reterr);

    page->keeps_cursor = true;
    page->full = s == HOWDAH_OK;
    if (s >= 0) {
        int known = check_session(sub->bus, reterr);

        s = known < 0 ? known : s;
    }
    if (s == HOWDAH_OK) {
        page->upto = page->events[page->n - 1].global_sequence;
        return HOWDAH_OK;
    }
    page->n = 0;
    page->upto = sub->stream_to;
    ops->read_close(sub->stream);
    sub->stream = NULL;
    return s < 0 ? s : HOWDAH_OK;
}

/* How far its stream has been met: what comes behind has later versions. */
static void meet_stream(howdah_subscription *sub, const hw_page *page)
{
    for (size_t i = page->n; sub->filter.stream.s && i > 0; i--) {
        const howdah_event *event = &page->events[i - 1];

        if (!hw_str_equal(event->stream, sub->filter.stream))
            continue;
        if (event->global_sequence > sub->met_sequence) {
            sub->met_sequence = event->global_sequence;
            sub->met_version = event->version;
        }
        return;
    }
}

static int read_wanted(howdah_subscription *sub, const hw_ranges *wanted, int64_t upto,
                       hw_page *page, howdah_error *reterr)
{
    hw_str none = NO_PAYLOAD;
    hw_query query = {.ranges = wanted->items,
                      .ranges_n = wanted->n,
                      .batch = sub->rows,
                      .payload_of = &none,
                      .payload_of_n = sub->route ? 1 : 0};
    int s = note_holes(page, &sub->bus->service->feed.frontier, reterr);

    filter_by(sub, &query);
    if (s >= 0)
        s = read_page(sub->bus, &query, page, reterr);
    if (s < 0)
        return s;
    meet_stream(sub, page);
    page->upto = page->full ? page->events[page->n - 1].global_sequence : upto;
    if (!page->full && upto == sub->bus->service->feed.frontier.high)
        page->joins = sub->bus->service->feed.pages + 1;
    judge_density(sub, wanted->items[0].first, page);
    sub->rows = adapt(sub->rows, (size_t)sub->options.catch_up_batch, page);
    return HOWDAH_OK;
}

/* Wildcards go page by page, each judged whether its pattern is sparse; so do routers, which read
   without payloads. */
static bool is_plain(const howdah_subscription *sub, const hw_ranges *wanted)
{
    if (sub->route || sub->filter.stream.s)
        return false;
    if (sub->pattern && !hw_pattern_is_exact(hw_str_of(sub->pattern)))
        return false;
    return sub->bus->service->feed.frontier.holes_n == 0 && wanted->n == 1 &&
           wanted->items[0].first == sub->d.high + 1;
}

int hw_feed_read_own(howdah_subscription *sub, hw_page **ret_page, howdah_error *reterr)
{
    hw_feed *feed = &sub->bus->service->feed;
    hw_ranges wanted = HW_RANGES_INIT;
    hw_page *page = NULL;
    int64_t upto = 0;
    int s = hw_feed_cover(sub->bus, lowest_wanted(&sub->d) - 1, reterr);

    *ret_page = NULL;
    if (s != HOWDAH_OK)
        return s;
    s = hw_delivery_wanted(&sub->d, feed->frontier.high, feed->frontier.holes,
                           feed->frontier.holes_n, &wanted, &upto, reterr);
    if (s >= 0 && (wanted.n > 0 || sub->stream))
        s = new_page(&page, reterr);
    if (s >= 0 && page && !sub->stream && is_plain(sub, &wanted))
        s = open_stream(sub, upto, reterr);
    if (s >= 0 && page)
        s = sub->stream ? next_of_stream(sub, page, reterr)
                        : read_wanted(sub, &wanted, upto, page, reterr);
    hw_ranges_done(&wanted);
    if (s < 0) {
        hw_page_drop(sub->bus, page);
        return s;
    }
    *ret_page = page;
    return HOWDAH_OK;
}

int hw_feed_read_again(howdah_subscription *sub, hw_page **ret_page, howdah_error *reterr)
{
    hw_range ranges[HW_AGAIN_ROWS];
    hw_query query = {.ranges = ranges, .ranges_n = sub->asked_n, .batch = sub->asked_n};
    hw_page *page = NULL;
    int s = new_page(&page, reterr);

    if (s < 0)
        return s;
    for (size_t i = 0; i < sub->asked_n; i++)
        ranges[i] = (hw_range){sub->asked[i], sub->asked[i]};
    s = read_page(sub->bus, &query, page, reterr);
    if (s < 0) {
        hw_page_drop(sub->bus, page);
        return s;
    }
    *ret_page = page;
    return HOWDAH_OK;
}
