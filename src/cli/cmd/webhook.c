/*
 * webhook.c - howdah webhook: whom the gateways tell of events.
 *
 * Here they are looked after; what sends is howdah serve.  A secret is printed by the one command
 * that made it.
 */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/in/verbs.h"
#include "cli/out/fields.h"
#include "face/webhooks.h"

#define HEADERS_BYTES_MAX ((size_t)256 * 1024)

/* A name that is not there is mostly a spelling mistake, so the advice is the list. */
static int advise_webhook(int s, howdah_error *reterr)
{
    return s == HOWDAH_NOT_FOUND ? hw_advise(reterr, s, "howdah webhook ls lists them") : s;
}

/* ---------------------------------------------------------------------- show */

static int on_listed(void *ctx, const howdah_webhook_info *info)
{
    return cli_list_put(ctx, info);
}

static int run_ls(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    cli_list list;
    int s = cli_open(cli, reterr);

    (void)words_n;
    (void)words;
    cli_list_begin(&list, cli, &face_webhook);
    if (s == HOWDAH_OK)
        s = howdah_webhooks_walk(cli->bus, NULL, on_listed, &list, reterr);
    cli_list_end(&list, s, "no webhooks; howdah webhook set NAME --url URL makes one");
    return s;
}

typedef struct showing {
    cli_context *cli;
    const char *tail; /* of the JSON */
} showing;

static void on_shown(void *ctx, const face_webhook_shown *shown)
{
    const showing *w = ctx;

    if (!w->cli->out.json) {
        cli_entity_show(&w->cli->out, &face_webhook_with_lag, shown);
        return;
    }
    cli_entity_json(&w->cli->out, &face_webhook_with_lag, shown, w->tail);
    cli_out_puts(&w->cli->out, "\n");
}

static int run_show(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    showing w = {cli, ""};
    int s = cli_open(cli, reterr);

    (void)words_n;
    return s < 0 ? s
                 : advise_webhook(face_webhook_show(cli->bus, words[0], on_shown, &w, reterr),
                                  reterr);
}

/* In a pipe the webhook as it is now, in a terminal a sentence. */
static int answer(cli_context *cli, const char *name, const char *sentence, const char *tail,
                  howdah_error *reterr)
{
    showing w = {cli, tail};

    if (cli->out.json)
        return face_webhook_show(cli->bus, name, on_shown, &w, reterr);
    cli_out_printf(&cli->out, "%s %s\n", name, sentence);
    return HOWDAH_OK;
}

/* ----------------------------------------------------------------------- set */

static int add_header(hw_buf *headers, const char *pair, howdah_error *reterr)
{
    const char *equals = strchr(pair, '=');

    if (!equals)
        return hw_fail(reterr, HOWDAH_MISUSE, "--header needs NAME=VALUE");
    if (!hw_utf8_valid(pair, strlen(pair)))
        return hw_fail_field(reterr, HOWDAH_INVALID, "headers", "name and value must be UTF-8");
    hw_buf_putc(headers, headers->len ? ',' : '{');
    hw_json_put_string(headers, pair, (size_t)(equals - pair));
    hw_buf_putc(headers, ':');
    hw_json_put_string(headers, equals + 1, strlen(equals + 1));
    return HOWDAH_OK;
}

static int take_headers(const cli_args *args, hw_buf *headers, howdah_error *reterr)
{
    const char *pair;
    size_t pos = 0;
    int s = HOWDAH_OK;

    while (s == HOWDAH_OK && (pair = cli_args_next(args, "header", &pos)))
        s = add_header(headers, pair, reterr);
    if (headers->len > 0)
        hw_buf_putc(headers, '}');
    return s < 0 ? s : hw_buf_check(headers, reterr);
}

