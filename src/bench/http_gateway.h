/* http_gateway.h - a gateway of the bench's own: a child process that serves the bench's bus. */
#ifndef HW_BENCH_HTTP_GATEWAY_H
#define HW_BENCH_HTTP_GATEWAY_H

#include <stdint.h>

#include "base/error.h"
#include "bench/site.h"

typedef struct bench_gateway bench_gateway;

/* Takes requests when it returns.  It ends with this process, however that ends. */
int bench_gateway_start(const bench_site *site, bench_gateway **ret_gateway, howdah_error *reterr);
/* Ends it in order; FAILED, when it did not end so.  NULL is fine. */
int bench_gateway_stop(bench_gateway *gateway, howdah_error *reterr);

/* "127.0.0.1:40123". */
const char *bench_gateway_address(const bench_gateway *gateway);
/* Its processor time so far, and its memory now; 0 and -1 when the system does not tell. */
int64_t bench_gateway_cpu_us(const bench_gateway *gateway);
int64_t bench_gateway_memory(const bench_gateway *gateway);

#endif
