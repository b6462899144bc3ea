/*
 * publisher.c - the line of submissions, the threads that serve it, and the watch; see publisher.h.
 *
 * One lock guards the line and everything that is not said to be atomic.  Nobody is told anything,
 * and no store is asked, while it is held.
 */
#include "bus/publisher/publisher.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sized.h"
#include "engine/backoff.h"

#define EVENTS_MAX 1000000
#define BYTES_MAX INT64_C(17179869184) /* 16 GiB */
#define TIME_MAX_MS 3600000
#define LOCK_TIMEOUT_MS 50
#define CONNECTS 4 /* tries to connect in a caller's time, at least */
#define ASIDE_FIRST_MS 20
#define ASIDE_MAX_MS 1000
#define LOCK_WAITS_MAX 8 /* of a round */
#define AWAY_FIRST_MS 20
#define AWAY_MAX_MS 1000

typedef struct session {
    howdah_publisher *publisher;
    howdah_bus *bus;
    pthread_t thread;
    hw_submission *round[HW_ROUND_EVENTS_MAX];
    size_t round_n;
    int64_t until_ms;  /* of the round under way; INT64_MAX: there is none, or it was interrupted */
    unsigned failures; /* rounds in a row for which the store was away */
    bool aside;        /* the round is of those that had stepped aside: then the others have one */
    bool has[HW_STREAM_SLOTS]; /* a stream here, with the round under way */
} session;

typedef enum state {
    OPEN,
    CLOSING, /* what waits is still stored, */
    ENDING   /* and now it is not any more */
} state;

struct howdah_publisher {
    howdah_publisher_options options;
    size_t payload_bytes_max;
    pthread_mutex_t lock;
    pthread_cond_t more;    /* for sessions: something came, or the state changed */
    pthread_cond_t closing; /* for the watch and for howdah_publisher_free() */
    hw_submission *first;
    hw_submission **last;
    state state;
    howdah_error trouble;       /* why the store does not answer; status 0: it does */
    unsigned idle_n;            /* sessions that wait */
    unsigned aside_n;           /* submissions in the line that have stepped aside */
    size_t aside_max;           /* so many of them go together: more as long as all goes well */
    bool busy[HW_STREAM_SLOTS]; /* a session has a stream here */
    uint32_t passed[HW_STREAM_SLOTS]; /* the look at the line that passed over a stream here */
    uint32_t look;
    session *sessions;
    size_t sessions_n;
    size_t threads_n;
    pthread_t watch;
    bool watched;
    _Atomic int64_t events; /* accepted and not answered */
    _Atomic int64_t bytes;
    _Atomic int64_t unanswered;
    _Atomic int64_t calls;
    _Atomic int64_t rounds;
    _Atomic int64_t refused;
};

/* The publisher whose callback this thread is in. */
static _Thread_local const howdah_publisher *calls_back;

/* ------------------------------------------------------------------ answering */

/* The counts first: whoever is told may submit the next one at once. */
static void answer(void *ctx, hw_submission *sub, int status, const howdah_error *err)
{
    howdah_publisher *publisher = ctx;

    (void)atomic_fetch_sub(&publisher->events, (int64_t)sub->n);
    (void)atomic_fetch_sub(&publisher->bytes, (int64_t)sub->batch.bytes);
    hw_batch_done(&sub->batch);
    if (sub->done) {
        const howdah_publisher *outer = calls_back;

        calls_back = publisher;
        sub->done(sub->ctx, status, err);
        calls_back = outer;
        hw_free(sub);
    } else {
        sem_t *answered = sub->answered;

        *sub->status = status;
        if (err)
            hw_error_copy(sub->reterr, err);
        (void)sem_post(answered); /* I1: sub is gone from here on */
    }
    (void)atomic_fetch_sub(&publisher->unanswered, 1);
}

/* ------------------------------------------------------------------- the line */

static void push(howdah_publisher *publisher, hw_submission *sub)
{
    sub->next = NULL;
    *publisher->last = sub;
    publisher->last = &sub->next;
}

