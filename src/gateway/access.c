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
 *   I3  A token is shown in the header Authorization, which no page of somebody else can make a
 *       browser send: where tokens are asked for, the Host need not be ours.
 *   I4  What a client says about itself is believed behind a proxy only, and only what the last
 *       proxy has written.
 *   I5  A secret is in no error, no log and no answer.
 */
#include "gateway/access.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/str.h"
#include "gateway/attempts.h"
#include "gateway/routes.h"
#include "gateway/scope.h"
#include "gateway/server.h"
#include "gateway/tokens.h"

typedef struct shape {
    int hosts;
    int lengths;
    int encodings;
    bool chunked;
    int authorizations;
    const char *forwarded_for; /* the last one of each */
    const char *forwarded_proto;
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
    } else if (strcasecmp(name, "Authorization") == 0)
        seen->authorizations++;
    else if (strcasecmp(name, "X-Forwarded-For") == 0)
        seen->forwarded_for = value;
    else if (strcasecmp(name, "X-Forwarded-Proto") == 0)
        seen->forwarded_proto = value;
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

/* ------------------------------------------------------------------ who it is */

/* What the last proxy has written stands last: "1.2.3.4, 5.6.7.8". */
static const char *last_of(const char *list)
{
    const char *comma = list ? strrchr(list, ',') : NULL;
    const char *at = comma ? comma + 1 : list;

    return at ? at + strspn(at, " \t") : NULL;
}

/* An address, and nothing else: it goes into the log. */
static bool take_forwarded(const char *text, char ret_client[GW_CLIENT_SIZE])
{
    unsigned char address[sizeof(struct in6_addr)];

    if (!text || strlen(text) >= GW_CLIENT_SIZE ||
        (inet_pton(AF_INET, text, address) != 1 && inet_pton(AF_INET6, text, address) != 1))
        return false;
    (void)snprintf(ret_client, GW_CLIENT_SIZE, "%s", text);
    return true;
}

static void find_client(gw_request *r, const shape *seen)
{
    const gw_options *o = &r->gateway->options;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const char *proto = o->behind_proxy ? last_of(seen->forwarded_proto) : NULL;
    socklen_t n = 0;

    r->secure = o->tls_cert || (proto && strcasecmp(proto, "https") == 0);
    if (o->behind_proxy && take_forwarded(last_of(seen->forwarded_for), r->client))
        return;
    if (info && info->client_addr)
        n = info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                     : sizeof(struct sockaddr_in);
    if (n == 0 ||
        getnameinfo(info->client_addr, n, r->client, GW_CLIENT_SIZE, NULL, 0, NI_NUMERICHOST) != 0)
        r->client[0] = '\0';
}

/* The network of an IPv6 address: its owner has all of the others in it. */
static hw_str network_of(const gw_request *r, unsigned char room[sizeof(struct in6_addr)])
{
    if (inet_pton(AF_INET6, r->client, room) == 1)
        return (hw_str){(const char *)room, 8};
    return hw_str_of(r->client);
}

/* --------------------------------------------------------------- other pages */

/* "http://HOST" or "https://HOST", of the same host and port as the request's own. */
static bool is_own_origin(const gw_request *r, const char *origin, const char *host)
{
    const char *scheme = r->secure ? "https://" : "http://";
    size_t n = strlen(scheme);

    return host && strncasecmp(origin, scheme, n) == 0 && strcasecmp(origin + n, host) == 0;
}

static const char *listed_origin(const gw_request *r, const char *origin)
{
    const gw_options *o = &r->gateway->options;

    for (size_t i = 0; i < o->cors_n; i++)
        if (strcasecmp(o->cors[i], origin) == 0)
            return o->cors[i];
    return NULL;
}

static bool host_is_ours(const gw_request *r, const char *host)
{
    const gw_options *o = &r->gateway->options;
    hw_str name = host ? name_of(host) : HW_STR_NULL;

    for (size_t i = 0; name.s && i < o->hosts_n; i++)
        if (name_is(name, o->hosts[i]))
            return true;
    return gw_host_is_loopback(host);
}

