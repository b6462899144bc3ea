/*
 * correct.c - corrections, over any store.
 *
 *   I1  The record is made of the newest revision: what the call leaves out stays as it is there,
 *       the valid time as well, also when that was left to the recorded time.
 *   I2  The store refuses it unless it is the next revision of its family: of two that correct at
 *       once the second gets CONFLICT, and nothing of it is stored.
 *   I3  A correction that is repeated with its id is found by it, before anything else is looked
 *       at: by then the newest revision is itself, or a later one.
 */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/uuid.h"
#include "bus/log/read.h"
#include "engine/rules.h"

/* One correction on its way. */
typedef struct correct_call {
    hw_store *store;
    const howdah_correction *c;
    size_t payload_bytes_max;
    hw_uuid named; /* some event of the family */
    hw_uuid id;    /* of the correction */
    hw_uuid family;
} correct_call;

/* ------------------------------------------------------------------- checks */

/* A retraction says that it never happened, so it has no content and no valid time of its own. */
static int check_retraction(const howdah_correction *c, howdah_error *reterr)
{
    const char *field = c->data                              ? "data"
                        : c->content_type                    ? "content_type"
                        : c->valid_time_us != HOWDAH_NO_TIME ? "valid_time"
                                                             : NULL;

    return field ? hw_fail_field(reterr, HOWDAH_INVALID, field, "a retraction has none")
                 : HOWDAH_OK;
}

/* A correction that changes nothing is refused: it is most likely a forgotten option. */
static int check_content(const correct_call *call, howdah_error *reterr)
{
    const howdah_correction *c = call->c;
    int s = HOWDAH_OK;

    if (!c->data && c->content_type)
        return hw_fail_field(reterr, HOWDAH_INVALID, "data", "is required");
    if (!c->data && !c->headers && c->valid_time_us == HOWDAH_NO_TIME && c->schema_version == 0) {
        s = hw_fail_field(reterr, HOWDAH_INVALID, "data", "there is nothing to correct");
        return hw_advise(reterr, s, "give new data, headers or a valid time, or retract it");
    }
    if (c->data)
        s = hw_rule_payload((hw_str){c->data, c->data_len}, hw_str_of(c->content_type),
                            call->payload_bytes_max, reterr);
    if (s >= 0 && c->valid_time_us != HOWDAH_NO_TIME)
        s = hw_rule_valid_time(c->valid_time_us, reterr);
    return s;
}

/* All that can be judged without the store, so that a mistake costs no round trip. */
static int check(correct_call *call, howdah_error *reterr)
{
    const howdah_correction *c = call->c;
    int s = hw_parse_uuid("corrects", c->event_id, &call->named, reterr);

    if (s >= 0 && c->id)
        s = hw_parse_uuid("id", c->id, &call->id, reterr);
    else if (s >= 0 && !hw_uuid_v7(&call->id))
        s = hw_fail(reterr, HOWDAH_FAILED, "the system gives no random bytes for an id");
    if (s >= 0)
        s = hw_rule_reason(hw_str_of(c->reason), reterr);
    if (s >= 0 && c->actor)
        s = hw_rule_name("actor", hw_str_of(c->actor), reterr);
    if (s >= 0 && (c->expected_revision < 0 || c->expected_revision > INT32_MAX))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "expected_revision",
                          "must be a revision, or 0 for any");
    if (s >= 0)
        s = c->retract ? check_retraction(c, reterr) : check_content(call, reterr);
    if (s >= 0 && c->headers)
        s = hw_rule_headers(hw_str_of(c->headers), reterr);
    if (s >= 0 && c->schema_version != 0)
        s = hw_rule_schema_version(c->schema_version, reterr);
    return s;
}

/* ------------------------------------------------------------------- lookups */

/*
 * I3: whether what is stored is what this call would have stored.  Fields that the call leaves
 * out are not compared: they were taken from a revision that may no longer be the newest.
 */