/* The link that leads to it is given, so that it can be taken out of the middle. */
static hw_submission *take_out(howdah_publisher *publisher, hw_submission **link)
{
    hw_submission *sub = *link;

    *link = sub->next;
    if (!*link)
        publisher->last = link;
    if (sub->aside_until_ms > 0)
        publisher->aside_n--;
    sub->next = NULL;
    return sub;
}

/* What a round has left goes back to where it was: in front of all that came later (I3). */
static void put_back(howdah_publisher *publisher, hw_submission *const *round, size_t n)
{
    for (size_t i = n; i > 0; i--) {
        hw_submission *sub = round[i - 1];

        if (!sub)
            continue;
        if (!publisher->first)
            publisher->last = &sub->next;
        sub->next = publisher->first;
        publisher->first = sub;
        if (sub->aside_until_ms > 0)
            publisher->aside_n++;
    }
}

/* With one session, and nobody aside, whatever comes first may go first. */
static bool is_order_free(const howdah_publisher *publisher)
{
    return publisher->sessions_n == 1 && publisher->aside_n == 0;
}

static bool may_go(const howdah_publisher *publisher, const hw_submission *sub)
{
    if (is_order_free(publisher))
        return true;
    for (size_t i = 0; i < sub->batch.streams_n; i++) {
        size_t slot = hw_stream_slot(sub->batch.streams[i].name);

        if (publisher->busy[slot] || publisher->passed[slot] == publisher->look)
            return false;
    }
    return true;
}

static void pass_over(howdah_publisher *publisher, const hw_submission *sub)
{
    for (size_t i = 0; i < sub->batch.streams_n; i++)
        publisher->passed[hw_stream_slot(sub->batch.streams[i].name)] = publisher->look;
}

/* The streams of a round are the session's until it has ended; its submissions do not last as long.
 */
static void occupy(howdah_publisher *publisher, session *self)
{
    if (publisher->sessions_n == 1)
        return;
    for (size_t r = 0; r < self->round_n; r++) {
        const hw_batch *batch = &self->round[r]->batch;

        for (size_t i = 0; i < batch->streams_n; i++)
            self->has[hw_stream_slot(batch->streams[i].name)] = true;
    }
    for (size_t i = 0; i < HW_STREAM_SLOTS; i++)
        publisher->busy[i] = publisher->busy[i] || self->has[i];
}

static void release(howdah_publisher *publisher, session *self)
{
    if (publisher->sessions_n == 1)
        return;
    for (size_t i = 0; i < HW_STREAM_SLOTS; i++)
        publisher->busy[i] = publisher->busy[i] && !self->has[i];
    memset(self->has, 0, sizeof self->has);
}

/* What may be taken next, seen from a session that looks at the line. */
typedef enum choice { TAKE, PASS, STOP } choice;

/*
 * I6: those that have stepped aside go by themselves when their time has come, and after each such
 * round the others have one.  "aside" says what the round is of, as soon as there is one.
 */
static choice choose(const howdah_publisher *publisher, const session *self,
                     const hw_submission *sub, size_t events, size_t bytes, int64_t now_ms)
{
    bool aside = sub->aside_until_ms > 0;

    if (self->round_n == 0 ? aside && self->aside : aside != self->aside)
        return PASS;
    if (aside && (self->round_n == publisher->aside_max || sub->aside_until_ms > now_ms))
        return PASS;
    if (self->round_n > 0 &&
        (events + sub->n > HW_ROUND_EVENTS_MAX || bytes + sub->batch.bytes > HW_ROUND_BYTES_MAX))
        return STOP;
    return may_go(publisher, sub) ? TAKE : PASS;
}

