/* settings.h - one row a setting; everything that knows settings reads the rows. */
#ifndef HW_BUS_SETTINGS_H
#define HW_BUS_SETTINGS_H

#include <stdint.h>

#include <howdah/howdah.h>

/* X(name, kind, min, max, default, help).  The environment variable is HOWDAH_ + NAME. */
#define HW_SETTINGS(X)                                                                             \
    X(schema, TEXT, 1, 48, "howdah", "schema of the bus (PostgreSQL); each schema is a bus")       \
    X(application_name, TEXT, 1, 63, "howdah", "how PostgreSQL lists our sessions")                \
    X(connect_timeout, DURATION, 100, 3600000, "10s", "longest wait for a connection, retries in") \
    X(statement_timeout, DURATION, 10, 86400000, "30s",                                            \
      "longest wait for the answer to a "                                                          \
      "statement")                                                                                 \
    X(busy_timeout, DURATION, 0, 3600000, "10s", "longest wait for another writer (SQLite)")       \
    X(payload_bytes_max, BYTES, 1, 67108864, "1MiB", "largest payload of an event")                \
    X(read_batch, COUNT, 1, 100000, "1000", "events that a reader fetches at once")                \
    X(poll_interval, DURATION, 1, 60000, "250ms", "longest pause between two looks at the log")    \
    X(wakeup, TEXT, 4, 6, "auto", "how subscriptions are woken: auto, notify (or fail), poll")     \
    X(read_only, BOOLEAN, 0, 1, "false", "open for reading only; a standby server will do")        \
    X(allow_lossy, BOOLEAN, 0, 1, "false", "append although synchronous_commit is off")

enum {
#define HW_SETTING_ENUM(name, kind, min, max, def, help) HW_SETTING_##name,
    HW_SETTINGS(HW_SETTING_ENUM)
#undef HW_SETTING_ENUM
        HW_SETTING_COUNT
};

struct howdah_settings {
    char *text[HW_SETTING_COUNT];    /* as it was set; NULL: the default */
    int64_t value[HW_SETTING_COUNT]; /* milliseconds, bytes, count, 0 or 1; 0 for texts */
};

/* The value of a text setting. */
const char *hw_settings_text(const howdah_settings *settings, int index);

/* Sets every setting to its default. */
void hw_settings_init(howdah_settings *settings);
void hw_settings_done(howdah_settings *settings);

#endif
