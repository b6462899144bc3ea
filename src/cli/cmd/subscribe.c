/*
 * subscribe.c - howdah subscribe: a subscription whose handler prints, or runs a command.
 *
 *   I1  An event is handled when its line was written, or its command ended with 0; until then it
 *       is outstanding.  What was not begun, because we are about to leave, is put back uncounted.
 *   I2  However it ends (enough events, a signal, nobody reads), the checkpoint is stored and the
 *       ownership given up on the way out.
 *   I3  A shared one runs in threads, which extend leases while commands run.  What handlers share
 *       (the output, the live line, counts) is guarded by one lock; no command is run under it.
 *       The bus belongs to the threads then: how far it is, another bus tells.
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
#include "cli/in/exec.h"
#include "cli/in/signals.h"
#include "cli/out/events.h"
#include "cli/out/live.h"
#include "face/events.h"

/* Between two looks at state, terminal and the reader of our pipe. */
#define SLICE_MS 250
#define CONCURRENCY_MAX CLI_CHILDREN_MAX
#define BATCH_ALONE_MAX 100000                      /* the library's, of catch_up_batch */
#define INPUT_BYTES_MAX ((size_t)512 * 1024 * 1024) /* above any event the library can make */

typedef struct request {
    howdah_subscribe_options options;
    const char *exec;   /* NULL: print */
    const char *lines;  /* a long-lived command for each member; NULL: none */
    int64_t max;        /* HOWDAH_ABSENT: no end */
    int64_t timeout_ms; /* HOWDAH_ABSENT: no end */
    bool until;         /* caught up */
    bool pass_store;    /* to the command, with its password */
} request;

typedef enum ending { GOING_ON, ENOUGH, NOBODY_READS, BROKEN } ending;

typedef struct job {
    cli_context *cli;
    const request *r;
    howdah_subscription *sub;
    char *pattern; /* the stored ones */
    char *stream;
    bool originals;
    howdah_bus *watch;    /* I3; NULL: not shared */
    pthread_mutex_t lock; /* of the rest */
    cli_events events;
    cli_live live;
    int64_t count; /* events that are out of the way */
    int64_t dead;
    _Atomic ending ending;
    howdah_error err; /* BROKEN */
    bool said;        /* that we wait: once is enough */
} job;

/* ----------------------------------------------------------------- request */

/* Without the option a number keeps the library's default. */
static int parse_numbers(const cli_args *args, howdah_subscribe_options *o, howdah_error *reterr)
{
    int s = cli_args_number(args, "batch-size", 1, INT64_MAX, &o->batch_size, reterr);

    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "max-delay", &o->max_delay_ms, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "max-retries", 0, INT64_MAX, &o->max_retries, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "retry-delay", &o->retry_delay_ms, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "max-retry-delay", &o->max_retry_delay_ms, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "gap-timeout", &o->gap_timeout_ms, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "batch", 1, INT64_MAX, &o->catch_up_batch, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "lease", &o->lease_ms, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "concurrency", 1, CONCURRENCY_MAX, &o->concurrency, reterr);
    return s;
}

/* The library would name its own option, which nobody has typed here. */
static int check_batch(const howdah_subscribe_options *o, howdah_error *reterr)
{
    const int64_t max = o->instance == HOWDAH_INSTANCE_SHARED ? HOWDAH_BATCH_MAX : BATCH_ALONE_MAX;

    if (o->catch_up_batch > max)
        return hw_fail_field(reterr, HOWDAH_INVALID, "batch", "must be 1 to %lld, not %lld",
                             (long long)max, (long long)o->catch_up_batch);
    return HOWDAH_OK;
}

/* What only members of a group can do, and what they cannot. */
static int check_shared(const cli_args *args, const howdah_subscribe_options *o,
                        howdah_error *reterr)
{
    static const char *const alone[] = {"instance", "checkpoint", "batch-size", "max-delay"};
    static const char *const shared[] = {"concurrency", "key", "exec-lines"};

    if (o->instance == HOWDAH_INSTANCE_SHARED) {
        for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
            if (cli_args_has(args, alone[i]))
                return hw_fail(reterr, HOWDAH_MISUSE, "--shared and --%s exclude each other",
                               alone[i]);
        return HOWDAH_OK;
    }
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (cli_args_has(args, shared[i]))
            return hw_fail(reterr, HOWDAH_MISUSE, "--%s needs --shared", shared[i]);
    if (o->on_fail == HOWDAH_FAIL_HOLD)
        return hw_fail(reterr, HOWDAH_MISUSE, "--on-fail hold needs --shared");
    return HOWDAH_OK;
}