/* Fills the session's round, which may stay empty. */
static void take_round(howdah_publisher *publisher, session *self)
{
    int64_t now_ms = hw_clock_mono_ms();
    size_t events = 0;
    size_t bytes = 0;

    publisher->look++;
    self->round_n = 0;
    self->until_ms = INT64_MAX;
    for (hw_submission **link = &publisher->first; *link;) {
        hw_submission *sub = *link;
        choice what = choose(publisher, self, sub, events, bytes, now_ms);

        if (what == STOP)
            break;
        if (what == PASS) {
            pass_over(publisher, sub);
            link = &sub->next;
            continue;
        }
        self->aside = sub->aside_until_ms > 0;
        self->round[self->round_n++] = take_out(publisher, link);
        sub->blocked = false;
        events += sub->n;
        bytes += sub->batch.bytes;
        if (sub->deadline_ms < self->until_ms)
            self->until_ms = sub->deadline_ms;
    }
    occupy(publisher, self);
}

/*
 * When the next one that stepped aside may be tried again; INT64_MAX: there is none.  Not at once:
 * one that is due may be behind another session's round.
 */
static int64_t next_try_ms(const howdah_publisher *publisher)
{
    int64_t soon_ms = hw_clock_mono_ms() + ASIDE_FIRST_MS;
    int64_t next_ms = INT64_MAX;

    for (const hw_submission *sub = publisher->aside_n > 0 ? publisher->first : NULL; sub;
         sub = sub->next)
        if (sub->aside_until_ms > 0 && sub->aside_until_ms < next_ms)
            next_ms = sub->aside_until_ms;
    return next_ms < soon_ms ? soon_ms : next_ms;
}

/* ------------------------------------------------------------------ the waits */

