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
#define BLOCK_BYTES ((size_t)64 * 1024)

struct gw_stream {
    gw_request *r;
    gw_produce *produce;
    void *ctx;
    void (*free_ctx)(void *ctx);
    hw_buf piece;
    size_t sent; /* of the piece */
    int status;  /* OK: more comes; END; or the error that cuts it off */
};

static void make_piece(gw_stream *stream, howdah_bus *bus, howdah_error *reterr)
{
    hw_buf_clear(&stream->piece);
    stream->sent = 0;
    do
        stream->status = stream->produce(stream->ctx, stream->r, bus, &stream->piece, reterr);
    while (stream->status == HOWDAH_OK && stream->piece.len == 0);
    if (stream->status >= 0 && hw_buf_check(&stream->piece, reterr) < 0)
        stream->status = HOWDAH_NO_MEMORY;
}

int gw_answer_pieces(gw_request *r, howdah_bus *bus, const char *content_type, gw_produce *produce,
                     void *ctx, void (*free_ctx)(void *ctx), howdah_error *reterr)
{
    gw_stream *stream = hw_calloc(1, sizeof *stream);

    if (!stream) {
        free_ctx(ctx);
        return hw_fail_no_memory(reterr);
    }
    *stream = (gw_stream){r, produce, ctx, free_ctx, HW_BUF_INIT(PIECE_BYTES_MAX), 0, HOWDAH_OK};
    make_piece(stream, bus, reterr);
    if (stream->status < 0) {
        int s = stream->status;

        gw_stream_free(stream);
        return s;
    }
    r->answer.http_status = 200;
    r->answer.content_type = content_type;
    r->answer.stream = stream;
    return HOWDAH_OK;
}

void gw_stream_free(gw_stream *stream)
{
    if (!stream)
        return;
    stream->free_ctx(stream->ctx);
    hw_buf_done(&stream->piece);
    hw_free(stream);
}

/* In the thread that speaks HTTP.  0: suspended until the next piece is there (I1). */
static ssize_t on_read(void *ctx, uint64_t pos, char *out, size_t max)
{
    gw_stream *stream = ctx;
    size_t n = stream->piece.len - stream->sent;

    (void)pos;
    if (n > max)
        n = max;
    if (n > 0) {
        memcpy(out, stream->piece.data + stream->sent, n);
        stream->sent += n;
        stream->r->bytes_out += (int64_t)n;
        return (ssize_t)n;
    }
    if (stream->status < 0 || stream->piece.broken)
        return MHD_CONTENT_READER_END_WITH_ERROR; /* I2 */
    if (stream->status == HOWDAH_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    MHD_suspend_connection(stream->r->connection);
    gw_request_again(stream->r);
    return 0;
}

struct MHD_Response *gw_stream_response(gw_stream *stream)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, stream, NULL);
}

void gw_stream_run(gw_stream *stream, howdah_bus *bus, howdah_error *err)
{
    if (bus)
        make_piece(stream, bus, err);
    else
        stream->status = err->status;
}

bool gw_stream_is_sending(const gw_request *r)
{
    return r->state == GW_SENDING && r->answer.stream;
}
