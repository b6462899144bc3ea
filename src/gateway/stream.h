/*
 * stream.h - answers that are made piece by piece, as fast as the client reads.
 *
 *   I1  At most one piece is held, and none is made before the one before it was sent: a slow
 *       client costs its own piece, and no session of the store.
 *   I2  An answer that cannot be continued is cut off, so that no client takes it for complete.
 *   I3  While a stream waits, its connection is suspended, and whoever resumes it has the request
 *       until then.
 */
#ifndef HW_GATEWAY_STREAM_H
#define HW_GATEWAY_STREAM_H

#include <sys/types.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "gateway/request.h"

typedef struct gw_stream gw_stream;

#define GW_STREAM_END (-1)
#define GW_STREAM_CUT (-2)

/* Of one kind of stream.  A stream begins with a gw_stream. */
typedef struct gw_stream_ops {
    /* In the thread that speaks HTTP: the next bytes; 0: it has suspended the connection; or one of
       the two above. */
    ssize_t (*read)(gw_stream *stream, char *out, size_t max);
    /* In a worker, after gw_request_again(); bus is NULL when there is none, and err says why. */
    void (*run)(gw_stream *stream, howdah_bus *bus, howdah_error *err);
    /* The client has gone, or all is sent. */
    void (*free)(gw_stream *stream);
} gw_stream_ops;

struct gw_stream {
    const gw_stream_ops *ops;
    gw_request *r;
};

/* Whether one more of the long ones may be open, and then it counts as one; else UNAVAILABLE. */
bool gw_stream_may_open(gw_request *r, howdah_error *reterr);
/* Answers with it; takes it over. */
void gw_answer_stream(gw_request *r, const char *content_type, gw_stream *stream);
void gw_stream_free(gw_stream *stream);
/* Nothing can be sent yet: whoever has something calls gw_stream_resume(). */
void gw_stream_suspend(gw_stream *stream);
void gw_stream_resume(gw_stream *stream);

struct MHD_Response;
/* What libmicrohttpd sends; NULL without memory. */
struct MHD_Response *gw_stream_response(gw_stream *stream);
/* True when the request's answer is a stream that is being sent. */
bool gw_stream_is_sending(const gw_request *r);

/* ---- pieces: a worker makes the next one when the client has taken the one before */

/* Puts the next piece into out.  HOWDAH_OK: more will come; HOWDAH_END: that was the last. */
typedef int gw_produce(void *ctx, gw_request *r, howdah_bus *bus, hw_buf *out,
                       howdah_error *reterr);

/* The first piece is made at once, by a handler that has a bus: its errors are the request's. */
int gw_answer_pieces(gw_request *r, howdah_bus *bus, const char *content_type, gw_produce *produce,
                     void *ctx, void (*free_ctx)(void *ctx), howdah_error *reterr);

#endif
