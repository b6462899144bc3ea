/*
 * queue_floors.c - where a claim starts in the index of jobs.
 *
 * A claim takes the first jobs of (priority, due, id).  While an old snapshot is held open the
 * server cannot clear away what earlier claims took, and a claim from the beginning walks over all
 * of it.  So each session remembers, for each priority of a queue, a place below which nothing is
 * left: the floor.
 *
 *   I1  A floor is a place that a claim of this session has passed, and it counts only once every
 *       transaction that is older than this claim is over: a job gets its due time after its
 *       transaction has its number, so none of a younger one can turn up below.  If an old one
 *       stays open, it is asked whether any of those has written to jobs at all.
 *   I2  Two things can still be below: a job that another claim had locked and gave back by
 *       failing, and one whose due time was taken from a clock that was put back.  A walk from the
 *       beginning, every ten seconds and whenever a claim comes back short, finds those; it is
 *       never made more often than it takes a fiftieth of the time.
 *   I3  Nothing outlives the connection: the next server may be another one.  Behind a pooler that
 *       is not told: what the old server's claims had taken and the new one has never lost lies
 *       below our floors then, and a walk (I2) finds it within seconds.  No job overtakes an
 *       earlier one of its key meanwhile: those are looked up by the key, floors or not.
 *   I4  A session knows the priorities that it has floors for.  Others are looked for every
 *       LOOK_EVERY_US, and whenever nothing is found: no urgent job of a new priority has to wait
 *       for longer.
 *   I5  Leases have no floor, because a long job keeps its lease.  To look for those that ran out
 *       is to go through all of them, also those that are gone: so it takes no more than a fiftieth
 *       of the time, and in between the end of the next one is remembered.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/pg/pg.h"

#define QUEUES_MAX 16 /* the one that was not used for longest makes room */
#define WALK_EVERY_US INT64_C(10000000)
#define WALK_PAUSE_US INT64_C(1000000)
#define SHARE 50 /* of the time, what is looked for without need */
#define TIDY_EVERY_US INT64_C(1000000)
#define LOOK_EVERY_US INT64_C(40000)
#define STUCK_US INT64_C(200000) /* that long the same transaction is the oldest one */
#define ASK_EVERY_US INT64_C(50000)
#define NOT_FOR_ONE_US INT64_C(1000000)

typedef struct level {
    hw_pg_floor floor;
    bool has_floor;
    hw_pg_passed next; /* becomes the floor when its time has come */
    int64_t next_us;   /* since when */
    bool has_next;
} level;

typedef struct queue {
    char name[256];
    size_t len;
    int64_t used_us;
    int64_t walked_us; /* when a walk from the beginning ended, 0: never */
    int64_t took_us;
    int64_t horizon;
    int64_t horizon_us; /* since when it is the same */
    int64_t asked_us;   /* for the horizon of pushes */
    int64_t ask_took_us;
    int64_t tidied_us;
    int64_t tidy_took_us;
    int64_t looked_us;     /* at all priorities */
    int64_t saw_leases_us; /* 0: never */
    int64_t leases_took_us;
    int64_t lease_ends_us;  /* the next one, 0: none that is known */
    int64_t not_for_one_us; /* when exchange_one() could not claim, 0: never */
    level levels[HW_PG_FLOORS_MAX];
    size_t n;
} queue;

struct hw_pg_floors {
    queue queues[QUEUES_MAX];
    size_t n;
};

/* NULL: it cannot be remembered, and is walked. */
static queue *queue_of(hw_pg *pg, hw_str name)
{
    struct hw_pg_floors *f = pg->floors;
    queue *oldest;

    if (pg->caller_owned || name.len >= sizeof oldest->name)
        return NULL;
    if (!f)
        f = pg->floors = hw_calloc(1, sizeof *f);
    if (!f)
        return NULL;
    oldest = &f->queues[0];
    for (size_t i = 0; i < f->n; i++) {
        queue *q = &f->queues[i];

        if (q->len == name.len && memcmp(q->name, name.s, name.len) == 0) {
            q->used_us = hw_clock_mono_us();
            return q;
        }
        if (q->used_us < oldest->used_us)
            oldest = q;
    }
    if (f->n < QUEUES_MAX)
        oldest = &f->queues[f->n++];
    memset(oldest, 0, sizeof *oldest);
    memcpy(oldest->name, name.s, name.len);
    oldest->len = name.len;
    oldest->used_us = hw_clock_mono_us();
    return oldest;
}

size_t hw_pg_floors_get(hw_pg *pg, hw_str name, hw_pg_floor ret_floors[HW_PG_FLOORS_MAX])
{
    queue *q = queue_of(pg, name);
    int64_t now = hw_clock_mono_us();
    size_t n = 0;

    if (!q || now - q->walked_us > WALK_EVERY_US + SHARE * q->took_us)
        return 0;
    for (size_t i = 0; i < q->n; i++) {
        size_t at = n;

        if (!q->levels[i].has_floor)
            continue;
        for (; at > 0 && ret_floors[at - 1].level > q->levels[i].floor.level; at--)
            ret_floors[at] = ret_floors[at - 1];
        ret_floors[at] = q->levels[i].floor;
        n++;
    }
    return n;
}

static level *level_of(queue *q, int32_t number)
{
    for (size_t i = 0; i < q->n; i++)
        if (q->levels[i].floor.level == number)
            return &q->levels[i];
    if (q->n == HW_PG_FLOORS_MAX)
        return NULL;
    q->levels[q->n] = (level){.floor.level = number};
    return &q->levels[q->n++];
}