/* At most until then, by the clock of hw_clock_mono_ms(). */
static void wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ms)
{
    struct timespec at;
    int64_t left_ms = until_ms - hw_clock_mono_ms();

    if (left_ms <= 0)
        return;
    if (left_ms > TIME_MAX_MS)
        left_ms = TIME_MAX_MS;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += left_ms / 1000;
    at.tv_nsec += (left_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(cond, lock, &at);
}

/* Takes those out whose time is over, linked by next. */
static hw_submission *take_expired(howdah_publisher *publisher)
{
    int64_t now_ms = hw_clock_mono_ms();
    hw_submission *expired = NULL;
    hw_submission **end = &expired;

    for (hw_submission **link = &publisher->first; *link;) {
        if ((*link)->deadline_ms > now_ms && publisher->state != ENDING) {
            link = &(*link)->next;
            continue;
        }
        *end = take_out(publisher, link);
        end = &(*end)->next;
    }
    return expired;
}

/* I4: for an error that is no verdict about the submission itself. */
static void say_if_doubtful(const hw_submission *sub, howdah_error *err)
{
    if (!sub->doubtful)
        return;
    (void)hw_fail(err, err->status, "a commit got no answer, and the time to ask again is over");
    err->flags = HOWDAH_OUTCOME_UNKNOWN;
    (void)hw_advise(err, err->status, "it may be stored or not: append the same events again");
}

/* Why it was not stored in time, in the words of what kept the store from it. */
static void say_why(const howdah_publisher *publisher, const hw_submission *sub, state in,
                    const howdah_error *trouble, howdah_error *err)
{
    if (in == ENDING)
        (void)hw_fail(err, HOWDAH_UNAVAILABLE, "the publisher is closed; nothing was stored");
    else if (sub->aside_n > 0)
        (void)hw_fail(err, HOWDAH_TIMEOUT,
                      "a transaction that is still open has appended these events, or to their "
                      "stream; nothing was stored");
    else if (trouble->status < 0)
        *err = *trouble;
    else
        (void)hw_fail(err, HOWDAH_TIMEOUT,
                      "waited %" PRId64 " ms for the store; nothing was stored",
                      publisher->options.wait_ms);
}

/* I5.  Comes and goes with the lock, without which it answers. */
static void expire(howdah_publisher *publisher)
{
    hw_submission *expired = take_expired(publisher);
    howdah_error trouble = publisher->trouble;
    state in = publisher->state;

    (void)pthread_mutex_unlock(&publisher->lock);
    while (expired) {
        hw_submission *next = expired->next;
        howdah_error err = HOWDAH_ERROR_INIT;

        say_why(publisher, expired, in, &trouble, &err);
        say_if_doubtful(expired, &err);
        answer(publisher, expired, err.status, &err);
        expired = next;
    }
    (void)pthread_mutex_lock(&publisher->lock);
    if (publisher->state == CLOSING)
        (void)pthread_cond_broadcast(&publisher->closing);
}

/* When something is over; what is submitted from now on has more time than that. */
static int64_t next_deadline_ms(const howdah_publisher *publisher)
{
    int64_t next_ms = hw_clock_mono_ms() + publisher->options.wait_ms;

    for (const hw_submission *sub = publisher->first; sub; sub = sub->next)
        if (sub->deadline_ms < next_ms)
            next_ms = sub->deadline_ms;
    for (size_t i = 0; i < publisher->sessions_n; i++)
        if (publisher->sessions[i].until_ms < next_ms)
            next_ms = publisher->sessions[i].until_ms;
    return next_ms;
}

/* I5: a round whose time is over is interrupted once; its thread takes that back. */
static void interrupt_late_rounds(howdah_publisher *publisher)
{
    int64_t now_ms = hw_clock_mono_ms();

    for (size_t i = 0; i < publisher->sessions_n; i++) {
        session *one = &publisher->sessions[i];

        if (one->until_ms > now_ms && publisher->state != ENDING)
            continue;
        one->until_ms = INT64_MAX;
        howdah_interrupt(one->bus);
    }
}

static void *watch(void *arg)
{
    howdah_publisher *publisher = arg;

    (void)pthread_mutex_lock(&publisher->lock);
    while (publisher->state != ENDING) {
        wait_until(&publisher->closing, &publisher->lock, next_deadline_ms(publisher));
        interrupt_late_rounds(publisher);
        expire(publisher);
    }
    interrupt_late_rounds(publisher);
    (void)pthread_mutex_unlock(&publisher->lock);
    return NULL;
}

/* ----------------------------------------------------------------- the sessions */

/* Whether the store may be back before the callers' time is over. */
static bool is_away(int status, const howdah_error *err)
{
    return status == HOWDAH_UNAVAILABLE || status == HOWDAH_TIMEOUT ||
           status == HOWDAH_INTERRUPTED ||
           (status == HOWDAH_READ_ONLY && (err->flags & HOWDAH_RETRYABLE));
}

/* I6: tried again after a pause that grows. */
static void step_aside(hw_submission *sub)
{
    sub->blocked = false;
    sub->aside_until_ms = hw_clock_mono_ms() + hw_backoff_ms(ASIDE_FIRST_MS, ASIDE_MAX_MS,
                                                             sub->aside_n++, 25, hw_random_u32());
}

/* With the lock, after a round: its streams are free, and what it has left is in the line again. */
static void give_back(howdah_publisher *publisher, session *self, int status,
                      const howdah_error *err)
{
    bool left = false;
    bool blocked = false;

    self->until_ms = INT64_MAX;
    if (publisher->state != ENDING)
        howdah_interrupt_clear(self->bus);
    release(publisher, self);
    if (status < 0 && status != HOWDAH_INTERRUPTED)
        publisher->trouble = *err;
    else if (status >= 0)
        publisher->trouble.status = 0;
    for (size_t i = 0; i < self->round_n; i++) {
        if (!self->round[i])
            continue;
        left = true;
        blocked = blocked || self->round[i]->blocked;
        if (self->round[i]->blocked)
            step_aside(self->round[i]);
    }
    if (blocked)
        publisher->aside_max = 1;
    else if (self->aside && publisher->aside_max < HW_ROUND_EVENTS_MAX)
        publisher->aside_max *= 2;
    put_back(publisher, self->round, self->round_n);
    self->round_n = 0;
    /* The watch has to look again at what was put back; so has who waits for the end, or for a
     * stream. */
    if (left || publisher->state != OPEN)
        (void)pthread_cond_broadcast(&publisher->closing);
    if (publisher->first && publisher->idle_n > 0)
        (void)pthread_cond_broadcast(&publisher->more);
}

/* The store is away: what is waited for has its time, and the next try comes a little later. */
static void rest(howdah_publisher *publisher, session *self)
{
    int64_t until_ms = hw_clock_mono_ms() + hw_backoff_ms(AWAY_FIRST_MS, AWAY_MAX_MS,
                                                          self->failures++, 50, hw_random_u32());

    while (publisher->state != ENDING && hw_clock_mono_ms() < until_ms)
        wait_until(&publisher->closing, &publisher->lock, until_ms);
}

/* Without the lock. */
static int run_round(howdah_publisher *publisher, session *self, int64_t until_ms,
                     howdah_error *reterr)
{
    hw_publishing p = {.store = self->bus->store,
                       .interrupt = self->bus->interrupt,
                       .payload_bytes_max = publisher->payload_bytes_max,
                       .until_ms = until_ms,
                       .lock_waits = self->aside ? 1 : LOCK_WAITS_MAX,
                       .answer = answer,
                       .ctx = publisher};
    int s = hw_publish(&p, self->round, self->round_n, reterr);

    (void)atomic_fetch_add(&publisher->rounds, 1);
    /* What will not change by waiting is told at once. */
    for (size_t i = 0; s < 0 && !is_away(s, reterr) && i < self->round_n; i++) {
        hw_submission *sub = self->round[i];
        howdah_error err = *reterr;

        self->round[i] = NULL;
        if (!sub)
            continue;
        say_if_doubtful(sub, &err);
        answer(publisher, sub, s, &err);
    }
    return s;
}

/* Until there is a round for this session; false: the publisher ends.  With the lock. */
static bool wait_for_round(howdah_publisher *publisher, session *self)
{
    while (publisher->state != ENDING) {
        take_round(publisher, self);
        if (self->round_n > 0)
            return true;
        if (self->aside) { /* nobody else came: they may go again */
            self->aside = false;
            continue;
        }
        publisher->idle_n++;
        if (publisher->aside_n > 0)
            wait_until(&publisher->more, &publisher->lock, next_try_ms(publisher));
        else
            (void)pthread_cond_wait(&publisher->more, &publisher->lock);
        publisher->idle_n--;
    }
    return false;
}

static void *serve(void *arg)
{
    session *self = arg;
    howdah_publisher *publisher = self->publisher;

    (void)pthread_mutex_lock(&publisher->lock);
    while (wait_for_round(publisher, self)) {
        int64_t until_ms = self->until_ms;
        howdah_error err = HOWDAH_ERROR_INIT;
        int s;

        (void)pthread_mutex_unlock(&publisher->lock);
        s = run_round(publisher, self, until_ms, &err);
        (void)pthread_mutex_lock(&publisher->lock);
        give_back(publisher, self, s, &err);
        if (s >= 0) {
            self->failures = 0;
            continue;
        }
        expire(publisher);
        if (is_away(s, &err))
            rest(publisher, self);
    }
    (void)pthread_mutex_unlock(&publisher->lock);
    return NULL;
}

/* ------------------------------------------------------------------- submitting */

/* What is judged in the caller's thread: the events, and the batch that they make. */
static int prepare(const howdah_publisher *publisher, hw_submission *sub,
                   const howdah_append_options *options, const char *call, howdah_error *reterr)
{
    howdah_append_options own = HOWDAH_APPEND_OPTIONS_INIT;
    int s = hw_sized_take(&own, sizeof own, options, call, reterr);

    if (s < 0)
        return s;
    sub->expected = own.expected_version;
    s = hw_append_check(sub->events, sub->n, sub->expected, false, publisher->payload_bytes_max,
                        sub->positions, reterr);
    if (s >= 0)
        s = hw_batch_init(&sub->batch, sub->events, sub->n, sub->expected, reterr);
    if (s < 0)
        return s;
    if ((int64_t)sub->n <= publisher->options.events_max &&
        (int64_t)sub->batch.bytes <= publisher->options.bytes_max)
        return HOWDAH_OK;
    hw_batch_done(&sub->batch);
    return hw_fail_field(reterr, HOWDAH_LIMIT, "events",
                         "at most %" PRId64 " events and %" PRId64 " bytes fit into this publisher",
                         publisher->options.events_max, publisher->options.bytes_max);
}

/* Refused before anything is done with it: the store is behind, or too many call. */
static int refuse(howdah_publisher *publisher, howdah_error *reterr)
{
    int s = hw_fail(reterr, HOWDAH_UNAVAILABLE,
                    "too much waits in this publisher already; nothing was stored");

    (void)atomic_fetch_add(&publisher->refused, 1);
    return hw_advise(reterr, s,
                     "call again a little later; events_max and bytes_max are the limits");
}

/*
 * UNAVAILABLE and not LIMIT: the same call succeeds as soon as there is room, and a caller that
 * sorts errors by status must not drop it as one that can never be stored.
 */
static int enter(howdah_publisher *publisher, hw_submission *sub, howdah_error *reterr)
{
    const howdah_publisher_options *o = &publisher->options;
    bool room = false;
    bool open;

    sub->deadline_ms = hw_clock_mono_ms() + o->wait_ms;
    (void)pthread_mutex_lock(&publisher->lock);
    open = publisher->state == OPEN;
    if (open)
        room = atomic_load(&publisher->events) + (int64_t)sub->n <= o->events_max &&
               atomic_load(&publisher->bytes) + (int64_t)sub->batch.bytes <= o->bytes_max;
    if (room) {
        (void)atomic_fetch_add(&publisher->events, (int64_t)sub->n);
        (void)atomic_fetch_add(&publisher->bytes, (int64_t)sub->batch.bytes);
        (void)atomic_fetch_add(&publisher->unanswered, 1);
        (void)atomic_fetch_add(&publisher->calls, 1);
        push(publisher, sub);
        if (publisher->idle_n > 0)
            (void)pthread_cond_signal(&publisher->more);
    }
    (void)pthread_mutex_unlock(&publisher->lock);
    if (room)
        return HOWDAH_OK;
    hw_batch_done(&sub->batch);
    return open ? refuse(publisher, reterr)
                : hw_fail(reterr, HOWDAH_UNAVAILABLE, "the publisher is closed");
}

static int check_call(const howdah_publisher *publisher, const howdah_event *const *events,
                      size_t n, const char *call, howdah_error *reterr)
{
    if (!publisher || (n > 0 && !events))
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: an argument is NULL", call);
    return HOWDAH_OK;
}

int howdah_publisher_append(howdah_publisher *publisher, const howdah_event *const *events,
                            size_t n, const howdah_append_options *options,
                            howdah_position *ret_positions, howdah_error *reterr)
{
    hw_submission sub = {.events = events, .n = n, .positions = ret_positions, .reterr = reterr};
    int s = check_call(publisher, events, n, "howdah_publisher_append", reterr);
    sem_t answered;

    if (s < 0 || n == 0)
        return s;
    if (calls_back == publisher)
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "howdah_publisher_append: a callback of this publisher would wait for "
                       "itself");
    s = prepare(publisher, &sub, options, "howdah_publisher_append", reterr);
    if (s < 0)
        return s;
    (void)sem_init(&answered, 0, 0);
    sub.answered = &answered;
    sub.status = &s;
    if (enter(publisher, &sub, reterr) < 0) {
        (void)sem_destroy(&answered);
        return HOWDAH_UNAVAILABLE;
    }
    while (sem_wait(&answered) != 0)
        continue; /* a signal */
    (void)sem_destroy(&answered);
    return s;
}

