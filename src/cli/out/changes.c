/*
 * changes.c - revisions for a person: what each of them says, and what it changed.
 *
 * Two JSON objects are compared member by member, by the text of their values; anything else as a
 * whole.  Where a line is too short, both sides of a change get half of it, so that neither hides
 * the other.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/out/events.h"
#include "cli/out/times.h"

#define INDENT 4u
#define LABEL_WIDTH 9
#define TEXT_BYTES_MAX 4096u /* of one text; a terminal shows less */
#define LINE_BYTES_MAX ((size_t)64 * 1024)
#define MEMBERS_MAX 256   /* objects with more are compared as a whole: nobody reads that list */
#define CHANGES_MAX 32    /* lines of one revision */
#define CONTEXT_BYTES 12u /* before what differs in long texts */

/* -------------------------------------------------------------------- facts */

/* The bytes of the next line: whole words, or what fits of one that is too long for a line. */
static size_t line_of(const char *text, unsigned width)
{
    size_t fits = cli_text_fit(text, width);
    size_t at = fits;

    if (!text[fits] || text[fits] == ' ')
        return fits;
    while (at > 0 && text[at - 1] != ' ')
        at--;
    if (at > 0)
        return at;
    return fits > 0 ? fits : strlen(text);
}

/* Text that is clean already, broken between words; lines after the first are indented. */
static void put_wrapped(cli_out *out, const char *text, unsigned width)
{
    while (*text) {
        size_t n = line_of(text, width);
        size_t shown = n;

        while (shown > 0 && text[shown - 1] == ' ')
            shown--;
        cli_out_put(out, text, shown);
        text += n;
        text += strspn(text, " ");
        if (*text)
            cli_out_printf(out, "\n%*s", (int)(INDENT + LABEL_WIDTH + 2), "");
    }
}

/* Text that is clean already, cut to the columns that are left. */
static void put_cut(cli_out *out, const char *text, unsigned width)
{
    bool cut = cli_text_width(text) > width && width > 0;

    cli_out_put(out, text, cut ? cli_text_fit(text, width - 1) : strlen(text));
    if (cut)
        cli_out_puts(out, out->utf8 ? "\xe2\x80\xa6" : "~");
}

/* Twenty columns at least: a narrower terminal wraps on its own. */
static unsigned room_of(const cli_out *out)
{
    unsigned used = INDENT + LABEL_WIDTH + 2;

    return out->width > used + 20 ? out->width - used : 20;
}

/* An empty label keeps its column, for lines that belong to the one above. */
static void put_label(cli_out *out, const char *label)
{
    cli_out_style(out, CLI_DIM);
    cli_out_printf(out, "%*s%-*s", (int)INDENT, "", LABEL_WIDTH + 2, label);
    cli_out_style(out, CLI_PLAIN);
}

/* A fact without a text is left out, with its label. */
static void put_fact(cli_out *out, const char *label, cli_style style, hw_str text, bool whole)
{
    hw_buf clean = HW_BUF_INIT(LINE_BYTES_MAX);

    if (!text.s || text.len == 0)
        return;
    cli_text_clean(&clean, text, TEXT_BYTES_MAX, out->utf8);
    put_label(out, label);
    if (style != CLI_PLAIN)
        cli_out_style(out, style);
    if (whole)
        put_wrapped(out, hw_buf_str(&clean), room_of(out));
    else
        put_cut(out, hw_buf_str(&clean), room_of(out));
    if (style != CLI_PLAIN)
        cli_out_style(out, CLI_PLAIN);
    cli_out_puts(out, "\n");
    hw_buf_done(&clean);
}

void cli_fact(cli_out *out, const char *label, cli_style style, hw_str text)
{
    put_fact(out, label, style, text, false);
}

void cli_fact_whole(cli_out *out, const char *label, cli_style style, hw_str text)
{
    put_fact(out, label, style, text, true);
}

void cli_fact_time(cli_out *out, const char *label, int64_t time_us)
{
    char text[HOWDAH_TIME_SIZE];

    cli_time_text(time_us, text);
    cli_fact(out, label, CLI_PLAIN, hw_str_of(text));
}

/* ------------------------------------------------------------------ changes */

typedef struct changes {
    cli_out *out;
    int n;
    hw_buf key;     /* of the member that is looked for, unescaped */
    hw_buf text[3]; /* name, old and new of a line */
} changes;

/* "(none)" for a side that is absent: a member that was added or removed. */
static void clean(changes *c, hw_str text, hw_buf *out)
{
    hw_buf_clear(out);
    if (text.s)
        cli_text_clean(out, text, TEXT_BYTES_MAX, c->out->utf8);
    else
        hw_buf_puts(out, "(none)");
}

