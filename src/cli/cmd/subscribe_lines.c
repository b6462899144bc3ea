/*
 * subscribe_lines.c - howdah subscribe --shared --exec-lines: long-lived commands as members.
 *
 * Each member is a thread with a bus of its own and one command.  The events of a batch go to its
 * stdin as JSON lines; {"ack":N} and {"nack":N,"error":"..."} come back.  An ack says that all
 * events of the batch up to N are handled, but for those that a nack has named.
 *
 *   I1  What was acked by the command is acked in the store before the next batch is taken.
 *   I2  When the command ends with events in hand, the first of them that it did not answer for has
 *       failed: it may be the reason.  The others are given back, and the command is started anew.
 *   I3  Whatever ends us, commands get the end of their input and may answer for what they have.
 *   I4  A batch is in the command's hands until it has answered for all of it.  Only then does the
 *       store hear what has failed: until then nobody else has a later event of that stream, and
 *       what comes before an event that has failed was answered for.  Answers for a batch whose
 *       lease was lost are awaited, too, or they would be taken for the next one's.
 *   I5  A store that is away is waited for, with the batch in hand.  What was asked of it is asked
 *       again: a second ack, or nack, changes nothing.
 */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/cmd/subscribe.h"
#include "cli/in/answers.h"
#include "cli/in/signals.h"
#include "face/events.h"

#define SLICE_MS 100     /* between two looks at the time, the lease and the signal */
#define FETCH_MS 200     /* how long a fetch waits */
#define LEAVE_MS 10000   /* for answers, after the end */
#define HURRY_S 3        /* to give batches back, after a second signal */
#define RESTART_MS 500   /* before a command is started anew */
#define AWAY_MAX_MS 2000 /* between two looks whether the store is back */
#define BATCH_BYTES_MAX ((size_t)512 * 1024 * 1024)

typedef struct site {
    cli_context *cli;
    const cli_lines_request *r;
    pthread_mutex_t lock;
    atomic_bool ending;
    _Atomic int64_t count;
    int status; /* of the first member that could not go on, */
    howdah_error err;
} site;

typedef struct member {
    site *w;
    pthread_t thread;
    howdah_bus *bus;
    howdah_member *handle;
    cli_coprocess *command;             /* NULL: it has to be started */
    int64_t restart_ms;                 /* not before */
    int64_t answered[HOWDAH_BATCH_MAX]; /* the last events that the command has answered for, */
    size_t answered_n;                  /* of so many */
    int64_t away_ms; /* the last pause for a store that is away; 0: it is there */
    hw_buf lines;
} member;

/* One batch in a command's hands. */
typedef struct round {
    howdah_batch *batch;
    char **failed; /* why, of the events that a nack has named */
    size_t done;   /* so many from the front are answered for */
    int64_t leased_ms;
    bool lost; /* the events are another's now */
} round;

/* Members speak one at a time. */
static void remark(site *w, int64_t sequence, int attempt, const char *why)
{
    (void)pthread_mutex_lock(&w->lock);
    cli_note(w->cli, "event %" PRId64 ", try %d: %s", sequence, attempt, why);
    (void)pthread_mutex_unlock(&w->lock);
}

static bool is_over(site *w)
{
    if (cli_signal_caught() || (w->r->max != HOWDAH_ABSENT && atomic_load(&w->count) >= w->r->max))
        atomic_store(&w->ending, true);
    return atomic_load(&w->ending);
}

/* I5.  True: ask again. */
static bool waits_for_store(member *m, int s, const howdah_error *err)
{
    if (s != HOWDAH_UNAVAILABLE) {
        m->away_ms = 0;
        return false;
    }
    if (m->away_ms == 0) {
        (void)pthread_mutex_lock(&m->w->lock);
        cli_note(m->w->cli, "a member waits for the store: %s", err->message);
        (void)pthread_mutex_unlock(&m->w->lock);
    }
    m->away_ms = m->away_ms == 0                ? SLICE_MS
                 : m->away_ms < AWAY_MAX_MS / 2 ? 2 * m->away_ms
                                                : AWAY_MAX_MS;
    for (int64_t left = m->away_ms; left > 0 && !is_over(m->w); left -= SLICE_MS)
        hw_clock_sleep_ms(SLICE_MS);
    return !is_over(m->w);
}

/* ------------------------------------------------------------------ answers */

