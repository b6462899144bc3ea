/* answers.c - see answers.h. */
#include "cli/in/answers.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

#define DEPTH_MAX 64

static int bad_line(const char *what, hw_str line, howdah_error *reterr)
{
    int s = hw_fail(reterr, HOWDAH_INVALID, "the command answered with %s, %zu bytes long", what,
                    line.len);

    return hw_advise(reterr, s, "it has to write {\"ack\":N} or {\"nack\":N,\"error\":\"...\"}");
}

static bool take_number(hw_str raw, int64_t *ret_number)
{
    char text[24];

    if (raw.len == 0 || raw.len >= sizeof text)
        return false;
    memcpy(text, raw.s, raw.len);
    text[raw.len] = '\0';
    return hw_parse_i64(text, 1, INT64_MAX, ret_number);
}

/* Cut between characters; a NUL inside would end it. */
static void take_error(hw_str raw, cli_said *said)
{
    hw_buf text = HW_BUF_INIT(CLI_ANSWER_MAX);

    hw_json_unescape(raw.s + 1, raw.len - 2, &text);
    hw_utf8_copy(said->error, sizeof said->error, hw_buf_str(&text));
    hw_buf_done(&text);
}

/* Members that are not known are for others to read. */
static bool take_member(hw_str key, hw_str value, cli_said *said)
{
    char kind = hw_json_kind(value.s, value.len);

    if (hw_json_key_is(key, "ack"))
        return take_number(value, &said->ack);
    if (hw_json_key_is(key, "nack"))
        return take_number(value, &said->nack);
    if (hw_json_key_is(key, "error") && kind == 's')
        take_error(value, said);
    else if (hw_json_key_is(key, "final"))
        said->final = kind == 't';
    else if (hw_json_key_is(key, "result"))
        said->raw_result = value;
    return true;
}

bool cli_line_is_empty(hw_str line)
{
    size_t i = 0;

    while (i < line.len && strchr(" \t\r", line.s[i]) && line.s[i] != '\0')
        i++;
    return i == line.len;
}

int cli_said_parse(hw_str line, cli_said *ret_said, howdah_error *reterr)
{
    hw_str key;
    hw_str value;
    size_t pos = 0;

    *ret_said = (cli_said){.ack = 0};
    if (!hw_json_valid(line.s, line.len, DEPTH_MAX, NULL) || hw_json_kind(line.s, line.len) != 'o')
        return bad_line("a line that is no JSON object", line, reterr);
    while (hw_json_member(line.s, line.len, &pos, &key, &value))
        if (!take_member(key, value, ret_said))
            return bad_line("an \"ack\" or \"nack\" that is no number", line, reterr);
    return (ret_said->ack > 0) != (ret_said->nack > 0)
               ? HOWDAH_OK
               : bad_line("a line that has not one of \"ack\" and \"nack\"", line, reterr);
}
