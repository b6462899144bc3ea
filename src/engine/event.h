/*
 * event.h - the record that every layer passes around.
 *
 *   I1  Every hw_str of an event is NUL-terminated beyond its length, or absent (s == NULL).
 *   I2  An event made by hw_event_clone() is one block: its strings lie behind it.  An event
 *       that a store hands out borrows its strings from the store's batch.
 *   I3  content_type absent <=> data is JSON text.
 *   I4  A stored event has global_sequence, version and recorded_at; one to be stored has them
 *       absent or ignored.
 */
#ifndef HW_ENGINE_EVENT_H
#define HW_ENGINE_EVENT_H

#include <stdint.h>

#include <howdah/howdah.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"

struct howdah_event {
    int64_t global_sequence;  /* HOWDAH_ABSENT */
    int64_t version;          /* HOWDAH_ABSENT */
    int64_t expected_version; /* HOWDAH_EXPECT_...; of the stream before this event */
    bool expects;             /* expected_version was set on this event */
    bool checked;             /* passed hw_rule_event() when it was built; a store's never is */
    bool has_causation;
    bool has_corrects;
    bool has_family; /* false: the family is the id */
    bool no_payload; /* a store was not asked for payload and headers: they are not there */
    bool broken;     /* a stored row that no writer of ours makes: neither JSON nor bytes; data is
                        "null", or empty with a content type */
    bool retracts;   /* a correction that says: it never happened */
    bool purged;     /* payload and headers were erased: data is "null", or no bytes */
    int32_t revision;
    int32_t schema_version;
    int64_t valid_time_us;  /* HW_TIME_ABSENT: the recorded time */
    int64_t recorded_at_us; /* HW_TIME_ABSENT: not stored */
    hw_uuid id;
    hw_uuid causation_id;
    hw_uuid family;
    hw_uuid corrects;
    hw_str stream;
    hw_str type;
    hw_str data;
    hw_str content_type;
    hw_str headers; /* a JSON object of strings; absent: none */
    hw_str correlation_id;
    hw_str actor;
    hw_str reason;
};

/* All fields at their defaults: absent, revision 1, schema version 1, expectation ANY. */
void hw_event_init(howdah_event *event);

/* A copy in one block of its own; free with hw_event_free(). */
int hw_event_clone(const howdah_event *event, howdah_event **ret_event, howdah_error *reterr);
void hw_event_free(howdah_event *event);

/*
 * Whether an event that is sent again is the one that is stored: stream, type, payload and its
 * content type, headers, correlation, causation, actor, schema version, correction, and the
 * valid time if the sent one has one.  An absent valid time matches whatever the store gave, and
 * of an event that was purged there is no payload and no header to compare.
 */
bool hw_event_same_content(const howdah_event *sent, const howdah_event *stored);

#endif
