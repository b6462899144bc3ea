/*
 * access.c - see access.h.
 *
 *   I1  Whoever listens on loopback without tokens trusts everybody on this machine, but not the
 *       pages that their browsers show.  A page has an Origin, and a name that was made to point
 *       here by its owner's name server comes as a Host that is not ours.
 *   I2  A request with two lengths, or a length and chunks, is refused: a proxy before us may have
 *       read it the other way, and then the rest of it would be somebody's next request.  For the
 *       same reason a name that is no token ("Transfer-Encoding ") or a value with a control
 *       character is refused: a proxy may have taken it for the header that it resembles.
 */
#include "gateway/access.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/str.h"

typedef struct shape {
    int hosts;
    int lengths;
    int encodings;
    bool chunked;
    bool broken; /* a name or a value that no header has */
} shape;

static bool is_token(const char *name)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789"
                                  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    return *name && name[strspn(name, allowed)] == '\0';
}

static bool is_printable(const char *value)
{
    for (; *value; value++)
        if (((unsigned char)*value < 0x20 && *value != '\t') || *value == 0x7f)
            return false;
    return true;
}

static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    shape *seen = ctx;

    (void)kind;
    seen->broken = seen->broken || !is_token(name) || (value && !is_printable(value));
    if (strcasecmp(name, "Host") == 0)
        seen->hosts++;
    else if (strcasecmp(name, "Content-Length") == 0)
        seen->lengths++;
    else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        seen->encodings++;
        seen->chunked = value && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

/* The name alone, without a port: "[::1]" keeps its brackets. */
static hw_str name_of(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;

    if (end)
        return (hw_str){host, (size_t)(end + 1 - host)};
    return (hw_str){host, strcspn(host, ":")};
}

static bool name_is(hw_str name, const char *text)
{
    return name.len == strlen(text) && strncasecmp(name.s, text, name.len) == 0;
}

bool gw_host_is_loopback(const char *host)
{
    hw_str name = host ? name_of(host) : HW_STR_NULL;

    if (!name.s)
        return false;
    if (name_is(name, "localhost") || name_is(name, "[::1]"))
        return true;
    return name.len > 4 && strncmp(name.s, "127.", 4) == 0 &&
           strspn(name.s, "0123456789.") >= name.len;
}

/* "http://HOST" or "https://HOST", of the same host and port as the request's own. */
static bool is_own_origin(const char *origin, const char *host)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; host && i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i]);

        if (strncasecmp(origin, schemes[i], n) == 0 && strcasecmp(origin + n, host) == 0)
            return true;
    }
    return false;
}

int gw_access_check_shape(const gw_request *r, howdah_error *reterr)
{
    const char *host = gw_header(r, "Host");
    const char *origin = gw_header(r, "Origin");
    shape seen = {0, 0, 0, false, false};

    (void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, on_header, &seen);
    if (seen.hosts > 1 || seen.lengths > 1 || seen.encodings > 1 ||
        (seen.encodings > 0 && (seen.lengths > 0 || !seen.chunked)))
        return hw_fail(reterr, HOWDAH_INVALID, "the headers give the length or the host twice");
    if (seen.broken)
        return hw_fail(reterr, HOWDAH_INVALID, "a header's name or value is malformed");
    if (!gw_host_is_loopback(host)) {
        int s = hw_fail(reterr, HOWDAH_DENIED, "the header Host does not name this machine");

        return hw_advise(reterr, s, "ask http://localhost:PORT, or http://127.0.0.1:PORT");
    }
    if (origin && !is_own_origin(origin, host))
        return hw_fail(reterr, HOWDAH_DENIED, "requests of other pages are not taken");
    return HOWDAH_OK;
}