static int check_host(gw_request *r, howdah_error *reterr)
{
    int s;

    if ((r->tokens && gw_tokens_in_force(r->gateway->tokens, r->tokens)) ||
        host_is_ours(r, gw_header(r, "Host"))) /* I3 */
        return HOWDAH_OK;
    s = hw_fail(reterr, HOWDAH_DENIED, "the header Host does not name this machine");
    return hw_advise(reterr, s, "ask http://localhost:PORT, or start the gateway with --host NAME");
}

int gw_access_check_shape(gw_request *r, howdah_error *reterr)
{
    const char *origin = gw_header(r, "Origin");
    shape seen = {.hosts = 0};
    int s;

    (void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, on_header, &seen);
    find_client(r, &seen);
    r->tokens = gw_tokens_hold(r->gateway->tokens);
    if (seen.hosts > 1 || seen.lengths > 1 || seen.encodings > 1 ||
        (seen.encodings > 0 && (seen.lengths > 0 || !seen.chunked)))
        return hw_fail(reterr, HOWDAH_INVALID, "the headers give the length or the host twice");
    if (seen.broken)
        return hw_fail(reterr, HOWDAH_INVALID, "a header's name or value is malformed");
    if (seen.authorizations > 1)
        return hw_fail(reterr, HOWDAH_INVALID, "the header Authorization is given twice");
    s = check_host(r, reterr);
    if (s < 0 || !origin)
        return s;
    r->origin = listed_origin(r, origin);
    if (!r->origin && !is_own_origin(r, origin, gw_header(r, "Host")))
        return hw_fail(reterr, HOWDAH_DENIED, "requests of other pages are not taken");
    return HOWDAH_OK;
}

bool gw_access_preflight(gw_request *r, hw_str path)
{
    hw_str vars[GW_VARS_MAX] = {HW_STR_NULL, HW_STR_NULL};
    char allowed[GW_ALLOWED_SIZE];

    if (!r->origin || strcmp(r->method, "OPTIONS") != 0 ||
        !gw_header(r, "Access-Control-Request-Method"))
        return false;
    (void)gw_route_find("OPTIONS", path, vars, allowed);
    if (!*allowed)
        return false;
    gw_answer_header(r, "Access-Control-Allow-Methods", "%s", allowed);
    gw_answer_header(r, "Access-Control-Allow-Headers",
                     "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, "
                     "Last-Event-ID, traceparent, tracestate");
    gw_answer_header(r, "Access-Control-Max-Age", "600");
    r->answer.http_status = 204;
    r->state = GW_ANSWERED;
    return true;
}

void gw_access_headers(const gw_request *r, struct MHD_Response *response)
{
    if (r->gateway->options.cors_n > 0)
        (void)MHD_add_response_header(response, "Vary", "Origin");
    if (!r->origin)
        return;
    (void)MHD_add_response_header(response, "Access-Control-Allow-Origin", r->origin);
    (void)MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                  "ETag, Location, Retry-After, X-Howdah-Final, X-Request-Id");
}

/* ------------------------------------------------------------------- rights */

/* The secret of "Bearer hwd_..."; NULL: there is none. */
static const char *secret_of(const gw_request *r)
{
    const char *text = gw_header(r, "Authorization");

    if (!text || strncasecmp(text, "Bearer ", 7) != 0)
        return NULL;
    text += 7;
    return text + strspn(text, " ");
}

static int refuse(gw_request *r, int http_status, int status)
{
    r->refused = http_status;
    return status;
}

static int ask_for_token(gw_request *r, howdah_error *reterr)
{
    int s = hw_fail(reterr, HOWDAH_DENIED, "a token is needed");

    (void)hw_advise(reterr, s,
                    "send the header Authorization: Bearer TOKEN; howdah serve token "
                    "add makes one");
    r->challenge = "Bearer realm=\"howdah\"";
    return refuse(r, 401, s);
}

static int refuse_token(gw_request *r, howdah_error *reterr)
{
    unsigned char room[sizeof(struct in6_addr)];
    int wait_s = gw_attempts_failed(r->gateway->attempts, network_of(r, room));
    int s;

    if (wait_s > 0) {
        r->retry_after = wait_s;
        s = hw_fail(reterr, HOWDAH_DENIED, "too many tokens that are not good, from one address");
        return refuse(r, 429, s);
    }
    r->challenge = "Bearer realm=\"howdah\", error=\"invalid_token\"";
    s = hw_fail(reterr, HOWDAH_DENIED, "the token is not known, or was revoked");
    return refuse(r, 401, s);
}

