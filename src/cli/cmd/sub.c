/*
 * sub.c - howdah sub: subscriptions by name, from any process.
 *
 * Nothing here talks to the process that runs a subscription: what is asked for is stored, and the
 * owner sees it with its next look.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/in/signals.h"
#include "cli/in/verbs.h"
#include "cli/out/fields.h"
#include "face/subscriptions.h"

#define WAIT_LOOK_MS 100

/* ---------------------------------------------------------------- ls, show */

static int on_listed(void *ctx, const howdah_subscription_info *info)
{
    return cli_list_put(ctx, info);
}

static int run_ls(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    cli_list list;
    int s = cli_open(cli, reterr);

    (void)words_n;
    (void)words;
    cli_list_begin(&list, cli, &face_subscription);
    if (s == HOWDAH_OK)
        s = howdah_subscriptions_walk(cli->bus, NULL, on_listed, &list, reterr);
    cli_list_end(&list, s, "no subscriptions; howdah subscribe NAME makes one");
    return s;
}

/* The same object for show, pause, resume, reset and wait. */
static int on_shown(void *ctx, const howdah_subscription_info *info)
{
    cli_context *cli = ctx;

    cli_entity_put(&cli->out, &face_subscription, info);
    return 0;
}

/* The members of a shared one, collected before it is printed. */
typedef struct members {
    face_members list;
    cli_table *table; /* NULL: none is drawn */
} members;

static int on_member(void *ctx, const howdah_member_info *info)
{
    members *m = ctx;

    face_members_add(&m->list, info);
    if (m->table)
        cli_fields_row(m->table, face_member.fields, face_member.table, info);
    return 0;
}

typedef struct showing {
    cli_context *cli;
    members m;
    bool shared;
} showing;

static int on_is_shared(void *ctx, const howdah_subscription_info *info)
{
    ((showing *)ctx)->shared = info->shared;
    return 0;
}

static int on_shown_whole(void *ctx, const howdah_subscription_info *info)
{
    const showing *w = ctx;
    const face_subscription_shown shown = {*info, hw_buf_str(&w->m.list.json), w->m.list.n};

    cli_entity_put(&w->cli->out, &face_subscription_with_members, &shown);
    return 0;
}

/* Its members first: JSON is one object, and in a terminal their table comes after the fields. */
static int show(showing *w, const char *name, howdah_error *reterr)
{
    cli_context *cli = w->cli;
    cli_table table;
    int s = howdah_subscriptions_walk(cli->bus, name, on_is_shared, w, reterr);

    if (s >= 0 && w->shared && !cli->out.json) {
        cli_entity_table(&table, &cli->out, &face_member);
        w->m.table = &table;
    }
    if (s >= 0 && w->shared)
        s = howdah_members_walk(cli->bus, name, on_member, &w->m, reterr);
    face_members_end(&w->m.list);
    if (s >= 0)
        s = hw_buf_check(&w->m.list.json, reterr);
    if (s >= 0)
        s = howdah_subscriptions_walk(cli->bus, name, on_shown_whole, w, reterr);
    if (w->m.table && s >= 0 && w->m.list.n > 0) {
        cli_out_puts(&cli->out, "\n");
        cli_table_flush(&table);
    }
    if (w->m.table)
        cli_table_done(&table);
    return s;
}

/* A name that is not there is the library's NOT_FOUND. */
static int run_show(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    showing w = {cli, {FACE_MEMBERS_INIT, NULL}, false};
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s >= 0)
        s = show(&w, words[0], reterr);
    face_members_done(&w.m.list);
    return s;
}

/* ------------------------------------------------ pause, resume, reset, rm */

/* In a pipe the subscription as it is now, in a terminal a sentence. */
static int answer(cli_context *cli, const char *name, const char *sentence, howdah_error *reterr)
{
    if (cli->out.json)
        return howdah_subscriptions_walk(cli->bus, name, on_shown, cli, reterr);
    cli_out_printf(&cli->out, "%s %s\n", name, sentence);
    return HOWDAH_OK;
}