/* The place of an event in the batch; its size: it is not there. */
static size_t find(const howdah_batch *batch, int64_t sequence)
{
    size_t i = 0;

    while (i < howdah_batch_size(batch) &&
           howdah_event_global_sequence(howdah_batch_event(batch, i)) != sequence)
        i++;
    return i;
}

/* Whether the command had that event in an earlier batch. */
static bool was_answered(const member *m, int64_t sequence)
{
    for (size_t i = 0; i < m->answered_n && i < HOWDAH_BATCH_MAX; i++)
        if (m->answered[i] == sequence)
            return true;
    return false;
}

static int apply(const member *m, round *r, const cli_said *a, howdah_error *reterr)
{
    int64_t sequence = a->ack > 0 ? a->ack : a->nack;
    size_t at = find(r->batch, sequence);

    if (at == howdah_batch_size(r->batch) && was_answered(m, sequence))
        return HOWDAH_OK; /* again */
    if (at == howdah_batch_size(r->batch))
        return hw_fail(reterr, HOWDAH_INVALID,
                       "the command answered for event %" PRId64 ", which it does not have",
                       sequence);
    if (a->nack > 0) {
        remark(m->w, sequence, howdah_batch_attempt(r->batch), a->error);
        hw_free(r->failed[at]);
        r->failed[at] = hw_strdup(a->error);
        return r->failed[at] ? HOWDAH_OK : hw_fail_no_memory(reterr);
    }
    while (r->done <= at) {
        if (!r->failed[r->done])
            atomic_fetch_add(&m->w->count, 1);
        r->done++;
    }
    return HOWDAH_OK;
}

/* Events that were named by a nack are answered for as well. */
static bool is_answered(round *r)
{
    while (r->done < howdah_batch_size(r->batch) && r->failed[r->done])
        r->done++;
    return r->done == howdah_batch_size(r->batch);
}

/* ------------------------------------------------------------------- a round */

/* I4: that the lease is lost is told, and no reason to stop. */
static int heed_loss(const member *m, round *r, int s, const howdah_error *err)
{
    if (s != HOWDAH_LOST)
        return s;
    if (!r->lost)
        remark(m->w, howdah_event_global_sequence(howdah_batch_event(r->batch, 0)),
               howdah_batch_attempt(r->batch), err->message);
    r->lost = true;
    return HOWDAH_OK;
}

static int keep_lease(member *m, round *r, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    int s;

    if (r->lost || now - r->leased_ms < m->w->r->member.lease_ms / 3)
        return HOWDAH_OK;
    r->leased_ms = now;
    do
        s = howdah_batch_extend(r->batch, 0, reterr);
    while (waits_for_store(m, s, reterr));
    return heed_loss(m, r, s, reterr);
}

/* The events that have failed, in their order: of some batches only the first one counts. */
static int tell_failures(member *m, const round *r, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < howdah_batch_size(r->batch); i++)
        if (r->failed[i])
            do
                s = howdah_batch_nack(r->batch,
                                      howdah_event_global_sequence(howdah_batch_event(r->batch, i)),
                                      r->failed[i], -1, reterr);
            while (waits_for_store(m, s, reterr));
    return s;
}

/* All that is answered for is acked, the rest given back, if there is any. */
static int give_back(member *m, round *r, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (r->lost)
        return HOWDAH_OK;
    s = tell_failures(m, r, reterr);
    if (s >= 0 && r->done > 0)
        do
            s = howdah_batch_ack_upto(
                r->batch, howdah_event_global_sequence(howdah_batch_event(r->batch, r->done - 1)),
                reterr);
        while (waits_for_store(m, s, reterr));
    if (s < 0)
        return heed_loss(m, r, s, reterr);
    s = howdah_batch_release(r->batch, reterr);
    return s == HOWDAH_LOST ? HOWDAH_OK : s;
}

static int end_round(member *m, round *r, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (r->lost)
        return HOWDAH_OK;
    s = tell_failures(m, r, reterr);
    if (s >= 0)
        do
            s = howdah_batch_ack(r->batch, reterr);
        while (waits_for_store(m, s, reterr));
    return heed_loss(m, r, s, reterr);
}