/* One block: the submission, and behind it the array of events. */
int howdah_publisher_submit(howdah_publisher *publisher, const howdah_event *const *events,
                            size_t n, const howdah_append_options *options,
                            howdah_position *ret_positions, howdah_published_fn done, void *ctx,
                            howdah_error *reterr)
{
    const howdah_event **own;
    hw_submission *sub;
    int s = check_call(publisher, events, n, "howdah_publisher_submit", reterr);

    if (s < 0)
        return s;
    if (!done)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_publisher_submit: there is no callback");
    if (n < 1 || n > HOWDAH_BATCH_EVENTS_MAX)
        return hw_fail_field(reterr, n < 1 ? HOWDAH_INVALID : HOWDAH_LIMIT, "events",
                             "1 to %d in a call, got %zu", HOWDAH_BATCH_EVENTS_MAX, n);
    sub = hw_calloc(1, sizeof *sub + n * sizeof(howdah_event *));
    if (!sub)
        return hw_fail_no_memory(reterr);
    own = (const howdah_event **)(void *)(sub + 1);
    memcpy(own, events, n * sizeof *own);
    *sub = (hw_submission){
        .events = own, .n = n, .positions = ret_positions, .done = done, .ctx = ctx};
    s = prepare(publisher, sub, options, "howdah_publisher_submit", reterr);
    if (s >= 0)
        s = enter(publisher, sub, reterr);
    if (s < 0)
        hw_free(sub);
    return s;
}