/* The reason is stored and shown, so that others know why it stands still. */
static int run_pause(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = howdah_subscription_pause(cli->bus, words[0], cli_args_text(&cli->args, "reason"),
                                      reterr);
    return s < 0 ? s
                 : answer(cli, words[0], "is paused; its owner notices within a second", reterr);
}

/* Also releases a halted one: its owner tries the same event again. */
static int run_resume(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = howdah_subscription_resume(cli->bus, words[0], reterr);
    return s < 0 ? s : answer(cli, words[0], "is resumed", reterr);
}

/* --to is required: a default would throw a place away by accident. */
static int run_reset(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    const char *text = cli_args_text(&cli->args, "to");
    int64_t to = 0;
    bool since;
    int s;

    (void)words_n;
    if (!text)
        return hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "sub reset needs --to"),
                         "usage: howdah sub reset NAME --to start|end|N|TIME");
    since = hw_time_parse(text, strlen(text), &to);
    s = since ? HOWDAH_OK : cli_args_position(&cli->args, "to", &to, reterr);
    if (s < 0)
        return hw_advise(reterr, s, "a TIME is RFC 3339 with an offset, like 2026-01-31T09:30:00Z");
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = since ? howdah_subscription_reset_since(cli->bus, words[0], to, reterr)
                  : howdah_subscription_reset(cli->bus, words[0], to, reterr);
    return s < 0 ? s
                 : answer(cli, words[0], "was moved; its owner starts again from there", reterr);
}

/*
 * The router of a binding is removed by unbind, and the library's advice says so; else somebody
 * runs it.
 */
static int run_rm(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = howdah_subscription_remove(cli->bus, words[0], reterr);
    if (s == HOWDAH_CONFLICT && strncmp(reterr->advice, "howdah unbind", 13) != 0)
        return hw_advise(reterr, s, "stop the process that runs it first");
    if (s < 0)
        return s;
    if (cli->out.json) {
        cli_out_puts(&cli->out, "{\"subscriber_id\":");
        cli_json_text(&cli->out, words[0]);
        cli_out_puts(&cli->out, ",\"removed\":true}\n");
    } else {
        cli_out_printf(&cli->out, "%s is removed; its dead letters stay\n", words[0]);
    }
    return HOWDAH_OK;
}

/* For one process again: howdah subscribe without --shared. */
static int run_unshare(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = howdah_subscription_unshare(cli->bus, words[0], reterr);
    return s < 0 ? s
                 : answer(cli, words[0], "is not shared any more, and stays where it is", reterr);
}

/* -------------------------------------------------------------------- wait */

typedef struct wait_state {
    cli_context *cli;
    int64_t target; /* the head at the start; HOWDAH_ABSENT: not known yet */
    int64_t at;     /* all up to here is handled, as stored */
    bool said;
    howdah_error *reterr;
    int s;
} wait_state;

/* The first look fixes the target, so that new events do not move it away. */
static int on_looked(void *ctx, const howdah_subscription_info *info)
{
    wait_state *w = ctx;

    if (w->target == HOWDAH_ABSENT)
        w->target = info->head;
    w->at = info->contiguous;
    if (info->state == HOWDAH_SUBSCRIPTION_HALTED && w->at < w->target) {
        w->s = hw_fail(w->reterr, HOWDAH_FAILED, "subscription %s is halted at %" PRId64 ": %s",
                       info->subscriber_id, w->at, info->reason);
        (void)hw_advise(w->reterr, w->s, "fix the cause, then: howdah sub resume %.100s",
                        info->subscriber_id);
    }
    if (info->state == HOWDAH_SUBSCRIPTION_PAUSED && !w->said && w->at < w->target) {
        cli_note(w->cli, "%s is paused", info->subscriber_id);
        w->said = true;
    }
    return 0;
}