/* I2. */
static int on_command_ended(member *m, round *r, howdah_error *reterr)
{
    char why[CLI_EXEC_MESSAGE_MAX + 1];

    cli_coprocess_end(m->command, why);
    m->command = NULL;
    m->answered_n = 0;
    m->restart_ms = hw_clock_mono_ms() + RESTART_MS;
    if (atomic_load(&m->w->ending))
        return give_back(m, r, reterr);
    remark(m->w, howdah_event_global_sequence(howdah_batch_event(r->batch, r->done)),
           howdah_batch_attempt(r->batch), why);
    r->failed[r->done] = hw_strdup(why);
    if (!r->failed[r->done])
        return hw_fail_no_memory(reterr);
    r->done++; /* it has its own retry */
    return is_answered(r) ? end_round(m, r, reterr) : give_back(m, r, reterr);
}

/* Until the command has answered for all, or has ended. */
static int hear_answers(member *m, round *r, howdah_error *reterr)
{
    int64_t leave_ms = INT64_MAX;
    int s = HOWDAH_OK;

    while (s >= 0 && !is_answered(r)) {
        cli_said a;
        hw_str line;
        cli_answer got = cli_coprocess_answer(m->command, SLICE_MS, &line);

        if (atomic_load(&m->w->ending) && leave_ms == INT64_MAX) { /* I3 */
            cli_coprocess_close_input(m->command);
            leave_ms = hw_clock_mono_ms() + LEAVE_MS;
        }
        if (got == CLI_ANSWER_ENDED)
            return on_command_ended(m, r, reterr);
        if (got == CLI_ANSWER_LINE && cli_line_is_empty(line))
            got = CLI_ANSWER_NONE;
        if (got == CLI_ANSWER_LINE) {
            s = cli_said_parse(line, &a, reterr);
            if (s >= 0)
                s = apply(m, r, &a, reterr);
        } else if (hw_clock_mono_ms() >= leave_ms || cli_signals_hurry()) {
            return give_back(m, r, reterr);
        }
        if (s >= 0)
            s = keep_lease(m, r, reterr);
    }
    for (size_t i = 0; s >= 0 && i < howdah_batch_size(r->batch); i++)
        m->answered[m->answered_n++ % HOWDAH_BATCH_MAX] =
            howdah_event_global_sequence(howdah_batch_event(r->batch, i));
    return s < 0 ? s : end_round(m, r, reterr);
}

/* The lines of a batch; the buffer grows once. */
static int put_lines(member *m, const howdah_batch *batch, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    hw_buf_clear(&m->lines);
    for (size_t i = 0; s >= 0 && i < howdah_batch_size(batch); i++) {
        s = face_event_json(howdah_batch_event(batch, i), &m->lines, reterr);
        hw_buf_putc(&m->lines, '\n');
    }
    return s < 0 ? s : hw_buf_check(&m->lines, reterr);
}

static int start_command(member *m, howdah_error *reterr)
{
    int64_t left = m->restart_ms - hw_clock_mono_ms();

    if (m->command)
        return HOWDAH_OK;
    if (left > 0)
        hw_clock_sleep_ms(left);
    return cli_coprocess_start(&(cli_exec_options){.command = m->w->r->command,
                                                   .echo = !m->w->cli->quiet,
                                                   .pass_store = m->w->r->pass_store},
                               &m->command, reterr);
}

static int handle(member *m, howdah_batch *batch, howdah_error *reterr)
{
    round r = {.batch = batch, .leased_ms = hw_clock_mono_ms()};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    r.failed = hw_calloc(howdah_batch_size(batch), sizeof *r.failed);
    if (!r.failed)
        return hw_fail_no_memory(reterr);
    s = put_lines(m, batch, reterr);
    if (s >= 0)
        s = start_command(m, reterr);
    if (s >= 0)
        s = cli_coprocess_send(m->command, (hw_str){hw_buf_str(&m->lines), m->lines.len}, reterr);
    if (s >= 0)
        s = hear_answers(m, &r, reterr);
    if (s < 0)
        (void)give_back(m, &r, &err);
    for (size_t i = 0; i < howdah_batch_size(batch); i++)
        hw_free(r.failed[i]);
    hw_free(r.failed);
    return s;
}

/* ------------------------------------------------------------------ a member */

static int serve(member *m, howdah_error *reterr)
{
    int s = howdah_member_new(m->bus, &m->w->r->member, &m->handle, reterr);

    while (s >= 0 && !is_over(m->w)) {
        howdah_batch *batch = NULL;

        s = howdah_member_fetch(m->handle, FETCH_MS, &batch, reterr);
        if (waits_for_store(m, s, reterr))
            s = HOWDAH_END;
        if (s == HOWDAH_OK) {
            s = handle(m, batch, reterr);
            howdah_batch_free(batch);
        }
    }
    return s;
}

