/*
 * job.h - a job as a user holds it: one block, its texts behind it, each with a NUL.
 *
 * What a store hands to a callback is gone when that returns; a user's job stays until it is freed.
 */
#ifndef HW_BUS_QUEUE_JOB_H
#define HW_BUS_QUEUE_JOB_H

#include <howdah/howdah.h>

#include "store/queue.h"

/* A copy of its own; free with howdah_job_free(). */
int hw_job_clone(const howdah_job *record, howdah_job **ret_job, howdah_error *reterr);

struct howdah_jobs {
    howdah_job **items;
    size_t n;
    size_t room;
};

/* An empty set; free with howdah_jobs_free(). */
int hw_jobs_new(size_t room, howdah_jobs **ret_jobs, howdah_error *reterr);
/* Takes a copy.  There is room for as many as hw_jobs_new() was told. */
int hw_jobs_add(howdah_jobs *jobs, const howdah_job *record, howdah_error *reterr);

/*
 * A result or an error message fit to be stored: UTF-8, at most HW_OUTCOME_TEXT_MAX bytes, cut at a
 * character.  *ret_text is text itself where that will do; otherwise *ret_copy, which the caller
 * frees with hw_free(), holds it.  NULL stays absent.
 */
int hw_job_text(const char *text, hw_str *ret_text, char **ret_copy, howdah_error *reterr);

#endif