/* It polls: the subscription may run anywhere, and only the store knows where it is. */
static int wait_for(wait_state *w, const char *name, int64_t end_ms, howdah_error *reterr)
{
    for (;;) {
        struct timespec pause = {0, WAIT_LOOK_MS * 1000000L};
        int s = howdah_subscriptions_walk(w->cli->bus, name, on_looked, w, reterr);

        if (s >= 0)
            s = w->s;
        if (s < 0 || w->at >= w->target)
            return s;
        if (cli_signal_caught())
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        if (hw_clock_mono_ms() >= end_ms) {
            s = hw_fail(reterr, HOWDAH_FAILED,
                        "subscription %s is at %" PRId64 ", and has not reached %" PRId64 " yet",
                        name, w->at, w->target);
            return hw_advise(reterr, s, "howdah sub show %.100s shows who runs it", name);
        }
        (void)nanosleep(&pause, NULL); /* a signal ends it */
    }
}

/* A timeout that would overflow the clock is none. */
static int run_wait(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    wait_state w = {cli, HOWDAH_ABSENT, 0, false, reterr, HOWDAH_OK};
    int64_t timeout_ms = HOWDAH_ABSENT;
    int64_t now_ms = hw_clock_mono_ms();
    int s = cli_args_duration(&cli->args, "timeout", &timeout_ms, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = wait_for(&w, words[0],
                     timeout_ms == HOWDAH_ABSENT || timeout_ms > INT64_MAX - now_ms
                         ? INT64_MAX
                         : now_ms + timeout_ms,
                     reterr);
    return s < 0 ? s : answer(cli, words[0], "has handled everything that was in the log", reterr);
}

/* ------------------------------------------------------------------- skips */

static int on_skip(void *ctx, const howdah_skip *skip)
{
    return cli_list_put(ctx, skip);
}

/* Open ones unless --all. */
static int run_skips(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    cli_list list;
    int s = cli_open(cli, reterr);

    cli_list_begin(&list, cli, &face_skip);
    if (s == HOWDAH_OK)
        s = howdah_skips_walk(cli->bus, words_n > 0 ? words[0] : NULL,
                              cli_args_has(&cli->args, "all"), on_skip, &list, reterr);
    cli_list_end(&list, s, "nothing was skipped");
    return s;
}

/* A skip is resolved by a person who looked, so it needs a reason. */
static int run_resolve(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    const char *reason = cli_args_text(&cli->args, "reason");
    int64_t id = 0;
    int s = cli_word_id(words[0], &id, reterr);

    (void)words_n;
    if (s < 0)
        return s;
    if (!reason)
        return hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "sub resolve needs --reason"),
                         "usage: howdah sub resolve ID --reason TEXT");
    s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = howdah_skip_resolve(cli->bus, id, reason, reterr);
    if (s < 0)
        return s;
    cli_out_printf(&cli->out,
                   cli->out.json ? "{\"id\":%" PRId64 ",\"resolved\":true}\n"
                                 : "skip %" PRId64 " is resolved\n",
                   id);
    return HOWDAH_OK;
}

int cmd_sub(cli_context *cli, int argc, char **argv)
{
    static const cli_verb verbs[] = {
        {"ls", "sub ls", "", 0, 0, run_ls},
        {"show", "sub show NAME", "", 1, 1, run_show},
        {"reset", "sub reset NAME --to start|end|N", "to", 1, 1, run_reset},
        {"pause", "sub pause NAME [--reason TEXT]", "reason", 1, 1, run_pause},
        {"resume", "sub resume NAME", "", 1, 1, run_resume},
        {"rm", "sub rm NAME", "", 1, 1, run_rm},
        {"unshare", "sub unshare NAME", "", 1, 1, run_unshare},
        {"wait", "sub wait NAME [--timeout D]", "timeout", 1, 1, run_wait},
        {"skips", "sub skips [NAME] [--all]", "all", 0, 1, run_skips},
        {"resolve", "sub resolve ID --reason TEXT", "reason", 1, 1, run_resolve},
        {NULL, NULL, NULL, 0, 0, NULL},
    };

    (void)argc;
    (void)argv;
    return cli_verbs_run(cli, verbs);
}
