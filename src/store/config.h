/* config.h - what a store needs to know, parsed and in range; the bus fills it from settings. */
#ifndef HW_STORE_CONFIG_H
#define HW_STORE_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Shared between the bus and its store.  howdah_interrupt() sets it, also from a signal handler. */
typedef struct hw_interrupt {
    int fd;             /* an eventfd, readable while interrupted; -1: none */
    atomic_bool raised; /* the same, for a look without a system call */
} hw_interrupt;

/* True while the bus is interrupted. */
bool hw_interrupted(const hw_interrupt *interrupt);

typedef struct hw_config {
    const char *url;
    const char *schema;           /* PostgreSQL only */
    const char *application_name; /* PostgreSQL only */
    int64_t connect_timeout_ms;
    int64_t statement_timeout_ms;
    int64_t busy_timeout_ms; /* SQLite only */
    int64_t lock_timeout_ms; /* PostgreSQL only, not behind a pooler: 0: none */
    bool read_only;
    bool again;                    /* there has been a session with these settings before */
    bool allow_lossy;              /* accept a server with synchronous_commit = off */
    const hw_interrupt *interrupt; /* may be NULL; outlives the store */
} hw_config;

#endif