static void *run_member(void *arg)
{
    member *m = arg;
    site *w = m->w;
    howdah_error err = HOWDAH_ERROR_INIT;
    char why[CLI_EXEC_MESSAGE_MAX + 1];
    int s = serve(m, &err);

    if (m->command)
        cli_coprocess_end(m->command, why);
    if (s < 0 && s != HOWDAH_INTERRUPTED) {
        (void)pthread_mutex_lock(&w->lock);
        if (w->status >= 0) {
            w->status = s;
            hw_error_copy(&w->err, &err);
        }
        (void)pthread_mutex_unlock(&w->lock);
        atomic_store(&w->ending, true);
    }
    return NULL;
}

/* ------------------------------------------------------------------- the end */

typedef struct place {
    bool reached;
    bool halted;
    char reason[256];
} place;

static int on_place(void *ctx, const howdah_subscription_info *info)
{
    place *p = ctx;

    p->reached = info->high >= info->head && info->holes_n == 0;
    p->halted = info->state == HOWDAH_SUBSCRIPTION_HALTED;
    (void)snprintf(p->reason, sizeof p->reason, "%s", info->reason);
    return 0;
}

/* Looks at the time, the place and the signal while members work. */
static int watch(site *w, howdah_error *reterr)
{
    int64_t end_ms =
        w->r->timeout_ms == HOWDAH_ABSENT ? INT64_MAX : hw_clock_mono_ms() + w->r->timeout_ms;

    while (!is_over(w)) {
        place p = {.reached = false};
        howdah_error err = HOWDAH_ERROR_INIT;

        hw_clock_sleep_ms(SLICE_MS);
        if (hw_clock_mono_ms() >= end_ms)
            break;
        if (howdah_subscriptions_walk(w->cli->bus, w->r->member.subscriber_id, on_place, &p, &err) <
            0)
            continue; /* members wait for the store themselves */
        if (p.halted) {
            int s = hw_fail(reterr, HOWDAH_FAILED, "subscription %s is halted: %s",
                            w->r->member.subscriber_id, p.reason);

            return hw_advise(reterr, s, "fix the cause, then: howdah sub resume %.100s",
                             w->r->member.subscriber_id);
        }
        if (w->r->until && p.reached)
            break;
    }
    return HOWDAH_OK;
}

static int start_members(site *w, member *list, size_t *started, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (*started = 0; s >= 0 && *started < (size_t)w->r->concurrency; (*started)++) {
        member *m = &list[*started];
        int failed;

        *m = (member){.w = w, .lines = HW_BUF_INIT(BATCH_BYTES_MAX)};
        s = cli_open_another(w->cli, &m->bus, reterr);
        if (s < 0)
            break;
        failed = pthread_create(&m->thread, NULL, run_member, m);
        if (failed != 0) {
            howdah_close(m->bus);
            s = hw_fail(reterr, HOWDAH_FAILED, "no thread: %s", strerrordesc_np(failed));
            break;
        }
    }
    return s;
}

int cli_subscribe_lines(cli_context *cli, const cli_lines_request *request, howdah_error *reterr)
{
    site w = {.cli = cli, .r = request, .err = HOWDAH_ERROR_INIT};
    member *list = hw_calloc((size_t)request->concurrency, sizeof *list);
    size_t started = 0;
    int s;

    if (!list)
        return hw_fail_no_memory(reterr);
    (void)pthread_mutex_init(&w.lock, NULL);
    cli_signals_grace(HURRY_S);
    s = start_members(&w, list, &started, reterr);
    if (s >= 0)
        s = watch(&w, reterr);
    atomic_store(&w.ending, true);
    for (size_t i = 0; i < started; i++) {
        (void)pthread_join(list[i].thread, NULL);
        howdah_close(list[i].bus);
        hw_buf_done(&list[i].lines);
    }
    hw_free(list);
    (void)pthread_mutex_destroy(&w.lock);
    if (s >= 0 && w.status < 0) {
        hw_error_copy(reterr, &w.err);
        return w.status;
    }
    if (s >= 0 && cli_signal_caught())
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    return s;
}
