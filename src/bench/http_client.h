/*
 * http_client.h - plain HTTP/1.1 over sockets of our own, for answers that are known.
 *
 * A bench must not measure a library for HTTP, so this is the least that does: one request after
 * the other on a connection that stays, bodies with a length or in chunks, nothing else.
 */
#ifndef HW_BENCH_HTTP_CLIENT_H
#define HW_BENCH_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

/* ---- an answer, from its bytes as they come */

typedef void bench_http_sink(void *ctx, const char *bytes, size_t n);

typedef enum bench_http_state {
    BENCH_HTTP_HEAD,
    BENCH_HTTP_LENGTH, /* of a body with a length, or of a chunk: "left" bytes are to come */
    BENCH_HTTP_CHUNK_SIZE,
    BENCH_HTTP_CHUNK,
    BENCH_HTTP_CHUNK_END,
    BENCH_HTTP_TRAILER,
    BENCH_HTTP_DONE
} bench_http_state;

typedef struct bench_http_answer {
    bench_http_state state;
    int http_status; /* 0: its line has not come yet */
    int64_t left;
    bool chunked;
    char line[96]; /* of a head or a chunk; what is longer is cut off */
    size_t line_n;
    bench_http_sink *sink; /* gets the body */
    void *ctx;
} bench_http_answer;

void bench_http_answer_init(bench_http_answer *answer, bench_http_sink *sink, void *ctx);
/* Takes what belongs to it, and says how much that was.  Errors: FAILED, when it is none. */
int bench_http_answer_take(bench_http_answer *answer, const char *bytes, size_t n, size_t *ret_n,
                           howdah_error *reterr);

/* ---- a connection */

typedef struct bench_http_client bench_http_client;

/* A socket that is connected to "127.0.0.1:4460". */
int bench_http_dial(const char *address, int *ret_fd, howdah_error *reterr);

int bench_http_open(const char *address, bench_http_client **ret_client, howdah_error *reterr);
/* NULL is fine. */
void bench_http_close(bench_http_client *client);
/* Makes a request that waits fail soon; by another thread. */
void bench_http_interrupt(bench_http_client *client);

/*
 * Sends it, and waits for the answer.  headers: lines that end with "\r\n", or "".  Its body goes
 * to sink, or (NULL) to bench_http_body().  Errors: FAILED, when the status is not 2xx, or the
 * connection ended; TIMEOUT.
 */
int bench_http_ask(bench_http_client *client, const char *method, const char *path,
                   const char *headers, hw_str body, bench_http_sink *sink, void *ctx,
                   howdah_error *reterr);
/* Of the last answer, until the next request. */
hw_str bench_http_body(const bench_http_client *client);

#endif