/* The choices of each option stand in the order of the library's values. */
static int parse_modes(const cli_args *args, howdah_subscribe_options *o, howdah_error *reterr)
{
    int instance = (int)o->instance;
    int checkpoint = (int)o->checkpoint;
    int on_fail = (int)o->on_fail;
    int ordering = (int)o->ordering;
    int gap_policy = (int)o->gap_policy;
    int key = (int)o->key;
    int s = cli_args_choice(args, "instance", &instance, reterr);

    if (s == HOWDAH_OK)
        s = cli_args_choice(args, "checkpoint", &checkpoint, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_choice(args, "on-fail", &on_fail, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_choice(args, "ordering", &ordering, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_choice(args, "gap-policy", &gap_policy, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_choice(args, "key", &key, reterr);
    o->instance = cli_args_has(args, "shared") ? HOWDAH_INSTANCE_SHARED : (howdah_instance)instance;
    o->key = (howdah_order_key)key;
    o->checkpoint = (howdah_checkpoint_mode)checkpoint;
    o->on_fail = (howdah_on_fail)on_fail;
    o->ordering = (howdah_ordering)ordering;
    o->gap_policy = (howdah_gap_policy)gap_policy;
    return s;
}

/* An empty --stream is not "no stream": it takes back an earlier one. */
static int parse_request(const cli_args *args, request *r, howdah_error *reterr)
{
    int s = cli_args_words(args, 1, 1, reterr);

    *r = (request){.options = HOWDAH_SUBSCRIBE_OPTIONS_INIT,
                   .max = HOWDAH_ABSENT,
                   .timeout_ms = HOWDAH_ABSENT};
    if (s < 0)
        return s;
    r->options.subscriber_id = args->words[1];
    r->options.pattern = cli_args_text(args, "pattern");
    r->options.stream = cli_args_text(args, "stream");
    r->options.originals_only = cli_args_has(args, "originals");
    if (r->options.originals_only && cli_args_has(args, "all-revisions"))
        return hw_fail(reterr, HOWDAH_MISUSE, "--originals and --all-revisions exclude each other");
    r->exec = cli_args_text(args, "exec");
    r->lines = cli_args_text(args, "exec-lines");
    if (r->exec && r->lines)
        return hw_fail(reterr, HOWDAH_MISUSE, "--exec and --exec-lines exclude each other");
    r->pass_store = cli_args_has(args, "pass-store");
    r->until = cli_args_has(args, "until-caught-up");
    s = cli_args_position(args, "from", &r->options.start, reterr);
    if (s == HOWDAH_OK)
        s = parse_modes(args, &r->options, reterr);
    if (s == HOWDAH_OK)
        s = parse_numbers(args, &r->options, reterr);
    if (s == HOWDAH_OK)
        s = check_shared(args, &r->options, reterr);
    if (s == HOWDAH_OK)
        s = check_batch(&r->options, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "max", 0, INT64_MAX, &r->max, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "timeout", &r->timeout_ms, reterr);
    if (s == HOWDAH_OK && r->exec && !r->exec[0])
        s = hw_fail_field(reterr, HOWDAH_INVALID, "exec", "expected a command");
    if (s == HOWDAH_OK && r->lines && !r->lines[0])
        s = hw_fail_field(reterr, HOWDAH_INVALID, "exec-lines", "expected a command");
    return s;
}

/* ----------------------------------------------------------------- handling */

/* The library notices an interrupt between two events, so the rest of a batch is put back. */
static void end(job *j, ending why)
{
    ending before = GOING_ON;

    assert(why != GOING_ON);
    (void)atomic_compare_exchange_strong(&j->ending, &before, why);
    howdah_interrupt(j->cli->bus);
}

/* Not the event's fault: the whole run ends. */
static int end_broken(job *j, const howdah_error *err)
{
    (void)pthread_mutex_lock(&j->lock);
    if (j->ending == GOING_ON)
        j->err = *err;
    end(j, BROKEN);
    (void)pthread_mutex_unlock(&j->lock);
    return HOWDAH_PUT_BACK;
}

/* Dead letters count as well: --max bounds what is taken out of the way, not what succeeds. */
static void count_one(job *j)
{
    j->count++;
    if (j->r->max != HOWDAH_ABSENT && j->count >= j->r->max)
        end(j, ENOUGH);
}

/* Only when somebody sees it: this runs after every event. */
static void update_live(job *j)
{
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    if (!j->live.wanted || j->watch)
        return;
    howdah_subscription_info_get(j->sub, &info);
    cli_live_update(&j->live, &info, j->count);
}

/* Flushed before it counts as handled (I1): a line in our buffer is lost with us. */
static int print_event(job *j, const howdah_event *event)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    bool alive;
    int s;

    (void)pthread_mutex_lock(&j->lock);
    s = cli_events_put(&j->events, event, &err);
    if (s >= 0)
        cli_events_flush(&j->events);
    alive = cli_out_alive(&j->cli->out);
    (void)pthread_mutex_unlock(&j->lock);
    if (s < 0)
        return end_broken(j, &err);
    if (alive)
        return HOWDAH_HANDLED;
    end(j, NOBODY_READS);
    return HOWDAH_PUT_BACK;
}

#define VARIABLE_MAX 320

/* For commands that do not parse JSON. */
typedef struct variables {
    char id[VARIABLE_MAX];
    char type[VARIABLE_MAX];
    char stream[VARIABLE_MAX];
    char sequence[VARIABLE_MAX];
    char attempt[VARIABLE_MAX];
    char subscriber[VARIABLE_MAX];
    const char *list[7];
} variables;

static void name_variables(const howdah_event *event, const howdah_delivery *delivery, variables *v)
{
    char id[HOWDAH_UUID_SIZE];

    howdah_event_id(event, id);
    (void)snprintf(v->id, VARIABLE_MAX, "HOWDAH_EVENT_ID=%s", id);
    (void)snprintf(v->type, VARIABLE_MAX, "HOWDAH_EVENT_TYPE=%s", howdah_event_type(event));
    (void)snprintf(v->stream, VARIABLE_MAX, "HOWDAH_STREAM=%s", howdah_event_stream(event));
    (void)snprintf(v->sequence, VARIABLE_MAX, "HOWDAH_SEQUENCE=%" PRId64,
                   howdah_event_global_sequence(event));
    (void)snprintf(v->attempt, VARIABLE_MAX, "HOWDAH_ATTEMPT=%d",
                   howdah_delivery_attempt(delivery));
    (void)snprintf(v->subscriber, VARIABLE_MAX, "HOWDAH_SUBSCRIBER=%s",
                   howdah_delivery_subscriber(delivery));
    memcpy(
        v->list,
        ((const char *[]){v->id, v->type, v->stream, v->sequence, v->attempt, v->subscriber, NULL}),
        sizeof v->list);
}

/* Each failed try is a note: the command may go on for hours. */
static void say_failed(job *j, const howdah_event *event, const howdah_delivery *delivery,
                       const char *message)
{
    int attempt = howdah_delivery_attempt(delivery);

    /* After the last try the library tells of the dead letter, or of the halt. */
    if (attempt > j->r->options.max_retries && !howdah_delivery_is_redrive(delivery) && !j->watch)
        return;
    (void)pthread_mutex_lock(&j->lock);
    cli_live_clear(&j->live);
    cli_note(j->cli, "event %" PRId64 ", try %d: %s", howdah_event_global_sequence(event), attempt,
             message);
    (void)pthread_mutex_unlock(&j->lock);
}

static int put_input(const howdah_event *event, hw_buf *input, howdah_error *reterr)
{
    int s;

    hw_buf_clear(input);
    s = face_event_json(event, input, reterr);
    if (s < 0)
        return s;
    hw_buf_putc(input, '\n');
    return hw_buf_check(input, reterr);
}

/* A command that cannot even be started is no failure of the event: the whole run ends. */
static int run_command(job *j, const howdah_event *event, howdah_delivery *delivery)
{
    hw_buf input = HW_BUF_INIT(INPUT_BYTES_MAX);
    cli_exec_result result = {.ok = false};
    howdah_error err = HOWDAH_ERROR_INIT;
    variables v;
    int s = put_input(event, &input, &err);

    name_variables(event, delivery, &v);
    if (s == HOWDAH_OK)
        s = cli_exec(&(cli_exec_options){.command = j->r->exec,
                                         .input = {hw_buf_str(&input), input.len},
                                         .echo = !j->cli->quiet,
                                         .environment = v.list,
                                         .pass_store = j->r->pass_store},
                     &result, &err);
    hw_buf_done(&input);
    if (s < 0)
        return end_broken(j, &err);
    if (result.ok)
        return HOWDAH_HANDLED;
    /* A signal for us may have reached the command too: that is no failure of its own. */
    if (cli_signal_caught())
        return HOWDAH_PUT_BACK;
    say_failed(j, event, delivery, result.message);
    return howdah_delivery_fail(delivery, result.message);
}

/* Once we are about to leave, whatever still comes is put back (I1). */
static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    job *j = ctx;
    int result;

    if (j->ending != GOING_ON || cli_signal_caught())
        return HOWDAH_PUT_BACK;
    (void)pthread_mutex_lock(&j->lock);
    if (j->live.shared)
        cli_live_clear(&j->live);
    (void)pthread_mutex_unlock(&j->lock);
    result = j->r->exec ? run_command(j, event, delivery) : print_event(j, event);
    (void)pthread_mutex_lock(&j->lock);
    if (result == HOWDAH_HANDLED)
        count_one(j);
    update_live(j);
    (void)pthread_mutex_unlock(&j->lock);
    return result;
}

/* The library tells what happened; here it only counts. */
static void on_dead_letter(void *ctx, const howdah_event *event, const char *error, int attempts)
{
    job *j = ctx;

    (void)event;
    (void)error;
    (void)attempts;
    (void)pthread_mutex_lock(&j->lock);
    j->dead++;
    count_one(j);
    (void)pthread_mutex_unlock(&j->lock);
}

/* ------------------------------------------------------------------ looking */

/* A halt is told as the end of the command, with its advice; warnings nobody else tells. */
static void on_log(void *ctx, int level, const char *message)
{
    job *j = ctx;

    if (level != HOWDAH_LOG_WARN)
        return;
    (void)pthread_mutex_lock(&j->lock);
    cli_live_clear(&j->live);
    cli_note(j->cli, "%s", message);
    (void)pthread_mutex_unlock(&j->lock);
}

/* A person must look at it, so the advice is what to do after that. */
static int fail_halted(const howdah_subscription_info *info, howdah_error *reterr)
{
    int s = hw_fail(reterr, HOWDAH_FAILED, "subscription %s is halted: %s", info->subscriber_id,
                    info->reason[0] ? info->reason : "no reason was given");

    return hw_advise(reterr, s, "fix the cause, then: howdah sub resume %.100s",
                     info->subscriber_id);
}

static int fail_paused(const howdah_subscription_info *info, howdah_error *reterr)
{
    int s = hw_fail(reterr, HOWDAH_FAILED, "subscription %s is paused%s%s", info->subscriber_id,
                    info->reason[0] ? ": " : "", info->reason);

    return hw_advise(reterr, s, "howdah sub resume %.100s", info->subscriber_id);
}

/* State is looked at four times a second; the note is worth one line. */
static void say_once(job *j, const char *what, const char *detail)
{
    if (!j->said && j->cli->out.err_terminal) {
        cli_live_clear(&j->live);
        cli_note(j->cli, "%s: %s%s", j->r->options.subscriber_id, what, detail);
    }
    j->said = true;
}

/* Somebody else owns it; HOWDAH_END when there is nothing left for us to wait for. */
typedef struct stored {
    job *j;
    bool done;
} stored;

static int on_stored(void *ctx, const howdah_subscription_info *info)
{
    stored *w = ctx;

    w->done = info->high >= info->head && info->holes_n == 0;
    if (info->owner[0])
        say_once(w->j, "is on standby; the owner is ", info->owner);
    return 0;
}

/* Somebody else may own it: then only the store knows how far it is. */
static int look_at_stored(job *j, howdah_error *reterr)
{
    stored w = {j, false};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s =
        howdah_subscriptions_walk(j->cli->bus, j->r->options.subscriber_id, on_stored, &w, &err);

    if (s == HOWDAH_NOT_FOUND || s == HOWDAH_INTERRUPTED) {
        hw_error_copy(reterr, &err);
        return s;
    }
    /* A store that does not answer is waited for by the next slice. */
    return s >= 0 && w.done && j->r->until ? HOWDAH_END : HOWDAH_OK;
}

/* I3: what the store has of a shared one. */
typedef struct watched {
    job *j;
    howdah_error *reterr;
    int s;
} watched;

static int on_watched(void *ctx, const howdah_subscription_info *info)
{
    watched *w = ctx;
    job *j = w->j;

    (void)pthread_mutex_lock(&j->lock);
    cli_live_update(&j->live, info, j->count);
    if (info->state == HOWDAH_SUBSCRIPTION_PAUSED && !j->r->until)
        say_once(j, "is paused", "");
    (void)pthread_mutex_unlock(&j->lock);
    if (info->state == HOWDAH_SUBSCRIPTION_HALTED)
        w->s = fail_halted(info, w->reterr);
    else if (info->state == HOWDAH_SUBSCRIPTION_PAUSED && j->r->until)
        w->s = fail_paused(info, w->reterr);
    else if (j->r->until && info->high >= info->head && info->holes_n == 0)
        w->s = HOWDAH_END;
    return 0;
}

/* A store that does not answer is waited for by the next slice. */
static int look_at_shared(job *j, howdah_error *reterr)
{
    watched w = {j, reterr, HOWDAH_OK};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = howdah_subscriptions_walk(j->watch, j->r->options.subscriber_id, on_watched, &w, &err);

    if (s == HOWDAH_NOT_FOUND) {
        hw_error_copy(reterr, &err);
        return s;
    }
    if (s >= 0 && w.s != HOWDAH_OK)
        return w.s;
    return j->r->exec || cli_out_wanted(&j->cli->out) ? HOWDAH_OK : HOWDAH_END;
}

/* HOWDAH_END: there is no reason to go on. */
static int look(job *j, howdah_error *reterr)
{
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;
    int s;

    if (j->watch)
        return look_at_shared(j, reterr);
    howdah_subscription_info_get(j->sub, &info);
    cli_live_update(&j->live, &info, j->count);
    switch (info.state) {
    case HOWDAH_SUBSCRIPTION_HALTED:
        s = look_at_stored(j, reterr); /* removed is another class of failure */
        return s < 0 ? s : fail_halted(&info, reterr);
    case HOWDAH_SUBSCRIPTION_PAUSED:
        if (j->r->until)
            return fail_paused(&info, reterr);
        say_once(j, "is paused", "");
        break;
    case HOWDAH_SUBSCRIPTION_WAITING:
        s = look_at_stored(j, reterr);
        if (s != HOWDAH_OK)
            return s;
        break;
    case HOWDAH_SUBSCRIPTION_BEHIND:
    case HOWDAH_SUBSCRIPTION_LIVE:
    default:
        j->said = false;
        break;
    }
    return j->r->exec || cli_out_wanted(&j->cli->out) ? HOWDAH_OK : HOWDAH_END;
}

/* ------------------------------------------------------------------ serving */

/* A timeout that would overflow the clock is none. */
static int64_t end_of(int64_t timeout_ms)
{
    int64_t now_ms = hw_clock_mono_ms();

    if (timeout_ms == HOWDAH_ABSENT || timeout_ms > INT64_MAX - now_ms)
        return INT64_MAX;
    return now_ms + timeout_ms;
}

/* HOWDAH_END: nothing is left. */
static int serve_slice(job *j, int64_t end_ms, howdah_error *reterr)
{
    int64_t left = end_ms - hw_clock_mono_ms();
    int64_t ms = left < 0 ? 0 : left < SLICE_MS ? left : SLICE_MS;
    int s;

    if (j->watch) {
        s = howdah_runner_wait(j->cli->bus, ms, reterr);
        return s == HOWDAH_END ? HOWDAH_OK : s;
    }
    if (!j->r->until)
        return howdah_run(j->cli->bus, ms, reterr);
    s = howdah_subscription_wait(j->sub, ms, reterr);
    if (s < 0)
        return s;
    return s == HOWDAH_OK ? HOWDAH_END : HOWDAH_OK;
}

/* --max 0 serves nothing: the subscription was made, which is all that was asked for. */
static int serve(job *j, howdah_error *reterr)
{
    int64_t end_ms = end_of(j->r->timeout_ms);
    int s = j->r->max == 0 ? HOWDAH_END : HOWDAH_OK;

    while (s == HOWDAH_OK) {
        s = serve_slice(j, end_ms, reterr);
        if (j->ending == BROKEN) {
            *reterr = j->err;
            return j->err.status;
        }
        if (j->ending != GOING_ON)
            return HOWDAH_OK;
        if (s == HOWDAH_OK)
            s = look(j, reterr);
        if (s == HOWDAH_OK && hw_clock_mono_ms() >= end_ms)
            s = HOWDAH_END;
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* ----------------------------------------------------------- coming, leaving */

/* --from is for a new subscription; that it is ignored is told to a person. */
static int on_existing(void *ctx, const howdah_subscription_info *info)
{
    job *j = ctx;

    if (info->pattern)
        j->pattern = hw_strdup(info->pattern);
    if (info->stream)
        j->stream = hw_strdup(info->stream);
    j->originals = info->originals_only;
    if (cli_args_has(&j->cli->args, "from") && j->cli->out.err_terminal)
        cli_note(j->cli,
                 "%s exists already and continues after %" PRId64 "; howdah sub reset moves it",
                 info->subscriber_id, info->high);
    return 0;
}

/* What one that exists was subscribed to stays, unless something else is said. */
static int find_choice(job *j, howdah_subscribe_options *o, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = howdah_subscriptions_walk(j->cli->bus, o->subscriber_id, on_existing, j, &err);

    if (s < 0 && s != HOWDAH_NOT_FOUND) {
        *reterr = err;
        return s;
    }
    if (!o->pattern)
        o->pattern = j->pattern;
    if (!o->stream)
        o->stream = j->stream;
    else if (!o->stream[0])
        o->stream = NULL;
    if (!cli_args_has(&j->cli->args, "all-revisions"))
        o->originals_only = o->originals_only || j->originals;
    return HOWDAH_OK;
}

/* As members of their own, not as handlers: see subscribe_lines.c. */
static int run_lines(job *j, howdah_error *reterr)
{
    howdah_subscribe_options o = j->r->options;
    cli_lines_request r = {.member = HOWDAH_MEMBER_OPTIONS_INIT,
                           .command = j->r->lines,
                           .pass_store = j->r->pass_store,
                           .concurrency = o.concurrency,
                           .max = j->r->max,
                           .timeout_ms = j->r->timeout_ms,
                           .until = j->r->until};
    int s = find_choice(j, &o, reterr);

    r.member.subscriber_id = o.subscriber_id;
    r.member.max_events = o.catch_up_batch;
    if (cli_args_has(&j->cli->args, "lease"))
        r.member.lease_ms = o.lease_ms;
    r.member.pattern = o.pattern;
    r.member.stream = o.stream;
    r.member.originals_only = o.originals_only;
    r.member.start = o.start;
    r.member.key = o.key;
    r.member.on_fail = o.on_fail;
    r.member.max_retries = o.max_retries;
    r.member.retry_delay_ms = o.retry_delay_ms;
    r.member.max_retry_delay_ms = o.max_retry_delay_ms;
    r.member.ordering = o.ordering;
    r.member.gap_policy = o.gap_policy;
    r.member.gap_timeout_ms = o.gap_timeout_ms;
    return s < 0 ? s : cli_subscribe_lines(j->cli, &r, reterr);
}

static int subscribe(job *j, howdah_error *reterr)
{
    howdah_subscribe_options o = j->r->options;
    int s = find_choice(j, &o, reterr);

    if (s < 0)
        return s;
    o.handler = on_event;
    o.on_dead_letter = on_dead_letter;
    o.ctx = j;
    return howdah_subscribe(j->cli->bus, &o, &j->sub, reterr);
}

/* Whatever ended it, what was done is stored; s is how it ended. */
static int unsubscribe(job *j, int s, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int stored_s;

    assert(j->sub);
    if (j->watch)
        (void)howdah_runner_stop(j->cli->bus, NULL); /* what ended it is known */
    howdah_interrupt_clear(j->cli->bus);
    stored_s = howdah_unsubscribe(j->sub, &err);
    if (stored_s < 0 && (s >= 0 || s == HOWDAH_INTERRUPTED)) {
        *reterr = err;
        return stored_s;
    }
    return s;
}

/* For a person who watched; a log has the checkpoint, which says more. */
static void sum_up(job *j)
{
    char count[CLI_COUNT_SIZE];

    if (!j->cli->out.err_terminal)
        return;
    cli_count_text(j->count, count);
    cli_note(j->cli, "%s: %s event%s, %" PRId64 " of them dead letter%s",
             j->r->options.subscriber_id, count, j->count == 1 ? "" : "s", j->dead,
             j->dead == 1 ? "" : "s");
}

/* I3: as many threads as handlers may run at a time, and a bus to look at it. */
static int start_members(job *j, howdah_error *reterr)
{
    int s = j->r->options.instance == HOWDAH_INSTANCE_SHARED
                ? cli_open_another(j->cli, &j->watch, reterr)
                : HOWDAH_OK;

    if (s < 0 || !j->watch)
        return s;
    s = howdah_runner_start(j->cli->bus, (int)j->r->options.concurrency, reterr);
    if (s < 0) {
        howdah_close(j->watch);
        j->watch = NULL;
    }
    return s;
}

/* Once subscribed, every way out goes through unsubscribe() (I2). */
static int run(job *j, howdah_error *reterr)
{
    int s = cli_open(j->cli, reterr);

    howdah_log_set(on_log, j); /* of opening howdah doctor tells */
    if (s == HOWDAH_OK && j->r->lines) {
        s = run_lines(j, reterr);
        return s == HOWDAH_INTERRUPTED && cli_signal_caught() == SIGTERM ? HOWDAH_OK : s;
    }
    if (s == HOWDAH_OK)
        s = subscribe(j, reterr);
    if (s < 0)
        return s;
    if (j->cli->out.err_terminal && !j->cli->out.json)
        cli_note(j->cli, "subscribed to %s as %s; Ctrl-C ends it", howdah_bus_url(j->cli->bus),
                 j->r->options.subscriber_id);
    s = start_members(j, reterr);
    s = unsubscribe(j, s < 0 ? s : serve(j, reterr), reterr);
    howdah_close(j->watch);
    cli_live_clear(&j->live);
    sum_up(j);
    /* SIGTERM is how a service is asked to end, and it did; Ctrl-C is told as everywhere. */
    if (s == HOWDAH_INTERRUPTED && cli_signal_caught() == SIGTERM) {
        j->cli->out.broken = 0; /* a write it cut short: that event is outstanding */
        return HOWDAH_OK;
    }
    return s;
}

int cmd_subscribe(cli_context *cli, int argc, char **argv)
{
    static job j;
    howdah_error err = HOWDAH_ERROR_INIT;
    request r;
    int s = parse_request(&cli->args, &r, &err);

    (void)argc;
    (void)argv;
    cli_signals_service();
    if (s < 0)
        return cli_fail(cli, &err);
    j = (job){.cli = cli, .r = &r, .err = HOWDAH_ERROR_INIT};
    (void)pthread_mutex_init(&j.lock, NULL);
    cli_live_start(&j.live, cli);
    cli_events_init(&j.events, &cli->out, true);
    s = run(&j, &err);
    howdah_log_set(NULL, NULL);
    cli_events_done(&j.events);
    (void)pthread_mutex_destroy(&j.lock);
    hw_free(j.pattern);
    hw_free(j.stream);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
