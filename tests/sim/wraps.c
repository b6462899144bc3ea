/*
 * wraps.c - time and chance of the library, replaced at link time: a run is a function of its seed.
 */
#include "wraps.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/random.h"
#include "bus/bus.h"
#include "dice.h"

static int64_t *world_us;
static int64_t booted_us;
static int boots;
static sim_dice library_dice;
static void (*sleep_fn)(void *ctx, int64_t ms);
static void *sleep_ctx;

void wraps_use(int64_t *now_us, uint64_t seed, void (*on_sleep)(void *ctx, int64_t ms), void *ctx)
{
    world_us = now_us;
    booted_us = 0;
    boots = 0;
    library_dice.state = seed ^ UINT64_C(0x5851F42D4C957F2D);
    sleep_fn = on_sleep;
    sleep_ctx = ctx;
}

void wraps_reboot(void)
{
    booted_us = *world_us;
    boots++;
}

/* The linker's --wrap gives these names. */
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
int64_t __wrap_hw_clock_wall_us(void);
int64_t __wrap_hw_clock_mono_ms(void);
int64_t __wrap_hw_clock_mono_us(void);
int64_t __wrap_hw_clock_end_ms(int64_t for_ms);
void __wrap_hw_clock_boot(char ret_text[HW_BOOT_TEXT + 1]);
void __wrap_hw_clock_sleep_ms(int64_t ms);
bool __wrap_hw_random_bytes(void *out, size_t n);
uint32_t __wrap_hw_random_u32(void);
int __wrap_hw_sleep(const hw_interrupt *interrupt, int64_t ms, howdah_error *reterr);

int64_t __wrap_hw_clock_wall_us(void)
{
    return INT64_C(1767225600000000) + *world_us;
}

int64_t __wrap_hw_clock_mono_ms(void)
{
    return (*world_us - booted_us) / 1000;
}

int64_t __wrap_hw_clock_mono_us(void)
{
    return *world_us - booted_us;
}

int64_t __wrap_hw_clock_end_ms(int64_t for_ms)
{
    int64_t now = __wrap_hw_clock_mono_ms();

    return for_ms < 0 || for_ms > INT64_MAX - now ? INT64_MAX : now + for_ms;
}

void __wrap_hw_clock_boot(char ret_text[HW_BOOT_TEXT + 1])
{
    (void)snprintf(ret_text, HW_BOOT_TEXT + 1, "boot-%d", boots);
}

void __wrap_hw_clock_sleep_ms(int64_t ms)
{
    if (sleep_fn)
        sleep_fn(sleep_ctx, ms);
    else
        *world_us += ms * 1000;
}

bool __wrap_hw_random_bytes(void *out, size_t n)
{
    uint8_t *bytes = out;

    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)dice_roll(&library_dice, 256);
    return true;
}

uint32_t __wrap_hw_random_u32(void)
{
    return (uint32_t)(dice_next(&library_dice) >> 32);
}

int __wrap_hw_sleep(const hw_interrupt *interrupt, int64_t ms, howdah_error *reterr)
{
    (void)interrupt, (void)reterr;
    __wrap_hw_clock_sleep_ms(ms > 0 ? ms : 0);
    return HOWDAH_OK;
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