int howdah_publisher_counts_get(const howdah_publisher *publisher,
                                howdah_publisher_counts *ret_counts)
{
    howdah_publisher_counts counts = HOWDAH_PUBLISHER_COUNTS_INIT;

    if (!publisher)
        return HOWDAH_MISUSE;
    counts.waiting_events = atomic_load(&publisher->events);
    counts.waiting_bytes = atomic_load(&publisher->bytes);
    counts.rounds = atomic_load(&publisher->rounds);
    counts.calls = atomic_load(&publisher->calls);
    counts.refused = atomic_load(&publisher->refused);
    return hw_sized_give(ret_counts, &counts, sizeof counts);
}

/* ------------------------------------------------------------------ start and end */

static int check_range(const char *field, int64_t value, int64_t max, howdah_error *reterr)
{
    if (value >= 1 && value <= max)
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, field, "must be 1 to %" PRId64 ", got %" PRId64,
                         max, value);
}

static int take_options(howdah_publisher_options *own, const howdah_publisher_options *options,
                        howdah_error *reterr)
{
    int s = hw_sized_take(own, sizeof *own, options, "howdah_publisher_new", reterr);

    if (s >= 0)
        s = check_range("sessions", own->sessions, HOWDAH_PUBLISHER_SESSIONS_MAX, reterr);
    if (s >= 0)
        s = check_range("events_max", own->events_max, EVENTS_MAX, reterr);
    if (s >= 0)
        s = check_range("bytes_max", own->bytes_max, BYTES_MAX, reterr);
    if (s >= 0)
        s = check_range("wait_ms", own->wait_ms, TIME_MAX_MS, reterr);
    if (s >= 0)
        s = check_range("close_ms", own->close_ms, TIME_MAX_MS, reterr);
    return s;
}