static bool is_repeated(const correct_call *call, const howdah_event *stored)
{
    const howdah_correction *c = call->c;

    if (!stored->has_family || !hw_uuid_equal(&stored->family, &call->family) ||
        stored->retracts != c->retract || !hw_str_equal(stored->reason, hw_str_of(c->reason)) ||
        !hw_str_equal(stored->actor, hw_str_of(c->actor)))
        return false;
    /* What was purged meanwhile cannot be compared any more. */
    if (!stored->purged && c->data &&
        (!hw_str_equal(stored->data, (hw_str){c->data, c->data_len}) ||
         !hw_str_equal(stored->content_type, hw_str_of(c->content_type))))
        return false;
    return (stored->purged || !c->headers ||
            hw_str_equal(stored->headers, hw_str_of(c->headers))) &&
           (c->valid_time_us == HOWDAH_NO_TIME || c->valid_time_us == stored->valid_time_us) &&
           (c->schema_version == 0 || c->schema_version == stored->schema_version);
}

/* The same status as for an append whose id is stored with other content. */
static int fail_reused(const correct_call *call, const howdah_event *stored, howdah_error *reterr)
{
    char id[HW_UUID_TEXT + 1];
    int s;

    hw_uuid_format(&call->id, id);
    s = hw_fail(reterr, HOWDAH_ID_REUSED,
                "event id %s is stored with other content, at sequence %lld", id,
                (long long)stored->global_sequence);
    return hw_advise(reterr, s, "give a new correction a new id");
}

/* Says already_stored, as a repeated append does. */
static void place(const howdah_event *stored, howdah_position *ret_position)
{
    *ret_position = (howdah_position){.size = sizeof *ret_position,
                                      .global_sequence = stored->global_sequence,
                                      .version = stored->version,
                                      .recorded_at_us = stored->recorded_at_us,
                                      .revision = stored->revision,
                                      .already_stored = 1};
    hw_uuid_format(&stored->id, ret_position->id);
}

/*
 * One event by its id, as a copy; HOWDAH_END without it.  A copy, because the cursor's own event is
 * gone with the cursor.
 */
static int find(hw_store *store, const hw_uuid *id, howdah_event **ret_event, howdah_error *reterr)
{
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;
    int s = store->ops->read_open(store, &(hw_query){.ids = id, .ids_n = 1, .batch = 1}, &cursor,
                                  reterr);

    if (s < 0)
        return s;
    s = store->ops->read_next(cursor, &events, &n, reterr);
    if (s == HOWDAH_OK)
        s = hw_event_clone(events, ret_event, reterr);
    store->ops->read_close(cursor);
    return s;
}

/*
 * The newest revision of the family, as a copy; HOWDAH_END without one.  AS_OF without a time
 * means now, and a retracted family has a newest revision, too.
 */
static int find_newest(const correct_call *call, howdah_event **ret_event, howdah_error *reterr)
{
    hw_times_query query = HW_TIMES_QUERY_INIT;
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;
    int s;

    query.view = HOWDAH_VIEW_AS_OF;
    query.retractions = true;
    query.families = &call->family;
    query.families_n = 1;
    query.limit = 1;
    query.batch = 1;
    s = call->store->ops->times->query_open(call->store, &query, &cursor, reterr);
    if (s < 0)
        return s;
    s = call->store->ops->read_next(cursor, &events, &n, reterr);
    if (s == HOWDAH_OK)
        s = hw_event_clone(events, ret_event, reterr);
    call->store->ops->read_close(cursor);
    return s;
}

