/* stream.c - see stream.h. */
#include "gateway/stream.h"

#include <assert.h>
#include <microhttpd.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "gateway/server.h"

/* A piece may pass this by one event. */
#define PIECE_BYTES_MAX ((size_t)160 * 1024 * 1024)
#define BLOCK_BYTES ((size_t)16 * 1024)

/* ------------------------------------------------------------- of all kinds */

static ssize_t on_read(void *ctx, uint64_t pos, char *out, size_t max)
{
    gw_stream *stream = ctx;
    ssize_t n = stream->ops->read(stream, out, max);

    (void)pos;
    if (n > 0)
        stream->r->bytes_out += n;
    if (n == GW_STREAM_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    return n == GW_STREAM_CUT ? MHD_CONTENT_READER_END_WITH_ERROR : n;
}

struct MHD_Response *gw_stream_response(gw_stream *stream)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, stream, NULL);
}

bool gw_stream_may_open(gw_request *r, howdah_error *reterr)
{
    gw_gateway *g = r->gateway;

    if (atomic_fetch_add(&g->streams, 1) < (size_t)g->options.streams)
        return true;
    atomic_fetch_sub(&g->streams, 1);
    (void)hw_fail(reterr, HOWDAH_UNAVAILABLE, "as many streams are open as may be at once");
    return false;
}

void gw_answer_stream(gw_request *r, const char *content_type, gw_stream *stream)
{
    r->answer.http_status = 200;
    r->answer.content_type = content_type;
    r->answer.stream = stream;
}

void gw_stream_free(gw_stream *stream)
{
    if (stream)
        stream->ops->free(stream);
}

void gw_stream_suspend(gw_stream *stream)
{
    MHD_suspend_connection(stream->r->connection);
}

void gw_stream_resume(gw_stream *stream)
{
    MHD_resume_connection(stream->r->connection);
}

bool gw_stream_is_sending(const gw_request *r)
{
    return r->state == GW_SENDING && r->answer.stream;
}

/* ------------------------------------------------------------------- pieces */

typedef struct pieces {
    gw_stream stream; /* the first member */
    gw_produce *produce;
    void *ctx;
    void (*free_ctx)(void *ctx);
    hw_buf piece;
    size_t sent; /* of the piece */
    int status;  /* OK: more comes; END; or the error that cuts it off */
} pieces;

static void make_piece(pieces *p, howdah_bus *bus, howdah_error *reterr)
{
    hw_buf_clear(&p->piece);
    p->sent = 0;
    do
        p->status = p->produce(p->ctx, p->stream.r, bus, &p->piece, reterr);
    while (p->status == HOWDAH_OK && p->piece.len == 0);
    if (p->status >= 0 && hw_buf_check(&p->piece, reterr) < 0)
        p->status = HOWDAH_NO_MEMORY;
}

/* I1: the connection is suspended before a worker may have the request. */
static ssize_t read_piece(gw_stream *stream, char *out, size_t max)
{
    pieces *p = (pieces *)stream;
    size_t n = p->piece.len - p->sent;

    if (p->status < 0)
        return GW_STREAM_CUT; /* I2 */
    if (n > max)
        n = max;
    if (n > 0) {
        memcpy(out, p->piece.data + p->sent, n);
        p->sent += n;
        return (ssize_t)n;
    }
    if (p->status == HOWDAH_END)
        return GW_STREAM_END;
    gw_stream_suspend(stream);
    gw_request_again(stream->r);
    return 0;
}

static void run_pieces(gw_stream *stream, howdah_bus *bus, howdah_error *err)
{
    pieces *p = (pieces *)stream;

    if (bus)
        make_piece(p, bus, err);
    else
        p->status = err->status;
    gw_stream_resume(stream);
}

static void free_pieces(gw_stream *stream)
{
    pieces *p = (pieces *)stream;

    p->free_ctx(p->ctx);
    hw_buf_done(&p->piece);
    hw_free(p);
}

static const gw_stream_ops pieces_ops = {read_piece, run_pieces, free_pieces};

int gw_answer_pieces(gw_request *r, howdah_bus *bus, const char *content_type, gw_produce *produce,
                     void *ctx, void (*free_ctx)(void *ctx), howdah_error *reterr)
{
    pieces *p = hw_calloc(1, sizeof *p);

    if (!p) {
        free_ctx(ctx);
        return hw_fail_no_memory(reterr);
    }
    *p = (pieces){{&pieces_ops, r}, produce, ctx, free_ctx, HW_BUF_INIT(PIECE_BYTES_MAX), 0,
                  HOWDAH_OK};
    make_piece(p, bus, reterr);
    if (p->status < 0) {
        int s = p->status;

        free_pieces(&p->stream);
        return s;
    }
    gw_answer_stream(r, content_type, &p->stream);
    return HOWDAH_OK;
}