static void rise(level *l, int64_t horizon)
{
    if (!l->has_next || l->next.xid >= horizon)
        return;
    l->floor = (hw_pg_floor){l->next.level, l->next.due_us, l->next.id};
    l->has_floor = true;
    l->has_next = false;
}

void hw_pg_floors_pass(hw_pg *pg, hw_str name, const hw_pg_passed *passed)
{
    queue *q = queue_of(pg, name);
    level *l = q ? level_of(q, passed->level) : NULL;

    if (!l)
        return;
    if (passed->horizon != q->horizon) {
        q->horizon = passed->horizon;
        q->horizon_us = hw_clock_mono_us();
    }
    rise(l, passed->horizon);
    if (!l->has_next) {
        l->next = *passed;
        l->next_us = hw_clock_mono_us();
        l->has_next = true;
        /* What was taken after this transaction began may have older ones beside it (I1). */
        if (l->next.due_us > passed->begun_at_us) {
            l->next.due_us = passed->begun_at_us;
            l->next.id = 0;
        }
    }
}

bool hw_pg_floors_are_stuck(hw_pg *pg, hw_str name)
{
    const queue *q = queue_of(pg, name);
    int64_t now = hw_clock_mono_us();

    if (!q || now - q->horizon_us < STUCK_US ||
        now - q->asked_us < ASK_EVERY_US + SHARE * q->ask_took_us)
        return false;
    for (size_t i = 0; i < q->n; i++)
        if (q->levels[i].has_next && now - q->levels[i].next_us > ASK_EVERY_US)
            return true;
    return false;
}

void hw_pg_floors_rise(hw_pg *pg, hw_str name, int64_t horizon, int64_t took_us)
{
    queue *q = queue_of(pg, name);

    if (!q)
        return;
    q->asked_us = hw_clock_mono_us();
    q->ask_took_us = took_us;
    for (size_t i = 0; i < q->n; i++)
        rise(&q->levels[i], horizon);
}

void hw_pg_floors_walked(hw_pg *pg, hw_str name, int64_t took_us)
{
    queue *q = queue_of(pg, name);

    if (q) {
        q->walked_us = hw_clock_mono_us();
        q->took_us = took_us;
    }
}

bool hw_pg_floors_may_walk(hw_pg *pg, hw_str name)
{
    const queue *q = queue_of(pg, name);

    return !q || hw_clock_mono_us() - q->walked_us > WALK_PAUSE_US + SHARE * q->took_us;
}

bool hw_pg_floors_may_tidy(hw_pg *pg, hw_str name)
{
    const queue *q = queue_of(pg, name);

    return !q || hw_clock_mono_us() - q->tidied_us > TIDY_EVERY_US + SHARE * q->tidy_took_us;
}

void hw_pg_floors_tidied(hw_pg *pg, hw_str name, int64_t took_us)
{
    queue *q = queue_of(pg, name);

    if (q) {
        q->tidied_us = hw_clock_mono_us();
        q->tidy_took_us = took_us;
    }
}

bool hw_pg_floors_may_look(hw_pg *pg, hw_str name)
{
    const queue *q = queue_of(pg, name);

    return !q || hw_clock_mono_us() - q->looked_us > LOOK_EVERY_US;
}

void hw_pg_floors_looked(hw_pg *pg, hw_str name)
{
    queue *q = queue_of(pg, name);

    if (q)
        q->looked_us = hw_clock_mono_us();
}

bool hw_pg_floors_may_see_leases(hw_pg *pg, hw_str name)
{
    const queue *q = queue_of(pg, name);

    int64_t now = hw_clock_mono_us();

    return !q || q->saw_leases_us == 0 || (q->lease_ends_us != 0 && now >= q->lease_ends_us) ||
           now - q->saw_leases_us > SHARE * q->leases_took_us;
}

void hw_pg_floors_saw_leases(hw_pg *pg, hw_str name, int64_t ends_in_ms, int64_t took_us)
{
    queue *q = queue_of(pg, name);

    if (q) {
        q->saw_leases_us = hw_clock_mono_us();
        q->leases_took_us = took_us;
        q->lease_ends_us = ends_in_ms < 0 ? 0 : q->saw_leases_us + ends_in_ms * 1000;
    }
}

int64_t hw_pg_floors_lease_ms(hw_pg *pg, hw_str name)
{
    const queue *q = queue_of(pg, name);
    int64_t us = q && q->lease_ends_us != 0 ? q->lease_ends_us - hw_clock_mono_us() : -1;

    return us > 0 ? us / 1000 + 1 : -1;
}

bool hw_pg_floors_one(hw_pg *pg, hw_str name, hw_pg_floor *ret_floor)
{
    const queue *q = queue_of(pg, name);
    hw_pg_floor floors[HW_PG_FLOORS_MAX];

    if (!q || (q->not_for_one_us != 0 && hw_clock_mono_us() - q->not_for_one_us < NOT_FOR_ONE_US) ||
        hw_pg_floors_get(pg, name, floors) != 1)
        return false;
    *ret_floor = floors[0];
    return true;
}

void hw_pg_floors_are_not_for_one(hw_pg *pg, hw_str name)
{
    queue *q = queue_of(pg, name);

    if (q)
        q->not_for_one_us = hw_clock_mono_us();
}

void hw_pg_floors_forget(hw_pg *pg)
{
    hw_free(pg->floors);
    pg->floors = NULL;
}
