/* times.h - appending, correcting and asking, for the tests of store/times.h. */
#ifndef HW_TESTS_STORE_TIMES_H
#define HW_TESTS_STORE_TIMES_H

#include "base/clock.h"
#include "suite.h"

/* The operations of the store under test; a store that has none yet is passed by. */
const hw_times_ops *times_ops(const ss *t);

/* ---- events: records to be filled in further, and stored ones; all of them borrow their texts */

/* A new event with the data {}. */
howdah_event a_fact(const char *stream, const char *type);
/* The same with a valid time. */
howdah_event a_fact_at(const char *stream, const char *type, int64_t valid_time_us);
/* The next revision behind this one, with everything as it is; has its own id and a reason. */
howdah_event a_correction_of(const howdah_event *event);
howdah_event a_retraction_of(const howdah_event *event);

/* What an append comes to; positions are filled into the event when it was stored. */
hw_append_outcome times_try(hw_store *store, howdah_event *event);
/* Appends, and expects it to be stored. */
void times_put(const ss *t, howdah_event *event);
/* All in one batch. */
void times_put_all(const ss *t, howdah_event *events, size_t n);

/* ---- queries */

/* Asks, and writes the data of what comes, joined by spaces, in a buffer that the next call uses.
 */
const char *times_data(const ss *t, const hw_times_query *query);
/* The same as numbers: "3 5 8". */
const char *times_sequences(const ss *t, const hw_times_query *query);
/* What has this id, as it is stored; free with hw_event_free(). */
howdah_event *times_load(const ss *t, const hw_uuid *id);
int64_t times_count(const ss *t, const hw_times_query *query);
howdah_knowledge times_knowledge(const ss *t, int64_t known_at);

/* As of V and K. */
hw_times_query as_of(int64_t valid_at, int64_t known_at);
hw_times_query all_events(void);

/* ---- purges */

/* Expects it to be done. */
howdah_purge_record purge_ids(const ss *t, const hw_uuid *ids, size_t n, bool families);
howdah_purge_record purge_stream(const ss *t, const char *stream);

#define NOT HW_TIME_ABSENT

#endif
