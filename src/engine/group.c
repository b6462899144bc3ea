/* group.c - what becomes of the events that members of a group have; see group.h. */
#include "engine/group.h"

#include <assert.h>

#include "engine/backoff.h"

#define JITTER_PERCENT 10

/* FNV-1a: stored lots depend on it, so it stays as it is. */
int64_t hw_group_lane(hw_str stream, int64_t lanes)
{
    uint32_t hash = 2166136261U;

    assert(lanes > 0 && (lanes & (lanes - 1)) == 0);
    for (size_t i = 0; i < stream.len; i++)
        hash = (hash ^ (uint8_t)stream.s[i]) * 16777619U;
    return (int64_t)((hash ^ hash >> 16) & (uint32_t)(lanes - 1));
}

static void check(const hw_lot *lot)
{
    assert(lot->pos >= 0 && lot->taken >= 0 && lot->pos + lot->taken <= lot->n);
    assert(lot->upto <= lot->hi);
    (void)lot;
}

static void set_taken(hw_lot *lot, int64_t n)
{
    lot->taken = n;
    lot->last = lot->pos + n < lot->n ? lot->events[lot->pos + n - 1] : lot->upto;
}

void hw_lot_lease(hw_lot *lot, const hw_group_rules *rules, int64_t max, int64_t token,
                  int64_t until_us)
{
    int64_t left = lot->n - lot->pos;

    check(lot);
    assert(max > 0 && left > 0 && token != 0);
    if (lot->taken > 0 && lot->careful < lot->pos + lot->taken)
        lot->careful = lot->pos + lot->taken; /* its lease has run out */
    if (lot->taken > 1 && rules->max_retries == 0)
        lot->attempts = 0; /* I4 */
    lot->attempts++;
    lot->token = token;
    lot->until_us = until_us;
    set_taken(lot, lot->careful > lot->pos ? 1 : left < max ? left : max);
}

bool hw_lot_is_spent(const hw_lot *lot, const hw_group_rules *rules)
{
    return lot->careful > lot->pos && lot->attempts > rules->max_retries + 1;
}

void hw_lot_shorten(hw_lot *lot, int64_t n)
{
    assert(n > 0 && n <= lot->taken);
    if (n < lot->taken)
        set_taken(lot, n);
}

/* What was counted for the batch is not the next event's when none of the batch is left: a suspect
   has its one try (but see I4), any other none. */
static void count_anew(hw_lot *lot, const hw_group_rules *rules)
{
    lot->attempts = lot->pos < lot->careful && rules->max_retries > 0 ? 1 : 0;
}

/* A batch is over when nothing of it is left, also where those that have failed were its last. */
void hw_lot_ack(hw_lot *lot, const hw_group_rules *rules, int64_t upto)
{
    check(lot);
    while (lot->taken > 0 && (lot->events[lot->pos] <= upto || upto >= lot->last)) {
        lot->at = lot->events[lot->pos++];
        lot->taken--;
    }
    if (lot->taken > 0)
        return;
    lot->at = lot->last;
    lot->token = 0;
    lot->until_us = 0;
    count_anew(lot, rules);
}

void hw_lot_take_out(hw_lot *lot, const hw_group_rules *rules, int64_t i)
{
    int64_t at = lot->pos + i;

    assert(i >= 0 && i < lot->taken);
    for (int64_t k = at + 1; k < lot->n; k++)
        lot->events[k - 1] = lot->events[k];
    lot->n--;
    lot->taken--;
    if (lot->careful > at)
        lot->careful--;
    if (lot->taken == 0)
        count_anew(lot, rules);
    check(lot);
}

bool hw_lot_is_over(const hw_lot *lot)
{
    return lot->pos == lot->n && lot->upto == lot->hi;
}

bool hw_lot_needs_list(const hw_lot *lot)
{
    return lot->pos == lot->n && lot->upto < lot->hi;
}

void hw_lot_release(hw_lot *lot)
{
    if (lot->taken > 0)
        lot->attempts--;
    lot->taken = 0;
    lot->token = 0;
    lot->until_us = 0;
}

hw_group_fate hw_group_fate_of(const hw_group_rules *rules, int64_t tries, bool keyed)
{
    if (tries <= rules->max_retries)
        return HW_FATE_RETRY;
    if (rules->on_fail == HOWDAH_FAIL_CLOSED)
        return HW_FATE_HALTED;
    return rules->on_fail == HOWDAH_FAIL_HOLD && keyed ? HW_FATE_HELD : HW_FATE_DEAD;
}

int64_t hw_group_delay_ms(const hw_group_rules *rules, int64_t tries, uint32_t random)
{
    return hw_backoff_ms(rules->retry_delay_ms, rules->max_retry_delay_ms, (unsigned)(tries - 1),
                         JITTER_PERCENT, random);
}
