/*
 * pool.h - workers, each with a session of the store, and the jobs that wait for them.
 *
 *   I1  A bus belongs to one worker.  It is opened when the first job needs it, and opened again
 *       when a job says that it is of no use any more.
 *   I2  At most "waiting_max" jobs wait; one that waits beyond its deadline is run without a bus,
 *       and answers that nobody had time for it.
 */
#ifndef HW_GATEWAY_POOL_H
#define HW_GATEWAY_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

typedef struct gw_pool gw_pool;
typedef struct gw_job gw_job;

/* A member of what has to be done.  bus is NULL when there is none, and err says why. */
struct gw_job {
    gw_job *next;
    int64_t until_ms; /* by hw_clock_mono_ms() */
    /* Returns whether the bus is still good for others. */
    bool (*run)(gw_job *job, howdah_bus *bus, howdah_error *err);
};

typedef struct gw_pool_options {
    const char *url;
    const howdah_settings *settings;
    size_t workers;
    size_t waiting_max;
} gw_pool_options;

typedef struct gw_pool_info {
    size_t workers;
    size_t busy;
    size_t sessions; /* that are open */
    size_t waiting;
} gw_pool_info;

int gw_pool_new(const gw_pool_options *options, gw_pool **ret_pool, howdah_error *reterr);
/* False: too much is waiting. */
bool gw_pool_put(gw_pool *pool, gw_job *job);
void gw_pool_info_get(gw_pool *pool, gw_pool_info *ret_info);
/* Calls of the store that run now end with INTERRUPTED. */
void gw_pool_interrupt(gw_pool *pool);
/* Nothing may be put any more.  What waits is run without a bus. */
void gw_pool_free(gw_pool *pool);

#endif