static int64_t bit_of(gw_right right)
{
    static const int64_t bits[] = {[GW_ANYBODY] = 0,
                                   [GW_READ] = HOWDAH_MAY_READ,
                                   [GW_PUBLISH] = HOWDAH_MAY_PUBLISH,
                                   [GW_SUBSCRIBE] = HOWDAH_MAY_SUBSCRIBE,
                                   [GW_WORK] = HOWDAH_MAY_WORK,
                                   [GW_ADMIN] = HOWDAH_MAY_ADMIN};

    return bits[right];
}

static int check_token(gw_request *r, howdah_error *reterr)
{
    const gw_right right = r->route->right;
    int s;

    if ((r->token->may & (bit_of(right) | HOWDAH_MAY_ADMIN)) == 0) {
        s = hw_fail(reterr, HOWDAH_DENIED, "this token may not %s", gw_right_name(right));
        (void)hw_advise(reterr, s, "use one that was added with --may %s", gw_right_name(right));
        return refuse(r, 403, s);
    }
    /* Of a route without the store nobody asks what it names: gw_scope_check_route() does not see
     * it. */
    if ((r->route->flags & (GW_WHOLE | GW_NO_STORE)) && gw_scope_is_limited(r)) {
        s = hw_fail(reterr, HOWDAH_DENIED, "this shows the whole bus, and the token is limited");
        (void)hw_advise(reterr, s, "use one without --pattern, --stream and --queue");
        return refuse(r, 403, s);
    }
    return HOWDAH_OK;
}

static int judge(gw_request *r, howdah_error *reterr)
{
    const char *secret = secret_of(r);

    if (!r->tokens) {
        int s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "who may ask cannot be looked up now");

        return refuse(r, 503, s);
    }
    if (!gw_tokens_in_force(r->gateway->tokens, r->tokens))
        return HOWDAH_OK;
    if (!secret)
        return ask_for_token(r, reterr);
    r->token = gw_token_list_find(r->tokens, secret);
    return r->token ? check_token(r, reterr) : refuse_token(r, reterr);
}

/* Without the store there is nothing to look up, and nothing but numbers to tell. */
int gw_access_check_right(gw_request *r, howdah_error *reterr)
{
    if (r->route->right == GW_ANYBODY)
        return HOWDAH_OK;
    r->unsure = !gw_token_list_is_fresh(r->tokens) && !(r->route->flags & GW_NO_STORE);
    return r->unsure ? HOWDAH_OK : judge(r, reterr);
}

/* Judged again only by another list: who has waited for an event may have been revoked meanwhile.
 */
bool gw_access_is_local(const struct gw_gateway *g)
{
    return !g->options.require_token && !g->options.behind_proxy && !g->options.tls_cert;
}

int gw_access_make_sure(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    gw_token_list *newest;
    bool same;
    int s;

    if (r->route->right == GW_ANYBODY)
        return HOWDAH_OK;
    s = gw_tokens_refresh(r->gateway->tokens, bus, reterr);
    if (s < 0)
        return s;
    newest = gw_tokens_hold(r->gateway->tokens);
    same = newest == r->tokens && !r->unsure;
    gw_token_list_release(r->tokens);
    r->tokens = newest;
    if (same)
        return HOWDAH_OK;
    r->unsure = false;
    r->token = NULL;
    return judge(r, reterr);
}

bool gw_access_still_may(gw_request *r)
{
    gw_token_list *newest;
    const gw_token *token = NULL;
    const char *secret = secret_of(r);
    bool may = true;

    if (r->route->right == GW_ANYBODY)
        return true;
    newest = gw_tokens_hold(r->gateway->tokens);
    if (newest != r->tokens && gw_tokens_in_force(r->gateway->tokens, newest)) {
        token = secret ? gw_token_list_find(newest, secret) : NULL;
        may = token && (token->may & (bit_of(r->route->right) | HOWDAH_MAY_ADMIN)) != 0;
    }
    gw_token_list_release(newest);
    return may;
}

void gw_access_done(gw_request *r)
{
    gw_token_list_release(r->tokens);
    r->tokens = NULL;
    r->token = NULL;
}