/* Whether both sides, cut to their widths, would read the same although they are not. */
static bool cut_alike(const changes *c, const unsigned widths[3])
{
    const char *old = hw_buf_str(&c->text[1]);
    const char *new = hw_buf_str(&c->text[2]);
    size_t n;

    if (cli_text_width(old) <= widths[1] || cli_text_width(new) <= widths[2])
        return false;
    n = cli_text_fit(old, widths[1] - 1);
    return n == cli_text_fit(new, widths[2] - 1) && memcmp(old, new, n) == 0;
}

/* Bytes that both sides begin with, less some columns of them that show the place. */
static size_t alike_until(const changes *c)
{
    const char *old = hw_buf_str(&c->text[1]);
    const char *new = hw_buf_str(&c->text[2]);
    size_t n = 0;

    while (old[n] && old[n] == new[n])
        n++;
    n = n > CONTEXT_BYTES ? n - CONTEXT_BYTES : 0;
    while (n > 0 && ((unsigned char)old[n] & 0xc0u) == 0x80u)
        n--;
    return n;
}

/* A line for each side; where what differs would be cut off, they begin shortly before it. */
static void put_sides(changes *c)
{
    unsigned room = room_of(c->out) - 2;
    size_t skip = 0;

    assert(room >= 2);
    put_cut(c->out, hw_buf_str(&c->text[0]), room);
    cli_out_puts(c->out, ":");
    if (cut_alike(c, (const unsigned[3]){0, room, room}))
        skip = alike_until(c);
    for (int i = 1; i < 3; i++) {
        cli_out_puts(c->out, "\n");
        put_label(c->out, "");
        cli_out_puts(c->out, i == 1 ? "  " : c->out->utf8 ? "\xe2\x86\x92 " : "> ");
        if (skip > 0)
            cli_out_puts(c->out, c->out->utf8 ? "\xe2\x80\xa6" : "~");
        put_cut(c->out, hw_buf_str(&c->text[i]) + skip, skip > 0 ? room - 1 : room);
    }
    cli_out_puts(c->out, "\n");
}

/* "NAME: OLD -> NEW"; an absent side is "(none)". */
static void put_change(changes *c, const char *kind, hw_str name, hw_str old, hw_str new)
{
    unsigned room = room_of(c->out) - 5; /* ": " and the arrow */
    unsigned widths[3];

    if (++c->n > CHANGES_MAX)
        return;
    hw_buf_clear(&c->text[0]);
    hw_buf_puts(&c->text[0], kind);
    cli_text_clean(&c->text[0], name, TEXT_BYTES_MAX, c->out->utf8);
    clean(c, old, &c->text[1]);
    clean(c, new, &c->text[2]);
    for (int i = 0; i < 3; i++)
        widths[i] = cli_text_width(hw_buf_str(&c->text[i]));
    assert(room > 0);
    if (widths[0] > room / 2)
        widths[0] = room / 2;
    room -= widths[0];
    if (widths[1] + widths[2] > room) { /* what one side does not need the other gets */
        if (widths[1] <= room / 2)
            widths[2] = room - widths[1];
        else if (widths[2] <= room / 2)
            widths[1] = room - widths[2];
        else
            widths[1] = widths[2] = room / 2;
    }
    put_label(c->out, c->n == 1 ? "changed" : "");
    if (cut_alike(c, widths)) {
        put_sides(c);
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            cli_out_puts(c->out, i == 1 ? ": " : c->out->utf8 ? " \xe2\x86\x92 " : " -> ");
        put_cut(c->out, hw_buf_str(&c->text[i]), widths[i]);
    }
    cli_out_puts(c->out, "\n");
}

/* The last member of that name (key is unescaped); absent without one. */
static hw_str member_of(hw_str object, const char *name)
{
    hw_str found = HW_STR_NULL;
    hw_str key;
    hw_str value;
    size_t pos = 0;

    while (hw_json_member(object.s, object.len, &pos, &key, &value))
        if (hw_json_key_is(key, name))
            found = value;
    return found;
}

/* Stops one above the limit: more is not needed to refuse. */
static int members_in(hw_str object)
{
    hw_str key;
    hw_str value;
    size_t pos = 0;
    int n = 0;

    while (n <= MEMBERS_MAX && hw_json_member(object.s, object.len, &pos, &key, &value))
        n++;
    return n;
}