/* The caller reads the newest revision from actual_revision, if its struct has that member. */
static int fail_conflict(int32_t newest, int64_t expected, howdah_error *reterr)
{
    int s =
        expected > 0
            ? hw_fail(reterr, HOWDAH_CONFLICT, "the event is at revision %d, expected %lld",
                      (int)newest, (long long)expected)
            : hw_fail(reterr, HOWDAH_CONFLICT,
                      "somebody else has corrected this event: it is at revision %d", (int)newest);

    if (reterr && reterr->size >= sizeof *reterr)
        reterr->actual_revision = newest;
    return hw_advise(reterr, s, "read it again, then correct what it says now");
}

/* -------------------------------------------------------------------- the record */

/*
 * I1.  Borrows from the newest revision and from the call, so both must outlive the append.
 * After a retraction or a purge there is no payload to keep: the call has to bring one.
 */
static int compose(const correct_call *call, const howdah_event *newest, howdah_event *out,
                   howdah_error *reterr)
{
    const howdah_correction *c = call->c;

    if (c->retract && newest->retracts)
        return hw_fail_field(reterr, HOWDAH_INVALID, "retract", "the event is retracted already");
    if (!c->data && !c->retract && (newest->retracts || newest->purged))
        return hw_fail_field(reterr, HOWDAH_INVALID, "data", "is required: the event is %s",
                             newest->retracts ? "retracted" : "purged");
    if (newest->revision == INT32_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "revision", "the event has no revision left");
    *out = *newest;
    out->checked = false; /* parts of it come from the caller: the append checks all of it */
    out->expects = false;
    out->expected_version = HOWDAH_EXPECT_ANY;
    out->id = call->id;
    out->has_family = true;
    out->family = call->family;
    out->has_corrects = true;
    out->corrects = newest->id;
    out->revision = newest->revision + 1;
    out->retracts = c->retract;
    out->reason = hw_str_of(c->reason);
    out->actor = hw_str_of(c->actor);
    if (c->retract) {
        out->data = HW_STR_LIT("null");
        out->content_type = HW_STR_NULL;
    }
    if (c->data) {
        out->data = (hw_str){c->data, c->data_len};
        out->content_type = hw_str_of(c->content_type);
    }
    if (c->headers)
        out->headers = hw_str_of(c->headers);
    if (c->valid_time_us != HOWDAH_NO_TIME)
        out->valid_time_us = c->valid_time_us;
    if (c->schema_version != 0)
        out->schema_version = (int32_t)c->schema_version;
    return HOWDAH_OK;
}

/* The newest revision of the family; NOT_FOUND without one. */
static int need_newest(const correct_call *call, howdah_event **ret_event, howdah_error *reterr)
{
    int s = find_newest(call, ret_event, reterr);

    return s == HOWDAH_END ? hw_fail(reterr, HOWDAH_NOT_FOUND, "the event's family is gone") : s;
}

/* As the next revision after this one; CONFLICT is for the caller to explain. */
static int append_behind(const correct_call *call, const hw_interrupt *interrupt,
                         const howdah_event *newest, howdah_position *ret_position,
                         howdah_error *reterr)
{
    howdah_event event = {.revision = 0};
    int s = compose(call, newest, &event, reterr);

    if (s < 0)
        return s;
    s = hw_append_correction(call->store, interrupt, call->payload_bytes_max, &event, ret_position,
                             reterr);
    if (s >= 0)
        ret_position->revision = event.revision;
    return s;
}

/*
 * After a lost race: either somebody else has corrected the event, as far as this transaction can
 * see, or it was purged between our look and our append.  Only the second is worth another try,
 * with what the event has become; then true.  *newest is replaced in both cases.
 */
static bool try_again(const correct_call *call, howdah_event **newest, int *s, howdah_error *reterr)
{
    howdah_event *now = NULL;
    int found;
    bool again;

    assert(*newest && *s == HOWDAH_CONFLICT);
    found = need_newest(call, &now, reterr);
    again = found >= 0 && now && now->revision == (*newest)->revision &&
            now->purged != (*newest)->purged;

    if (found < 0)
        *s = found;
    else if (!again)
        *s = fail_conflict(now ? now->revision : (*newest)->revision, call->c->expected_revision,
                           reterr);
    hw_event_free(*newest);
    *newest = now;
    return again;
}