static int take_options(const cli_args *args, howdah_webhook_options *o, hw_buf *headers,
                        howdah_error *reterr)
{
    int s = cli_args_position(args, "start", &o->start, reterr);

    o->url = cli_args_text(args, "url");
    o->pattern = cli_args_text(args, "pattern");
    o->stream = cli_args_text(args, "stream");
    o->subscriber_id = cli_args_text(args, "subscription");
    o->new_secret = cli_args_has(args, "new-secret");
    if (s >= 0 && !o->url)
        s = hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "webhook set needs --url"),
                      "usage: howdah webhook set NAME --url URL");
    if (s >= 0)
        s = cli_args_duration(args, "timeout", &o->timeout_ms, reterr);
    if (s >= 0)
        s = cli_args_number(args, "max-retries", 0, 1000000, &o->max_retries, reterr);
    if (s >= 0)
        s = cli_args_duration(args, "retry-delay", &o->retry_delay_ms, reterr);
    if (s >= 0)
        s = cli_args_duration(args, "max-retry-delay", &o->max_retry_delay_ms, reterr);
    if (s >= 0)
        s = take_headers(args, headers, reterr);
    o->headers = headers->len > 0 ? hw_buf_str(headers) : NULL;
    return s;
}

static int tell_set(cli_context *cli, const char *name, const char *secret, howdah_error *reterr)
{
    char tail[HOWDAH_WEBHOOK_SECRET_SIZE + 16] = "";
    int s;

    if (secret[0])
        (void)snprintf(tail, sizeof tail, ",\"secret\":\"%s\"", secret);
    s = answer(cli, name, "is set", tail, reterr);
    OPENSSL_cleanse(tail, sizeof tail);
    if (s >= 0 && secret[0] && !cli->out.json)
        cli_out_printf(&cli->out, "secret: %s\nKeep it: it is not shown again.\n", secret);
    return s;
}

static int run_set(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    howdah_webhook_options o = HOWDAH_WEBHOOK_OPTIONS_INIT;
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE] = "";
    hw_buf headers = HW_BUF_INIT(HEADERS_BYTES_MAX);
    int s = take_options(&cli->args, &o, &headers, reterr);

    (void)words_n;
    o.name = words[0];
    if (s >= 0)
        s = cli_open(cli, reterr);
    if (s >= 0)
        s = face_webhook_set(cli->bus, &o, secret, reterr);
    if (s >= 0)
        s = tell_set(cli, words[0], secret, reterr);
    OPENSSL_cleanse(secret, sizeof secret);
    hw_buf_done(&headers);
    return s;
}

/* ------------------------------------------------------- enable, disable, rm */

static int run_enable(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s >= 0)
        s = advise_webhook(howdah_webhook_enable(cli->bus, words[0], reterr), reterr);
    return s < 0 ? s : answer(cli, words[0], "is enabled", "", reterr);
}

static int run_disable(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    const char *reason = cli_args_text(&cli->args, "reason");
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s >= 0)
        s = advise_webhook(howdah_webhook_disable(cli->bus, words[0], reason, reterr), reterr);
    return s < 0 ? s : answer(cli, words[0], "is disabled", "", reterr);
}

/* It is gone, so the answer repeats its name. */
static int run_rm(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s >= 0)
        s = advise_webhook(howdah_webhook_remove(cli->bus, words[0], reterr), reterr);
    if (s < 0)
        return s;
    if (!cli->out.json)
        return answer(cli, words[0], "is removed; its subscription stays", "", reterr);
    cli_out_puts(&cli->out, "{\"name\":");
    cli_json_text(&cli->out, words[0]);
    cli_out_puts(&cli->out, ",\"removed\":true}\n");
    return HOWDAH_OK;
}

int cmd_webhook(cli_context *cli, int argc, char **argv)
{
    static const char set_options[] = "url pattern stream header start timeout max-retries "
                                      "retry-delay max-retry-delay subscription new-secret";
    static const cli_verb verbs[] = {
        {"ls", "webhook ls", "", 0, 0, run_ls},
        {"show", "webhook show NAME", "", 1, 1, run_show},
        {"set", "webhook set NAME --url URL [OPTIONS]", set_options, 1, 1, run_set},
        {"enable", "webhook enable NAME", "", 1, 1, run_enable},
        {"disable", "webhook disable NAME [--reason TEXT]", "reason", 1, 1, run_disable},
        {"rm", "webhook rm NAME", "", 1, 1, run_rm},
        {NULL, NULL, NULL, 0, 0, NULL},
    };

    (void)argc;
    (void)argv;
    return cli_verbs_run(cli, verbs);
}
