/* url.c - see url.h. */
#include "gateway/url.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "gateway/routes.h"

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Into *at, with a NUL, and moves it on.  NULL: not well-formed, or not UTF-8, or it has a NUL. */
static const char *decode(hw_str raw, bool plus_is_space, char **at)
{
    char *out = *at;
    size_t n = 0;

    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.s[i];

        if (c == '%') {
            int high = raw.len - i > 2 ? hex_of(raw.s[i + 1]) : -1;
            int low = raw.len - i > 2 ? hex_of(raw.s[i + 2]) : -1;

            if (high < 0 || low < 0 || high + low == 0)
                return NULL;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        out[n++] = c;
    }
    out[n] = '\0';
    *at = out + n + 1;
    return hw_utf8_valid(out, n) ? out : NULL;
}

static int decode_vars(gw_request *r, const hw_str raw[GW_VARS_MAX], char **at,
                       howdah_error *reterr)
{
    for (size_t i = 0; i < GW_VARS_MAX && raw[i].s; i++) {
        r->vars[i] = decode(raw[i], false, at);
        if (!r->vars[i])
            return hw_fail_field(reterr, HOWDAH_INVALID, "path",
                                 "is not percent-encoded UTF-8 without NUL");
    }
    return HOWDAH_OK;
}

bool gw_word_is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    while (list && *list) {
        size_t len = strcspn(list, " ");

        if (len == n && strncmp(list, name, n) == 0)
            return true;
        list += len + (list[len] == ' ');
    }
    return false;
}

/* A name from outside goes into a message only if it is one. */
static int unknown_arg(const gw_request *r, const char *name, howdah_error *reterr)
{
    int s;

    for (const char *c = name; *c; c++)
        if (*c < 0x21 || *c > 0x7e || c - name > 30)
            return hw_fail(reterr, HOWDAH_INVALID, "unknown argument with a name of %zu bytes",
                           strlen(name));
    s = hw_fail_field(reterr, HOWDAH_INVALID, name, "unknown argument");
    return hw_advise(reterr, s, r->route->args ? "known here: %s" : "there are none here%s",
                     r->route->args ? r->route->args : "");
}

static int take_arg(gw_request *r, hw_str raw, char **at, howdah_error *reterr)
{
    const char *equals = memchr(raw.s, '=', raw.len);
    hw_str name = {raw.s, equals ? (size_t)(equals - raw.s) : raw.len};
    hw_str value = equals ? (hw_str){equals + 1, raw.len - name.len - 1} : HW_STR_LIT("");
    gw_arg arg = {decode(name, true, at), NULL};

    if (arg.name)
        arg.value = decode(value, true, at);
    if (!arg.value)
        return hw_fail_field(reterr, HOWDAH_INVALID, "query",
                             "is not percent-encoded UTF-8 without NUL");
    if (!gw_word_is_listed(r->route->args, arg.name))
        return unknown_arg(r, arg.name, reterr);
    if (gw_arg_given(r, arg.name) && strcmp(arg.name, "header") != 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, arg.name, "is given twice");
    if (r->args_n == GW_ARGS_MAX)
        return hw_fail(reterr, HOWDAH_INVALID, "more than %d arguments", GW_ARGS_MAX);
    r->args[r->args_n++] = arg;
    return HOWDAH_OK;
}

static int decode_args(gw_request *r, hw_str query, char **at, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    while (s >= 0 && query.len > 0) {
        const char *end = memchr(query.s, '&', query.len);
        hw_str raw = {query.s, end ? (size_t)(end - query.s) : query.len};
        size_t n = raw.len + (end != NULL);

        if (raw.len > 0)
            s = take_arg(r, raw, at, reterr);
        query = (hw_str){query.s + n, query.len - n};
    }
    return s;
}

int gw_url_decode(gw_request *r, hw_str query, const hw_str vars[GW_VARS_MAX], howdah_error *reterr)
{
    size_t room = query.len + 2 * (size_t)GW_ARGS_MAX + GW_VARS_MAX + 2;
    char *at;
    int s;

    for (size_t i = 0; i < GW_VARS_MAX; i++)
        room += vars[i].len;
    r->texts = at = hw_calloc(1, room);
    if (!at)
        return hw_fail_no_memory(reterr);
    s = decode_vars(r, vars, &at, reterr);
    if (s >= 0)
        s = decode_args(r, query, &at, reterr);
    assert(at <= r->texts + room);
    return s;
}