/*
 * The loop ends: a try is repeated only when the event was purged in between, and that happens
 * once.
 */
static int append_next(const correct_call *call, const hw_interrupt *interrupt,
                       howdah_position *ret_position, howdah_error *reterr)
{
    howdah_event *newest = NULL;
    int s = need_newest(call, &newest, reterr);

    if (s < 0 || !newest)
        return s;
    if (hw_uuid_equal(&newest->id, &call->id)) /* I3: stored since we looked for it */
        place(newest, ret_position);
    else if (call->c->expected_revision > 0 && call->c->expected_revision != newest->revision)
        s = fail_conflict(newest->revision, call->c->expected_revision, reterr);
    else
        do
            s = append_behind(call, interrupt, newest, ret_position, reterr);
        while (s == HOWDAH_CONFLICT && try_again(call, &newest, &s, reterr));
    hw_event_free(newest);
    return s;
}

/*
 * For any store: the bus's own, or one around a transaction of the caller's.  The id is looked up
 * only when the caller gave one; an id made here cannot be stored yet.
 */
int hw_correct_on(hw_store *store, const hw_interrupt *interrupt, size_t payload_bytes_max,
                  const howdah_correction *correction, howdah_position *ret_position,
                  howdah_error *reterr)
{
    howdah_correction own = HOWDAH_CORRECTION_INIT;
    correct_call call = {.store = store, .c = &own, .payload_bytes_max = payload_bytes_max};
    howdah_position position = HOWDAH_POSITION_INIT;
    howdah_event *event = NULL;
    howdah_event *stored = NULL;
    int s;

    if (!correction)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_correct: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, correction, "howdah_correct", reterr);
    if (s >= 0)
        s = hw_sized_check(ret_position, "howdah_correct", reterr);
    correction = &own;
    if (s >= 0 && !correction->event_id)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_correct: the event's id is NULL");
    if (s >= 0 && !store->ops->times)
        s = hw_fail(reterr, HOWDAH_MISUSE, "this store has no corrections");
    if (s >= 0)
        s = check(&call, reterr);
    if (s >= 0)
        s = find(store, &call.named, &event, reterr);
    if (s == HOWDAH_END)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "no event has this id");
    if (s < 0 || !event)
        return s;
    call.family = event->has_family ? event->family : event->id;
    s = correction->id ? find(store, &call.id, &stored, reterr) : HOWDAH_END;
    if (s == HOWDAH_OK && is_repeated(&call, stored))
        place(stored, &position);
    else if (s == HOWDAH_OK)
        s = fail_reused(&call, stored, reterr);
    else if (s == HOWDAH_END)
        s = append_next(&call, interrupt, &position, reterr);
    if (s >= 0 && ret_position)
        hw_sized_give_at(ret_position, 0, &position, sizeof position);
    hw_event_free(stored);
    hw_event_free(event);
    return s;
}

/* Inside a handler with a transaction the correction joins that transaction (entry.h I4). */
int howdah_correct(howdah_bus *bus, const howdah_correction *correction,
                   howdah_position *ret_position, howdah_error *reterr)
{
    hw_store *tx = hw_handling_tx(bus);
    HW_ENTRY(entry);
    int s;

    if (tx)
        return hw_join_correct(bus, tx, correction, ret_position, reterr);
    s = hw_enter(&entry, &bus, HW_WRITES, "howdah_correct", reterr);
    if (s < 0)
        return s;
    return hw_correct_on(bus->store, bus->interrupt, bus->payload_bytes_max, correction,
                         ret_position, reterr);
}

bool howdah_event_is_retraction(const howdah_event *event)
{
    return event && event->retracts;
}

bool howdah_event_is_purged(const howdah_event *event)
{
    return event && event->purged;
}