/* Changed and new members in the order of "to", then those that are gone. */
static void compare_members(changes *c, const char *kind, hw_str from, hw_str to)
{
    hw_str key;
    hw_str value;
    size_t pos = 0;

    while (hw_json_member(to.s, to.len, &pos, &key, &value)) {
        hw_str old;

        hw_buf_clear(&c->key);
        hw_json_unescape(key.s, key.len, &c->key);
        old = member_of(from, hw_buf_str(&c->key));
        if (!hw_str_equal(old, value))
            put_change(c, kind, (hw_str){hw_buf_str(&c->key), c->key.len}, old, value);
    }
    pos = 0;
    while (hw_json_member(from.s, from.len, &pos, &key, &value)) {
        hw_buf_clear(&c->key);
        hw_json_unescape(key.s, key.len, &c->key);
        if (!member_of(to, hw_buf_str(&c->key)).s)
            put_change(c, kind, (hw_str){hw_buf_str(&c->key), c->key.len}, value, HW_STR_NULL);
    }
}

/* Whether the payload is an object that is fit to be compared by members. */
static bool is_object(const howdah_event *event, hw_str *ret_object)
{
    if (howdah_event_content_type(event) || howdah_event_is_purged(event) ||
        howdah_event_is_retraction(event))
        return false;
    ret_object->s = howdah_event_data(event, &ret_object->len);
    return hw_json_kind(ret_object->s, ret_object->len) == 'o' &&
           members_in(*ret_object) <= MEMBERS_MAX;
}

/* By bytes and type: bytes of two types are not the same payload. */
static bool same_payload(const howdah_event *before, const howdah_event *after)
{
    hw_str from;
    hw_str to;

    from.s = howdah_event_data(before, &from.len);
    to.s = howdah_event_data(after, &to.len);
    return hw_str_equal(from, to) &&
           hw_str_equal(hw_str_of(howdah_event_content_type(before)),
                        hw_str_of(howdah_event_content_type(after))) &&
           howdah_event_is_purged(before) == howdah_event_is_purged(after);
}

/* Objects by members; anything else, or when one side is no object, as a whole. */
static void compare_payloads(changes *c, const howdah_event *before, const howdah_event *after)
{
    char old_room[128];
    char new_room[128];
    hw_str from;
    hw_str to;

    if (is_object(before, &from) && is_object(after, &to)) {
        compare_members(c, "", from, to);
        return;
    }
    if (!same_payload(before, after))
        put_change(c, "data", HW_STR_LIT(""), cli_event_payload(before, old_room, sizeof old_room),
                   cli_event_payload(after, new_room, sizeof new_room));
}

/* Only when both are known. */
static void compare_times(changes *c, const howdah_event *before, const howdah_event *after)
{
    char old[HOWDAH_TIME_SIZE];
    char new[HOWDAH_TIME_SIZE];
    int64_t from_us;
    int64_t to_us;

    if (!howdah_event_valid_time(before, &from_us) || !howdah_event_valid_time(after, &to_us) ||
        from_us == to_us)
        return;
    cli_time_text(from_us, old);
    cli_time_text(to_us, new);
    put_change(c, "valid time", HW_STR_LIT(""), hw_str_of(old), hw_str_of(new));
}

/* No headers are the same as {}. */
static hw_str headers_of(const howdah_event *event)
{
    hw_str headers;

    headers.s = howdah_event_headers(event, &headers.len);
    return headers.s ? headers : HW_STR_LIT("{}");
}

/* Of headers that were erased nobody knows what they were. */
static void compare_headers(changes *c, const howdah_event *before, const howdah_event *after)
{
    if (!howdah_event_is_purged(before) && !howdah_event_is_purged(after) &&
        members_in(headers_of(before)) <= MEMBERS_MAX &&
        members_in(headers_of(after)) <= MEMBERS_MAX)
        compare_members(c, "header ", headers_of(before), headers_of(after));
}

/* The form of the payload may change while its members look the same. */
static void compare_schema(changes *c, const howdah_event *before, const howdah_event *after)
{
    char old[24];
    char new[24];
    long long from = (long long)howdah_event_schema_version(before);
    long long to = (long long)howdah_event_schema_version(after);

    if (from == to)
        return;
    (void)snprintf(old, sizeof old, "%lld", from);
    (void)snprintf(new, sizeof new, "%lld", to);
    put_change(c, "schema version", HW_STR_LIT(""), hw_str_of(old), hw_str_of(new));
}

/*
 * For the first revision, and for the first after a retraction: there is nothing to compare with.
 */
static void put_whole(cli_out *out, const howdah_event *event)
{
    char room[128];
    hw_str headers = headers_of(event);

    cli_fact(out, "data", CLI_PLAIN, cli_event_payload(event, room, sizeof room));
    if (headers.len > 2) /* more than {} */
        cli_fact(out, "headers", CLI_PLAIN, headers);
}