/* The first session says whether more of them are of use. */
static int open_sessions(howdah_publisher *publisher, const char *url,
                         const howdah_settings *settings, howdah_error *reterr)
{
    size_t wanted = (size_t)publisher->options.sessions;
    /* Connecting is tried again, so each try may end before the callers' time does. */
    hw_bus_limits limits = {LOCK_TIMEOUT_MS, publisher->options.wait_ms / CONNECTS + 1};
    int s = HOWDAH_OK;

    publisher->sessions = hw_calloc(wanted, sizeof *publisher->sessions);
    if (!publisher->sessions)
        return hw_fail_no_memory(reterr);
    while (s >= 0 && publisher->sessions_n < wanted) {
        session *one = &publisher->sessions[publisher->sessions_n];

        one->publisher = publisher;
        one->until_ms = INT64_MAX;
        s = hw_bus_open(url, settings, &limits, &one->bus, reterr);
        if (s < 0)
            break;
        publisher->sessions_n++;
        if (one->bus->store->alone)
            return hw_fail_field(reterr, HOWDAH_INVALID, "store",
                                 "a publisher in memory has a log that nobody else can read");
        if (one->bus->store->one_writer)
            wanted = 1;
        publisher->payload_bytes_max = one->bus->payload_bytes_max;
    }
    return s;
}

