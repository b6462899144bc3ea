/*
 * pause.h - how whoever waits for events or jobs sleeps.
 *
 * Being woken is the fastest way to hear of something, and costs the writer a notification.  Under
 * steady traffic it is not worth that: there one looks again and again, after short pauses, and
 * arms the bell only after HW_PAUSE_HOLD_OFF_US of silence.  Where things come HW_PAUSE_RARE_US
 * apart or more, it is armed as soon as there is nothing to do.  While nothing comes, the pauses
 * grow: whatever the bell does not tell, a pause finds.
 *
 * Pure: the time comes from the caller, in microseconds of a clock that does not go back; who
 * arms, listens and sleeps is the caller, too.
 *
 *   I1  A pause is never longer than the caller's maximum, once it has grown, and never 0.
 *   I2  After something came, or the bell rang, the next pause is a short one.
 *   I3  An armed bell is quiet: pauses grow only while it is armed, or after the hold-off.
 */
#ifndef HW_ENGINE_PAUSE_H
#define HW_ENGINE_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#define HW_PAUSE_HOLD_OFF_US 50000
#define HW_PAUSE_RARE_US 3000
/* A longer time between two things counts as this one. */
#define HW_PAUSE_GAP_US_MAX (4 * HW_PAUSE_RARE_US)

/* What is different for those who use it. */
typedef struct hw_pause_rules {
    int64_t short_us_min; /* a short pause is a quarter of the time between two things, within */
    int64_t short_us_max; /* these */
    int64_t armed_us;     /* the first pause once the bell is armed; */
    int64_t armed_growth; /* so many times as long is each further one */
    int64_t rare_hold_off_us; /* where things are rare, pauses without a bell do not grow before */
} hw_pause_rules;

typedef struct hw_pause {
    const hw_pause_rules *rules;
    bool armed;
    int64_t event_us;   /* the last time that something was done or heard */
    int64_t arrival_us; /* the last time that something new had come, */
    int64_t gap_us;     /* and how long that takes lately */
    int64_t pause_us;   /* between two looks */
} hw_pause;

/* gap_us: what is expected before anything is known. */
void hw_pause_init(hw_pause *pause, const hw_pause_rules *rules, int64_t gap_us);
/* Whether it is time to arm the bell. */
bool hw_pause_is_quiet(const hw_pause *pause, int64_t now_us);
/* It is armed now. */
void hw_pause_arm(hw_pause *pause);
/* It rang: it has to be armed again. */
void hw_pause_ring(hw_pause *pause);
/* Something was done or heard; arrived: and had come since the last look. */
void hw_pause_event(hw_pause *pause, int64_t now_us, bool arrived);
/* A pause is over, and nothing came. */
void hw_pause_grow(hw_pause *pause, int64_t now_us, int64_t us_max);

#endif
