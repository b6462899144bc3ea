/*
 * queue_exchange_one.c - one job is done, the next one please: the exchange of a worker that takes
 * one at a time.
 *
 * The answer of exchange_one() is one value of the type turned, with a row of job_data in it.  In
 * binary format such a value is the number of its fields, then type, length and bytes of each.
 */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "store/pg/pg.h"

/* What is left of a value; it comes from the server, so nothing is read behind its end. */
typedef struct fields {
    const char *at;
    size_t len;
    bool broken;
} fields;

/* Once broken, everything after reads as 0 or absent: take_answer() asks once, at the end. */
static uint32_t take_u32(fields *f)
{
    uint32_t raw;

    if (f->len < sizeof raw) {
        f->broken = true;
        return 0;
    }
    memcpy(&raw, f->at, sizeof raw);
    f->at += sizeof raw;
    f->len -= sizeof raw;
    return be32toh(raw);
}

/* n: how many fields a value of this type has. */
static fields fields_of(hw_str value, uint32_t n)
{
    fields f = {value.s, value.len, false};

    if (take_u32(&f) != n)
        f.broken = true;
    return f;
}

/* Type and length come before the bytes; a length of -1 is NULL. */
static hw_str take(fields *f)
{
    hw_str value;
    uint32_t len;

    (void)take_u32(f); /* type */
    len = take_u32(f);
    if (f->broken || len == UINT32_MAX)
        return HW_STR_NULL;
    if (len > f->len) {
        f->broken = true;
        return HW_STR_NULL;
    }
    value = (hw_str){f->at, len};
    f->at += len;
    f->len -= len;
    return value;
}

/* Of 1, 2, 4 or 8 bytes; NULL: 0. */
static int64_t take_number(fields *f)
{
    hw_str value = take(f);
    uint64_t bits = value.len > 0 && (value.s[0] & 0x80) ? UINT64_MAX : 0;

    if (value.len > sizeof bits)
        f->broken = true;
    for (size_t i = 0; i < value.len && i < sizeof bits; i++)
        bits = bits << 8 | (uint8_t)value.s[i];
    return (int64_t)bits;
}

/* Microseconds since 2000, as the server counts them. */
static int64_t take_time(fields *f)
{
    return hw_pg_time(take_number(f));
}

/* As the type turned has them, and then those of job_data. */
static void take_job(fields *f, howdah_job *job, hw_pg_passed *passed)
{
    fields data;
    hw_str causation;

    job->attempts = take_number(f);
    job->max_attempts = take_number(f);
    passed->level = (int32_t)take_number(f);
    job->due_at_us = passed->due_us = take_time(f);
    job->started_at_us = take_time(f);
    job->lease_until_us = take_time(f);
    passed->begun_at_us = take_time(f);
    passed->xid = take_number(f);
    passed->horizon = take_number(f);
    job->event_type = take(f);
    job->event_stream = take(f);
    data = fields_of(take(f), 14);
    job->id = passed->id = take_number(&data);
    job->created_at_us = take_time(&data);
    job->event_sequence = take_number(&data);
    causation = take(&data);
    job->has_causation = causation.len == sizeof job->causation_id.b;
    if (job->has_causation)
        memcpy(job->causation_id.b, causation.s, sizeof job->causation_id.b);
    (void)take(&data); /* queue */
    job->priority = (int32_t)take_number(&data);
    (void)take(&data); /* max_attempts, if it has any of its own */
    job->key = take(&data);
    job->dedup = take(&data);
    job->correlation_id = take(&data);
    job->content_type = take(&data);
    job->headers = take(&data);
    job->data = take(&data);
    if (job->content_type.s)
        job->data = take(&data);
    f->broken |= data.broken;
}

/* No token: no job was claimed.  "searched" tells an empty level from a queue that is not plain. */
static int take_answer(hw_pg *pg, hw_str answer, const hw_claim *claim, hw_job_fn fn, void *ctx,
                       hw_claim_report *report, hw_pg_one *ret_done, howdah_error *reterr)
{
    fields f = fields_of(answer, 14);
    howdah_job job = {.state = HOWDAH_JOB_PROCESSING,
                      .queue = claim->queue,
                      .worker = claim->worker,
                      .finished_at_us = HW_TIME_ABSENT};
    hw_pg_passed passed = {0};
    bool searched = take_number(&f) != 0;

    job.token = take_number(&f); /* none is 0 */
    if (job.token != 0)
        take_job(&f, &job, &passed);
    if (f.broken)
        return hw_fail(reterr, HOWDAH_SCHEMA,
                       "exchange_one() answers in another shape than expected");
    *ret_done = job.token != 0 ? HW_PG_ONE_CLAIMED : searched ? HW_PG_ONE_EMPTY : HW_PG_ONE_ACKED;
    if (job.token != 0) {
        report->n++;
        hw_pg_floors_pass(pg, claim->queue, &passed);
        (void)fn(ctx, &job);
    }
    return HOWDAH_OK;
}

/* NULL: not even the verdict was carried out, and the general way has to be taken for it. */
int hw_pg_exchange_one(hw_pg *pg, const hw_ack *ack, const hw_claim *claim,
                       const hw_pg_floor *floor, bool look, hw_job_fn fn, void *ctx,
                       hw_claim_report *report, hw_pg_one *ret_done, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_JOB_EXCHANGE_ONE, .writes = true};
    PGresult *result = NULL;
    int s;

    assert(ack->verdict == HOWDAH_VERDICT_COMPLETE && !ack->text.s && claim->n == 1);
    hw_pg_param_int8(&call, ack->id);
    hw_pg_param_int8(&call, ack->token);
    hw_pg_param_bool(&call, true);
    hw_pg_param_bool(&call, look);
    hw_pg_param_str(&call, claim->queue);
    hw_pg_param_str(&call, claim->worker);
    hw_pg_param_int8(&call, claim->lease_ms);
    hw_pg_param_int4(&call, floor->level);
    hw_pg_param_int8(&call, floor->due_us - HW_PG_EPOCH_US);
    hw_pg_param_int8(&call, floor->id);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s < 0)
        return s;
    *ret_done = HW_PG_ONE_NOTHING;
    if (!PQgetisnull(result, 0, 0))
        s = take_answer(pg, hw_pg_get_str(result, 0, 0), claim, fn, ctx, report, ret_done, reterr);
    PQclear(result);
    return s;
}
