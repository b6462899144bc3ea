/*
 * pool.h - threads that run what one other thread, the driver, gives them.
 *
 * A runner's pages and a worker's jobs go the same way: the driver pushes an item, a thread runs
 * it, and the driver takes it back with all others that are done.  Items are the owners' own
 * memory: the pool links them and allocates nothing for them.
 *
 *   I1  An item is in one place: with the driver, waiting, running, or done.  It is pushed again
 *       only after the driver has taken it back.
 *   I2  Whatever an item stands for belongs to the pool from the push until the driver has taken it
 *       back.  The lock in between makes everybody see what was written before.
 *   I3  The lock is held for taking and giving only, never while an item runs.
 *   I4  done_fd becomes readable when the first item is done, and when no more than "low" are left
 *       to do.  Whoever makes it silent looks for what is done afterwards: no item is overlooked.
 *   I5  Waiting items are run in the order in which they were pushed.
 */
#ifndef HW_BUS_POOL_H
#define HW_BUS_POOL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct hw_pool_item {
    void *owner;
    bool of_slot; /* for a runner: what the owner is */
    struct hw_pool_item *next;
} hw_pool_item;

typedef struct hw_pool_list {
    hw_pool_item *first;
    hw_pool_item **last;
    size_t n;
} hw_pool_list;

typedef struct hw_pool_options {
    const char *whose; /* for messages */
    /* thread: from 0 on; 0 as well where hw_pool_run_one() is called. */
    void (*run)(void *ctx, size_t thread, hw_pool_item *item);
    void *ctx;
    size_t threads; /* 0: the driver calls hw_pool_run_one() */
    size_t low;     /* I4 */
} hw_pool_options;

typedef enum hw_pool_state {
    HW_POOL_OPEN,
    HW_POOL_DRAINING, /* threads end when nothing waits any more, */
    HW_POOL_ENDING    /* or as soon as they are through with what they run */
} hw_pool_state;

typedef struct hw_pool_thread {
    struct hw_pool *pool;
    size_t number;
    pthread_t thread;
} hw_pool_thread;

typedef struct hw_pool {
    hw_pool_options options;
    pthread_mutex_t lock;
    pthread_cond_t more;
    hw_pool_list waiting;
    hw_pool_list done;
    size_t running_n;
    int64_t done_ms; /* when the first of those that are done was */
    hw_pool_state state;
    int done_fd;
    hw_pool_thread *threads;
    size_t threads_n;
} hw_pool;

typedef struct hw_pool_view {
    size_t waiting_n;
    size_t running_n;
    size_t done_n;
    int64_t done_ms;
} hw_pool_view;

/* Errors: NO_MEMORY, FAILED (no thread); there is nothing to be undone then. */
int hw_pool_init(hw_pool *pool, const hw_pool_options *options, howdah_error *reterr);
/* Waits for the threads, which run what waits; nothing may be pushed any more. */
void hw_pool_drain(hw_pool *pool);
/* Waits for the threads; what waits is not begun any more. */
void hw_pool_done(hw_pool *pool);
void hw_pool_push(hw_pool *pool, hw_pool_item *item);
/* Without threads: runs the next one that waits, here.  False: none waits. */
bool hw_pool_run_one(hw_pool *pool);
hw_pool_view hw_pool_look(hw_pool *pool);
/* Whether one waits for which fn is not true. */
bool hw_pool_has_other(hw_pool *pool, bool (*fn)(const void *ctx, const hw_pool_item *item),
                       const void *ctx);
/* All that are done, linked by next, oldest first. */
hw_pool_item *hw_pool_take_done(hw_pool *pool);
/* All that have not begun. */
hw_pool_item *hw_pool_take_waiting(hw_pool *pool);
/* done_fd becomes readable: for the driver, when it has something new to see to. */
void hw_pool_ring(const hw_pool *pool);
/* Makes done_fd silent again. */
void hw_pool_clear(const hw_pool *pool);

#endif
