/* job_in.h - a job from a JSON object, as faces take it: a line, or a body. */
#ifndef HW_FACE_JOB_IN_H
#define HW_FACE_JOB_IN_H

#include <stddef.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

/* A job with the memory of its texts. */
typedef struct face_job_in {
    howdah_new_job job;
    hw_buf data;
    hw_buf headers;
    hw_buf names;       /* key, dedup, ... one after the other */
    const char *advice; /* with the refusal of a field that is not known; NULL: none */
} face_job_in;

void face_job_in_init(face_job_in *job, size_t payload_max);
void face_job_in_done(face_job_in *job);
/* Fields of "from", as if this job had been given them: texts stay from's. */
void face_job_in_inherit(face_job_in *job, const howdah_new_job *from);

/*
 * Fills a job from a JSON object: data or data_base64 and content_type, headers, delay, run_at,
 * priority, max_attempts, key, dedup, correlation_id, causation_id.  What it does not name stays.
 * The object may go before the job does.
 * Errors: INVALID, LIMIT, with the field's name.
 */
int face_job_in_parse(face_job_in *job, hw_str text, size_t payload_max, howdah_error *reterr);

#endif
