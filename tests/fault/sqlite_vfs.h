/*
 * sqlite_vfs.h - a file system for SQLite that fails on purpose.
 *
 * It lies over the default one and passes everything through, but the nth operation of the kinds
 * asked for fails: once, or it and all after it.  Syncs are counted and not done: nobody pulls the
 * plug in a test.
 */
#ifndef HW_TESTS_FAULT_SQLITE_VFS_H
#define HW_TESTS_FAULT_SQLITE_VFS_H

#include <stdbool.h>

enum {
    FAULT_WRITE = 1,
    FAULT_SYNC = 2,
    FAULT_OPEN = 4,
    FAULT_TRUNCATE = 8,
    FAULT_SHM = 16, /* mapping the shared index of the write-ahead log */
    FAULT_ANY = 31
};

typedef enum fault_error {
    FAULT_IOERR,
    FAULT_FULL, /* SQLITE_FULL for writes, SQLITE_IOERR for what cannot be full */
    FAULT_TORN  /* a write is half done before it fails with SQLITE_IOERR */
} fault_error;

typedef struct fault_plan {
    unsigned kinds; /* FAULT_WRITE | ... */
    unsigned nth;   /* from 1; 0: none fails, all are counted */
    bool forever;
    fault_error error;
} fault_plan;

/* Makes it the default file system of this process.  Returns false when SQLite refuses. */
bool fault_vfs_install(void);

/* Starts to count from 0 by this plan. */
void fault_vfs_arm(fault_plan plan);
void fault_vfs_disarm(void);

/* Operations of the plan's kinds since it was armed, and how many of them failed. */
unsigned fault_vfs_count(void);
unsigned fault_vfs_failed(void);

/*
 * While it is on, no checkpoint gets the write lock: as if another process always held it at that
 * moment.
 */
void fault_vfs_hold_against_checkpoints(bool on);
/*
 * Writes to a database file since the start by who neither held the write lock of the write-ahead
 * log nor had locked everybody else out: that is what a PASSIVE checkpoint does.
 */
unsigned fault_vfs_unlocked_writes(void);

#endif