/* A retraction says nothing but that it is one. */
void cli_changes(cli_out *out, const howdah_event *before, const howdah_event *after)
{
    changes c = {
        out,
        0,
        HW_BUF_INIT(LINE_BYTES_MAX),
        {HW_BUF_INIT(LINE_BYTES_MAX), HW_BUF_INIT(LINE_BYTES_MAX), HW_BUF_INIT(LINE_BYTES_MAX)}};

    if (howdah_event_is_retraction(after))
        return;
    if (!before || howdah_event_is_retraction(before)) {
        put_whole(out, after);
        return;
    }
    compare_payloads(&c, before, after);
    compare_times(&c, before, after);
    compare_headers(&c, before, after);
    compare_schema(&c, before, after);
    /* Of what was erased nobody knows. */
    if (c.n == 0 && !howdah_event_is_purged(before) && !howdah_event_is_purged(after))
        cli_fact(out, "changed", CLI_PLAIN, HW_STR_LIT("(nothing)"));
    if (c.n > CHANGES_MAX) {
        put_label(out, "");
        cli_out_printf(out, "and %d more\n", c.n - CHANGES_MAX);
    }
    hw_buf_done(&c.key);
    for (int i = 0; i < 3; i++)
        hw_buf_done(&c.text[i]);
}

/* ------------------------------------------------------------------ history */

/* Stream and type are the same in every revision, so they stand above all of them. */
static void put_heading(cli_out *out, const howdah_event *event)
{
    hw_buf line = HW_BUF_INIT(LINE_BYTES_MAX);
    char family[HOWDAH_UUID_SIZE];

    howdah_event_family(event, family);
    cli_text_clean(&line, hw_str_of(howdah_event_stream(event)), TEXT_BYTES_MAX, out->utf8);
    hw_buf_puts(&line, "  ");
    cli_text_clean(&line, hw_str_of(howdah_event_type(event)), TEXT_BYTES_MAX, out->utf8);
    cli_out_style(out, CLI_BOLD);
    put_cut(out, hw_buf_str(&line), out->width);
    cli_out_style(out, CLI_PLAIN);
    cli_out_printf(out, "\nfamily %s\n", family);
    hw_buf_done(&line);
}

static void put_mark(cli_out *out, bool wanted, const char *mark)
{
    if (!wanted)
        return;
    cli_out_puts(out, "  ");
    cli_out_style(out, CLI_RED);
    cli_out_puts(out, mark);
    cli_out_style(out, CLI_PLAIN);
}

/* The id only from the second one on: the first has that of the family. */
static void put_revision(cli_out *out, const howdah_event *before, const howdah_event *event)
{
    char id[HOWDAH_UUID_SIZE];
    int64_t at_us;

    howdah_event_id(event, id);
    cli_out_puts(out, "\n");
    cli_out_style(out, CLI_BOLD);
    cli_out_printf(out, "revision %d", howdah_event_revision(event));
    cli_out_style(out, CLI_PLAIN);
    put_mark(out, howdah_event_is_retraction(event), "RETRACTED");
    put_mark(out, howdah_event_is_purged(event), "PURGED");
    cli_out_puts(out, "\n");
    if (howdah_event_recorded_at(event, &at_us))
        cli_fact_time(out, "recorded", at_us);
    if (howdah_event_valid_time(event, &at_us))
        cli_fact_time(out, "valid", at_us);
    cli_fact(out, "by", CLI_PLAIN, hw_str_of(howdah_event_actor(event)));
    cli_fact_whole(out, "reason", CLI_CYAN, hw_str_of(howdah_event_reason(event)));
    if (howdah_event_revision(event) > 1)
        cli_fact(out, "id", CLI_DIM, hw_str_of(id));
    cli_changes(out, before, event);
}

/*
 * A revision is compared with the one before it, so one is held; backward that comes a call later.
 */
int cli_history_put(cli_history *history, const howdah_event *event, howdah_error *reterr)
{
    howdah_event *copy = NULL;
    int s = howdah_event_copy(event, &copy, reterr);

    if (s < 0)
        return s;
    if (!history->open)
        put_heading(history->out, event);
    history->open = true;
    if (!history->backward)
        put_revision(history->out, history->held, event);
    else if (history->held)
        put_revision(history->out, event, history->held);
    howdah_event_free(history->held);
    history->held = copy;
    return HOWDAH_OK;
}

void cli_history_end(cli_history *history)
{
    if (history->backward && history->held)
        put_revision(history->out, NULL, history->held);
    howdah_event_free(history->held);
    history->held = NULL;
}
