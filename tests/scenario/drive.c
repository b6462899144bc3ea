/*
 * drive.c - the C library as a face of the scenarios: one step a line, one answer a line.
 *
 *     drive URL
 *     {"do":"append","with":{"stream":"s","type":"t","data_text":"{}"}}
 *     {"verdict":"ok","answer":{"global_sequence":1,...}}
 *
 * A refusal has the error's members: {"verdict":"INVALID","field":"stream",...}.  What a C caller
 * cannot say, a number where a function takes a text, is {"unsayable":"stream"}.
 */
#include "drive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/text.h"

#define OUT_BYTES_MAX ((size_t)256 * 1024 * 1024)

/* ---------------------------------------------------------------- arguments */

bool given(const step *s, const char *name, hw_str *ret_value)
{
    size_t pos = 0;
    hw_str key;

    while (hw_json_member(s->with.s, s->with.len, &pos, &key, ret_value))
        if (hw_json_key_is(key, name))
            return hw_json_kind(ret_value->s, ret_value->len) != '0';
    return false;
}

static const char *keep(step *s, char *text)
{
    if (!text || s->texts_n == TEXTS_MAX)
        abort();
    s->texts[s->texts_n++] = text;
    return text;
}

const char *text_arg(step *s, const char *name, size_t *ret_len)
{
    hw_buf text = HW_BUF_INIT(OUT_BYTES_MAX);
    hw_str value;

    if (!given(s, name, &value))
        return NULL;
    if (hw_json_kind(value.s, value.len) != 's') {
        s->unsayable = name;
        return NULL;
    }
    hw_json_unescape(value.s + 1, value.len - 2, &text);
    if (ret_len)
        *ret_len = text.len;
    else if (text.len > 0 && memchr(text.data, '\0', text.len))
        s->unsayable = name;
    return keep(s, hw_buf_take(&text));
}

const char *raw_arg(step *s, const char *name, size_t *ret_len)
{
    hw_str value;

    if (!given(s, name, &value))
        return NULL;
    *ret_len = value.len;
    return keep(s, hw_strndup(value.s, value.len));
}

const char *bytes_arg(step *s, const char *name, size_t *ret_len)
{
    hw_buf bytes = HW_BUF_INIT(OUT_BYTES_MAX);
    size_t len = 0;
    const char *text = text_arg(s, name, &len);

    if (!text)
        return NULL;
    if (!hw_base64_get(text, len, &bytes))
        s->unsayable = name;
    *ret_len = bytes.len;
    return keep(s, hw_buf_take(&bytes));
}

int64_t number_arg(step *s, const char *name, int64_t none)
{
    char text[32] = "";
    int64_t number = none;
    hw_str value;

    if (!given(s, name, &value))
        return none;
    if (value.len < sizeof text)
        memcpy(text, value.s, value.len);
    if (!hw_parse_i64(text, INT64_MIN, INT64_MAX, &number))
        s->unsayable = name;
    return number;
}

int64_t duration_arg(step *s, const char *name, int64_t none)
{
    const char *text = text_arg(s, name, NULL);
    int64_t ms = none;

    if (text && !hw_duration_parse(text, &ms))
        s->unsayable = name;
    return ms;
}

bool flag_arg(step *s, const char *name)
{
    hw_str value;

    return given(s, name, &value) && hw_json_kind(value.s, value.len) == 't';
}

int time_arg(step *s, const char *name, int64_t *time_us, howdah_error *reterr)
{
    const char *text = text_arg(s, name, NULL);
    int status;

    if (!text)
        return HOWDAH_OK;
    status = howdah_time_parse(text, time_us, reterr);
    if (status < 0)
        (void)snprintf(reterr->field, sizeof reterr->field, "%s", name);
    return status;
}

int64_t place_arg(step *s, const char *name)
{
    hw_str value;

    if (!given(s, name, &value) || hw_json_kind(value.s, value.len) != 's')
        return number_arg(s, name, HOWDAH_FROM_START);
    return strcmp(text_arg(s, name, NULL), "end") == 0 ? HOWDAH_FROM_END : HOWDAH_FROM_START;
}

/* ------------------------------------------------------------------- a step */

static action_fn *find(hw_str name)
{
    const action *const tables[] = {log_actions, group_actions, queue_actions};

    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const action *a = tables[t]; a->name; a++)
            if (hw_str_equal(name, hw_str_of(a->name)))
                return a->run;
    return NULL;
}

static void put_refusal(hw_buf *out, const howdah_error *err)
{
    hw_buf_printf(out, "{\"verdict\":\"%s\"", howdah_status_name(err->status));
    hw_json_write_text(out, "field", err->field[0] ? hw_str_of(err->field) : HW_STR_NULL);
    hw_json_write_number(out, "actual_version", err->actual_version);
    hw_json_write_number(out, "actual_revision", err->actual_revision);
    hw_json_write_number(out, "event_index", err->event_index);
    hw_json_write_text(out, "message", hw_str_of(err->message));
    hw_buf_puts(out, "}\n");
}

/* The line is {"do":NAME,"with":OBJECT}. */
static void run_line(howdah_bus *bus, hw_str line, hw_buf *out)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_buf answer = HW_BUF_INIT(OUT_BYTES_MAX);
    step whole = {.bus = bus, .with = line};
    step s = {.bus = bus, .out = &answer};
    hw_str name = HW_STR_NULL;
    action_fn *run;
    int status = HOWDAH_OK;

    if (!hw_json_valid(line.s, line.len, HW_JSON_DEPTH_MAX, NULL) || !given(&whole, "do", &name) ||
        !given(&whole, "with", &s.with)) {
        hw_buf_puts(out, "{\"unsayable\":\"the line\"}\n");
        return;
    }
    run = find((hw_str){name.s + 1, name.len - 2});
    if (!run)
        s.unsayable = "do";
    else
        status = run(&s, &err);
    if (s.unsayable)
        hw_buf_printf(out, "{\"unsayable\":\"%s\"}\n", s.unsayable);
    else if (status < 0)
        put_refusal(out, &err);
    else
        hw_buf_printf(out, "{\"verdict\":\"ok\",\"answer\":%s}\n",
                      answer.len > 0 ? hw_buf_str(&answer) : "{}");
    for (size_t i = 0; i < s.texts_n; i++)
        hw_free(s.texts[i]);
    hw_buf_done(&answer);
}

static int die(const howdah_error *err)
{
    (void)fprintf(stderr, "drive: %s\n", err->message);
    return 1;
}

int main(int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    hw_buf out = HW_BUF_INIT(OUT_BYTES_MAX);
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: drive URL\n");
        return 2;
    }
    if (howdah_open(argv[1], NULL, &bus, &err) < 0)
        return die(&err);
    while ((n = getline(&line, &room, stdin)) > 0) {
        hw_buf_clear(&out);
        run_line(bus, (hw_str){line, (size_t)n - (line[n - 1] == '\n')}, &out);
        if (fwrite(hw_buf_str(&out), 1, out.len, stdout) != out.len || fflush(stdout) != 0)
            break;
    }
    free(line);
    hw_buf_done(&out);
    return howdah_close(bus) < 0;
}
