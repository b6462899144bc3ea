/*
 * request.h - one request, from its first line to the last byte of the answer.
 *
 *   I1  Of two threads never both use a request: the one that speaks HTTP has it, or a worker has,
 *       or the clock has it in its list of those that wait.
 *   I2  A handler sees names and values decoded, as UTF-8 without NUL, and only arguments that its
 *       route lists: a misspelt one would be a choice that nobody made.
 *   I3  A handler answers by filling in "answer", or fails with an error, which becomes a problem
 *       document.  What it says is sent after it has returned.
 */
#ifndef HW_GATEWAY_REQUEST_H
#define HW_GATEWAY_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/uuid.h"
#include "gateway/pool.h"
#include "gateway/trace_context.h"

struct MHD_Connection;
struct gw_route;
struct gw_stream;
struct gw_gateway;
struct gw_token;
struct gw_token_list;

#define GW_VARS_MAX 2
#define GW_ARGS_MAX 32
#define GW_CLIENT_SIZE 48 /* an address as text, with its NUL */

/* What a handler returns when there is nothing yet: the request is parked, and tried again. */
#define GW_AGAIN 2
/* And when somebody else will call gw_request_done(); by then the request may be gone. */
#define GW_SUBMITTED 3

typedef struct gw_arg {
    const char *name;
    const char *value;
} gw_arg;

typedef enum gw_state {
    GW_ARRIVING, /* its body comes */
    GW_WORKING,  /* suspended: with a worker, or waiting for one */
    GW_ANSWERED, /* the answer is there */
    GW_SENDING
} gw_state;

/* What will be sent: a body that is all here, or a stream. */
typedef struct gw_answer {
    int http_status;
    const char *content_type; /* a constant */
    hw_buf body;
    hw_buf headers; /* "Name\0value\0" ... */
    struct gw_stream *stream;
} gw_answer;

typedef struct gw_request {
    struct gw_gateway *gateway;
    struct MHD_Connection *connection;
    const struct gw_route *route;
    struct gw_request *next; /* of all requests of the gateway */
    struct gw_request *previous;
    gw_state state;
    char id[HW_UUID_TEXT + 1];
    gw_trace trace;     /* that it belongs to */
    const char *method; /* a constant */
    char *url;          /* as it came, for the log */
    char *texts;        /* what vars and args point into */
    const char *vars[GW_VARS_MAX];
    gw_arg args[GW_ARGS_MAX];
    size_t args_n;
    hw_buf body;
    char *fields; /* texts of its fields (fields_in.h) */
    bool body_too_large;
    bool too_late;   /* it came when the gateway had ended already */
    bool ids_in_use; /* append.c: ids of it are stored already */
    gw_answer answer;
    int64_t begun_us;
    int64_t bytes_out;      /* of the answer's body, so far */
    atomic_llong arrive_ms; /* by then its body has to be here; 0: it is */
    gw_job job;
    /* Of a handler that returns GW_AGAIN: it is not tried again after this. */
    int64_t wait_until_ms;
    int64_t look_ms;           /* when it is tried again at the latest */
    struct gw_request *parked; /* the next that is parked, or waits for metrics */
    uint64_t wakes;            /* that there had been when it was tried */
    /* access.c: who asks. */
    char client[GW_CLIENT_SIZE];  /* the address; "": not known */
    bool secure;                  /* it came by TLS, here or to the proxy */
    bool unsure;                  /* its token is looked up by the worker */
    const char *origin;           /* a page that is listed; NULL: none */
    struct gw_token_list *tokens; /* held; NULL: none was read yet */
    const struct gw_token *token; /* one of them; NULL: none is needed */
    int refused;                  /* the status of HTTP of its error; 0: by the error */
    int retry_after;              /* with it, in seconds */
    const char *challenge;        /* with a 401 */
    bool last_try;                /* nothing more than an empty answer comes after this one */
} gw_request;

/* ---- what came */

/* NULL: not given. */
const char *gw_header(const gw_request *r, const char *name);
const char *gw_arg_text(const gw_request *r, const char *name);
bool gw_arg_given(const gw_request *r, const char *name);
/* These leave *ret_value alone when the argument was not given.  Errors: INVALID, with its name. */
int gw_arg_number(const gw_request *r, const char *name, int64_t min, int64_t max,
                  int64_t *ret_value, howdah_error *reterr);
int gw_arg_time(const gw_request *r, const char *name, int64_t *ret_time_us, howdah_error *reterr);
int gw_arg_duration(const gw_request *r, const char *name, int64_t *ret_ms, howdah_error *reterr);
int gw_arg_flag(const gw_request *r, const char *name, bool *ret_flag, howdah_error *reterr);
/* Whether the body is of this type, whatever its parameters are. */
bool gw_body_is(const gw_request *r, const char *content_type);
/* Whether the client asks for this type by name. */
bool gw_accepts(const gw_request *r, const char *content_type);

/* ---- what is answered */

void gw_answer_header(gw_request *r, const char *name, const char *fmt, ...) HW_PRINTF(3, 4);
/* What was put into the body goes out as JSON. */
void gw_answer_json(gw_request *r, int http_status);
void gw_answer_error(gw_request *r, const howdah_error *err);

/* ---- its life, for server.c */

/* url: as it came.  NULL without memory. */
gw_request *gw_request_new(struct gw_gateway *gateway, const char *url);
void gw_request_free(gw_request *r);
/*
 * The line and the headers are here: finds the route, decodes, checks.  Whatever is refused is
 * answered: then the state is ANSWERED.
 */
void gw_request_begin(gw_request *r, struct MHD_Connection *connection, const char *method);
/* More of its body. */
void gw_request_take(gw_request *r, const char *bytes, size_t n);
/* All of it is here.  True: a worker has it now, and the connection is suspended. */
bool gw_request_run(gw_request *r);
/* What a handler has submitted is done: the answer is there, or the error. */
void gw_request_done(gw_request *r, int status, const howdah_error *err);
/* It was parked, and its time has come, or something may be there. */
void gw_request_again(gw_request *r);

#endif