static int start_threads(howdah_publisher *publisher, howdah_error *reterr)
{
    int failed = pthread_create(&publisher->watch, NULL, watch, publisher);

    publisher->watched = failed == 0;
    while (failed == 0 && publisher->threads_n < publisher->sessions_n) {
        session *one = &publisher->sessions[publisher->threads_n];

        failed = pthread_create(&one->thread, NULL, serve, one);
        if (failed == 0)
            publisher->threads_n++;
    }
    return failed == 0 ? HOWDAH_OK
                       : hw_fail(reterr, HOWDAH_FAILED, "no thread for the publisher: %s",
                                 strerrordesc_np(failed));
}

/* Also of one that was only half made: nothing waits in it, and threads are joined as many as run.
 */
static void end(howdah_publisher *publisher)
{
    (void)pthread_mutex_lock(&publisher->lock);
    publisher->state = ENDING;
    interrupt_late_rounds(publisher);
    (void)pthread_cond_broadcast(&publisher->more);
    (void)pthread_cond_broadcast(&publisher->closing);
    (void)pthread_mutex_unlock(&publisher->lock);
    for (size_t i = 0; i < publisher->threads_n; i++)
        (void)pthread_join(publisher->sessions[i].thread, NULL);
    if (publisher->watched)
        (void)pthread_join(publisher->watch, NULL);
    (void)pthread_mutex_lock(&publisher->lock);
    expire(publisher);
    (void)pthread_mutex_unlock(&publisher->lock);
    assert(atomic_load(&publisher->unanswered) == 0);
    for (size_t i = 0; i < publisher->sessions_n; i++)
        (void)howdah_close(publisher->sessions[i].bus);
    (void)pthread_cond_destroy(&publisher->more);
    (void)pthread_cond_destroy(&publisher->closing);
    (void)pthread_mutex_destroy(&publisher->lock);
    hw_free(publisher->sessions);
    hw_free(publisher);
}

/* The waits are counted by a clock that nobody sets. */
static void init_waits(howdah_publisher *publisher)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&publisher->lock, NULL);
    (void)pthread_cond_init(&publisher->more, &attributes);
    (void)pthread_cond_init(&publisher->closing, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

int howdah_publisher_new(const char *url, const howdah_settings *settings,
                         const howdah_publisher_options *options, howdah_publisher **ret_publisher,
                         howdah_error *reterr)
{
    howdah_publisher_options own = HOWDAH_PUBLISHER_OPTIONS_INIT;
    howdah_publisher *publisher;
    int s;

    if (!url || !ret_publisher)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_publisher_new: an argument is NULL");
    s = take_options(&own, options, reterr);
    if (s < 0)
        return s;
    publisher = hw_calloc(1, sizeof *publisher);
    if (!publisher)
        return hw_fail_no_memory(reterr);
    publisher->options = own;
    publisher->last = &publisher->first;
    publisher->aside_max = 1;
    publisher->trouble = (howdah_error)HOWDAH_ERROR_INIT;
    init_waits(publisher);
    s = open_sessions(publisher, url, settings, reterr);
    if (s >= 0)
        s = start_threads(publisher, reterr);
    if (s < 0) {
        end(publisher);
        return s;
    }
    *ret_publisher = publisher;
    return HOWDAH_OK;
}

void howdah_publisher_free(howdah_publisher *publisher)
{
    int64_t until_ms;

    if (!publisher)
        return;
    if (calls_back == publisher) {
        hw_log(HOWDAH_LOG_ERROR, "howdah_publisher_free: not from a callback of this publisher");
        return;
    }
    until_ms = hw_clock_mono_ms() + publisher->options.close_ms;
    (void)pthread_mutex_lock(&publisher->lock);
    publisher->state = CLOSING;
    while (atomic_load(&publisher->unanswered) > 0 && hw_clock_mono_ms() < until_ms)
        wait_until(&publisher->closing, &publisher->lock, until_ms);
    (void)pthread_mutex_unlock(&publisher->lock);
    end(publisher);
}
