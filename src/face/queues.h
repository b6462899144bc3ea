/* queues.h - queues and jobs, as JSON, a row or fields. */
#ifndef HW_FACE_QUEUES_H
#define HW_FACE_QUEUES_H

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/error.h"
#include "face/fields.h"

/* Of a howdah_queue_info. */
extern const face_entity face_queue;
/* Of a howdah_queue_info from howdah_queue_summaries_walk(): without the counts of history. */
extern const face_entity face_queue_summary;
/* Of a howdah_job, for people.  Its JSON is face_job_json(). */
extern const face_entity face_job;
/* Of a howdah_job: how it was pushed, and the event that it was made of.  It has no table. */
extern const face_entity face_job_pushed;

/* Appends one object without a line break.  NO_MEMORY; LIMIT of the buffer. */
int face_job_json(const howdah_job *job, hw_buf *out, howdah_error *reterr);

/*
 * What became of a push: {"id":12,"queue":"mail"}, and "existed" when it was there already.  By
 * hand, not from a table of fields: a batch says it of every job, by the million.
 */
void face_pushed_json(hw_buf *out, const char *queue, const howdah_pushed *pushed);

#endif
