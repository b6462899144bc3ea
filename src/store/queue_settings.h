/*
 * queue_settings.h - the settings of a queue by their number in HOWDAH_QUEUE_SETTING_LIST.
 *
 *   I1  All of them are int64_t and lie in howdah_queue_options in the order of the list, so that
 *       a loop can bind, decode and check them.
 */
#ifndef HW_STORE_QUEUE_SETTINGS_H
#define HW_STORE_QUEUE_SETTINGS_H

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include <howdah/howdah.h>

/* HW_QUEUE_SETTING_max_attempts: the number of max_attempts, from 0 on. */
enum {
#define HW_QUEUE_SETTING_ENUM(key, member, unit, min, max, def, range, zero, help)                 \
    HW_QUEUE_SETTING_##member,
    HOWDAH_QUEUE_SETTING_LIST(HW_QUEUE_SETTING_ENUM)
#undef HW_QUEUE_SETTING_ENUM
        HW_QUEUE_SETTING_COUNT
};

/* ", q.max_attempts" for each: what a select list goes on with. */
#define HW_QUEUE_SETTING_COLUMN(key, member, unit, min, max, def, range, zero, help) ", q." #member

/* "max_attempts", for each. */
#define HW_QUEUE_SETTING_NAME(key, member, unit, min, max, def, range, zero, help) #member,

#define HW_QUEUE_SETTINGS_START (sizeof(howdah_queue_options) - HW_QUEUE_SETTING_COUNT * 8)

#define HW_QUEUE_SETTING_PLACED(key, member, unit, min, max, def, range, zero, help)               \
    _Static_assert(offsetof(howdah_queue_options, member) ==                                       \
                       HW_QUEUE_SETTINGS_START + 8 * HW_QUEUE_SETTING_##member,                    \
                   "I1");
HOWDAH_QUEUE_SETTING_LIST(HW_QUEUE_SETTING_PLACED)
#undef HW_QUEUE_SETTING_PLACED

/* Where a setting lies in the struct. */
static inline size_t hw_queue_setting_offset(size_t index)
{
    assert(index < HW_QUEUE_SETTING_COUNT);
    return HW_QUEUE_SETTINGS_START + index * sizeof(int64_t);
}

static inline int64_t hw_queue_setting_get(const howdah_queue_options *options, size_t index)
{
    int64_t value;

    memcpy(&value, (const char *)options + hw_queue_setting_offset(index), sizeof value);
    return value;
}

static inline void hw_queue_setting_put(howdah_queue_options *options, size_t index, int64_t value)
{
    memcpy((char *)options + hw_queue_setting_offset(index), &value, sizeof value);
}

#endif
