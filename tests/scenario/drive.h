/* drive.h - a step of a scenario, and what it is given: see drive.c. */
#ifndef HW_TESTS_SCENARIO_DRIVE_H
#define HW_TESTS_SCENARIO_DRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/str.h"

#define TEXTS_MAX 64

typedef struct step {
    howdah_bus *bus;
    hw_str with; /* a valid JSON object */
    hw_buf *out; /* the answer goes there, as JSON */
    char *texts[TEXTS_MAX];
    size_t texts_n;
    const char *unsayable; /* a field of a kind that no C caller could give; NULL: none */
} step;

/* ---- arguments, by name; what is absent, or null, is the default */

bool given(const step *s, const char *name, hw_str *ret_value);
/* Lives as long as the step.  ret_len may be NULL. */
const char *text_arg(step *s, const char *name, size_t *ret_len);
int64_t number_arg(step *s, const char *name, int64_t none);
int64_t duration_arg(step *s, const char *name, int64_t none);
bool flag_arg(step *s, const char *name);
/* RFC 3339.  INVALID with the field's name. */
int time_arg(step *s, const char *name, int64_t *time_us, howdah_error *reterr);
/* "start", "end", or a number. */
int64_t place_arg(step *s, const char *name);
/* Decoded from base64. */
const char *bytes_arg(step *s, const char *name, size_t *ret_len);
/* As it is written, with a NUL behind it. */
const char *raw_arg(step *s, const char *name, size_t *ret_len);

/* ---- actions: a status as the library has it; END is no failure */

typedef int action_fn(step *s, howdah_error *reterr);
typedef struct action {
    const char *name;
    action_fn *run;
} action;

/* Each ends with a row without a name. */
extern const action log_actions[];   /* drive_log.c */
extern const action group_actions[]; /* drive_group.c */
extern const action queue_actions[]; /* drive_queue.c */

#endif
