/*
 * entry.h - who may use a bus now: every public function that takes one enters here first.
 *
 * A bus, its readers, tails and subscriptions belong to one thread at a time.  A program that gets
 * this wrong is told so, and nothing is damaged: two threads in one SQLite connection tear its file
 * apart, two in one connection to a server read each other's answers.
 *
 *   I1  Of two threads that call on one bus at once the second gets MISUSE, and touches nothing.
 *   I2  While a runner serves a bus nobody but its handlers may use it.
 *   I3  A handler may use its bus like any other code.  Its calls go to a *side*: a session apart,
 *       one handler at a time, so that the sessions of those who serve do not notice.  Driving the
 *       bus (serving, subscribing, closing) is not for its handlers, nor for any other callback of
 *       a call that is under way: what that call stands on would be gone.
 *   I4  What a handler with a transaction appends, corrects, pushes and completes on its bus is
 *       part of that transaction.  Where a store has one writer, every other write would wait for
 *       the handler's own transaction for ever: it is refused.
 *   I5  A bus in memory has no second session.  Handlers that run in the thread which serves use
 *       the one there is, for calls that need nothing but the store; all others are refused.
 *   I6  Closing a reader or tail is never refused: when it is not its closer's turn, or the closed
 *       one is at work, it is put by, and whoever enters next, or closes the bus, does it.
 *   I7  An interrupt does not fail the calls of a handler that runs: it is let finish.  Only its
 *       waits end, and so they do when a runner or worker is stopped.
 */
#ifndef HW_BUS_ENTRY_H
#define HW_BUS_ENTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "store/store.h"

/* What a call does. */
enum {
    HW_READS = 0,
    HW_WRITES = 1, /* and is not part of a handler's transaction (I4) */
    HW_WAITS = 2,  /* needs the bell or the reader, which those who serve have in use */
    HW_DRIVES = 4, /* changes or drives what the bus serves: not inside another call on it */
    HW_ITSELF = 8, /* on this very handle, never on a side: a reader's next batch */
    HW_ENDS = 16   /* is for a bus that has a runner, too */
};

/* Something to be closed by whoever may (I6). */
typedef struct hw_closing {
    struct hw_closing *next;
    bool works; /* it is on the stack */
    void (*close)(struct hw_closing *self);
} hw_closing;

/* The part of a bus that is about its use. */
typedef struct hw_use {
    _Atomic uintptr_t holder;      /* the thread that is inside, 0: none */
    unsigned depth;                /* how often; the holder's own */
    _Atomic(hw_closing *) closing; /* I6 */
    pthread_mutex_t lock;          /* of sides */
    struct howdah_bus *sides;      /* that nobody has, linked by side_next */
} hw_use;

void hw_use_init(hw_use *use);
/* Closes the sides. */
void hw_use_done(hw_use *use);
/* I6: closes what was put by; nobody else is inside, and no runner serves the bus. */
void hw_use_close_waiting(hw_use *use);

/* A call that is under way; left at the end of the scope. */
typedef struct hw_entry {
    struct howdah_bus *bus; /* NULL: not entered */
} hw_entry;

void hw_leave(hw_entry *entry);
#define HW_ENTRY(name) __attribute__((cleanup(hw_leave))) hw_entry name = {NULL}

/*
 * On HOWDAH_OK *bus is the one to use: the same, or a side of it.  call is the public function's
 * name, what a combination of the above.  Otherwise MISUSE, or what keeps a side from being opened.
 */
int hw_enter(hw_entry *entry, struct howdah_bus **bus, unsigned what, const char *call,
             howdah_error *reterr);
/* I6: closes it now, or has it closed. */
void hw_close_soon(struct howdah_bus *bus, hw_closing *closing);
/* Around what may close itself: a call that calls back. */
void hw_closing_works(hw_closing *closing, bool works);

/* A handler on this thread's stack. */
typedef struct hw_handling {
    struct howdah_bus *bus;
    hw_store *tx;            /* its transaction, NULL: none */
    const void *about;       /* the subscription that it is of, NULL: of a worker */
    struct howdah_bus *side; /* that it uses, NULL: none yet */
    struct hw_handling *outer;
} hw_handling;

void hw_handling_begin(hw_handling *handling, struct howdah_bus *bus, hw_store *tx,
                       const void *about);
void hw_handling_end(hw_handling *handling);

/* The transaction of the handler that calls on this bus; NULL: none (I4). */
hw_store *hw_handling_tx(const struct howdah_bus *bus);
/* Whether this very subscription's handler is calling. */
bool hw_handling_is_about(const void *about);

#endif
