/* attempts.c - see attempts.h. */
#include "gateway/attempts.h"

#include <pthread.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"

#define PLACES 4096
#define WAYS 4 /* where an address can be */
#define FAILURES_MAX 20
#define WINDOW_MS 60000

typedef struct place {
    uint64_t address; /* its digest; 0: free */
    int64_t since_ms;
    int failures;
} place;

struct gw_attempts {
    pthread_mutex_t lock;
    uint64_t seed; /* nobody can choose addresses that meet */
    place places[PLACES];
};

int gw_attempts_new(gw_attempts **ret_attempts, howdah_error *reterr)
{
    gw_attempts *attempts = hw_calloc(1, sizeof *attempts);

    if (!attempts)
        return hw_fail_no_memory(reterr);
    (void)pthread_mutex_init(&attempts->lock, NULL);
    attempts->seed = (uint64_t)hw_random_u32() << 32 | hw_random_u32();
    *ret_attempts = attempts;
    return HOWDAH_OK;
}

void gw_attempts_free(gw_attempts *attempts)
{
    if (!attempts)
        return;
    (void)pthread_mutex_destroy(&attempts->lock);
    hw_free(attempts);
}

/* Its own, or the one of those it may have that is worth least. */
static place *place_of(gw_attempts *attempts, uint64_t address, int64_t now)
{
    place *first = &attempts->places[address % (PLACES / WAYS) * WAYS];
    place *least = first;

    for (place *p = first; p < first + WAYS; p++) {
        if (p->address == address && now - p->since_ms < WINDOW_MS)
            return p;
        if (p->since_ms < least->since_ms)
            least = p;
    }
    *least = (place){address, now, 0};
    return least;
}

int gw_attempts_failed(gw_attempts *attempts, hw_str address)
{
    uint64_t digest = hw_quick_bytes(attempts->seed, address.s, address.len) | 1;
    int64_t now = hw_clock_mono_ms();
    int64_t left_ms = 0;
    place *p;

    (void)pthread_mutex_lock(&attempts->lock);
    p = place_of(attempts, digest, now);
    if (p->failures < FAILURES_MAX)
        p->failures++;
    else
        left_ms = p->since_ms + WINDOW_MS - now;
    (void)pthread_mutex_unlock(&attempts->lock);
    return left_ms > 0 ? (int)((left_ms + 999) / 1000) : 0;
}
