/*
 * stream.h - answers that are made piece by piece, as fast as the client reads.
 *
 *   I1  At most one piece is held, and none is made before the one before it was sent: a slow
 * client costs its own piece, and no session of the store. I2  An answer that cannot be continued
 * is cut off, so that no client takes it for complete.
 */
#ifndef HW_GATEWAY_STREAM_H
#define HW_GATEWAY_STREAM_H

#include <howdah/howdah.h>

#include "base/buf.h"
#include "gateway/request.h"

typedef struct gw_stream gw_stream;

/* Puts the next piece into out.  HOWDAH_OK: more will come; HOWDAH_END: that was the last. */
typedef int gw_produce(void *ctx, gw_request *r, howdah_bus *bus, hw_buf *out,
                       howdah_error *reterr);

/* The first piece is made at once, by a handler that has a bus: its errors are the request's. */
int gw_answer_pieces(gw_request *r, howdah_bus *bus, const char *content_type, gw_produce *produce,
                     void *ctx, void (*free_ctx)(void *ctx), howdah_error *reterr);

void gw_stream_free(gw_stream *stream);

struct MHD_Response;
/* What libmicrohttpd sends; NULL without memory. */
struct MHD_Response *gw_stream_response(gw_stream *stream);
/* A worker has been found for the next piece. */
void gw_stream_run(gw_stream *stream, howdah_bus *bus, howdah_error *err);
/* True when the request is with a stream that is being sent. */
bool gw_stream_is_sending(const gw_request *r);

#endif
