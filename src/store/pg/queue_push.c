/*
 * queue_push.c - jobs into a queue on PostgreSQL.
 *
 *   I1  A push is one statement, however many jobs it has: each of their fields is one array, and a
 *       field that no job has is NULL.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "store/pg/pg.h"

/* One text field of a job; absent when the job does not have it. */
typedef hw_str (*text_of)(const hw_push *job);

static bool any_has(const hw_push *jobs, size_t n, text_of get)
{
    for (size_t i = 0; i < n; i++)
        if (get(&jobs[i]).s)
            return true;
    return false;
}

/* What no job has is no array: the server has nothing to unpack. */
static void put_texts(hw_pg_arrays *a, Oid element, const hw_push *jobs, size_t n, text_of get)
{
    hw_pg_array array;

    if (!any_has(jobs, n, get)) {
        hw_pg_arrays_skip(a);
        return;
    }
    hw_pg_arrays_begin(a, element, n, &array);
    for (size_t i = 0; i < n; i++) {
        hw_str text = get(&jobs[i]);

        if (text.s)
            hw_pg_array_put(a->out, text.s, text.len);
        else
            hw_pg_array_put_null(a->out, &array);
    }
}

/* A payload is JSON or bytes, never both: the content type decides. */
static hw_str json_of(const hw_push *job)
{
    return job->content_type.s ? HW_STR_NULL : job->data;
}

static hw_str bytes_of(const hw_push *job)
{
    return job->content_type.s ? job->data : HW_STR_NULL;
}

static hw_str content_type_of(const hw_push *job)
{
    return job->content_type;
}

static hw_str headers_of(const hw_push *job)
{
    return job->headers;
}

static hw_str key_of(const hw_push *job)
{
    return job->key;
}

static hw_str dedup_of(const hw_push *job)
{
    return job->dedup;
}

static hw_str correlation_of(const hw_push *job)
{
    return job->correlation_id;
}

/*
 * Two arrays, delays and times: a delay is added to the server's clock, a time is taken as it is.
 */
static void put_times(hw_pg_arrays *a, const hw_push *jobs, size_t n)
{
    hw_pg_array array;
    bool delays = false;
    bool times = false;

    for (size_t i = 0; i < n; i++) {
        delays |= jobs[i].delay_us != 0;
        times |= jobs[i].run_at_us != HW_TIME_ABSENT;
    }
    if (delays)
        hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    else
        hw_pg_arrays_skip(a);
    for (size_t i = 0; delays && i < n; i++)
        hw_pg_array_put_int8(a->out, jobs[i].delay_us);
    if (times)
        hw_pg_arrays_begin(a, HW_OID_TIMESTAMPTZ, n, &array);
    else
        hw_pg_arrays_skip(a);
    for (size_t i = 0; times && i < n; i++) {
        if (jobs[i].run_at_us == HW_TIME_ABSENT)
            hw_pg_array_put_null(a->out, &array);
        else
            hw_pg_array_put_int8(a->out, jobs[i].run_at_us - HW_PG_EPOCH_US);
    }
}

static int32_t priority_of(const hw_push *job)
{
    return job->priority;
}

static int32_t max_attempts_of(const hw_push *job)
{
    return job->max_attempts;
}

/* 0 is the default of both numbers, so an array of zeros need not travel. */
static void put_numbers(hw_pg_arrays *a, const hw_push *jobs, size_t n,
                        int32_t (*get)(const hw_push *job))
{
    hw_pg_array array;
    bool any = false;

    for (size_t i = 0; i < n && !any; i++)
        any = get(&jobs[i]) != 0;
    if (!any) {
        hw_pg_arrays_skip(a);
        return;
    }
    hw_pg_arrays_begin(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int4(a->out, get(&jobs[i]));
}

/* UUIDs travel as 16 bytes each. */
static void put_causations(hw_pg_arrays *a, const hw_push *jobs, size_t n)
{
    hw_pg_array array;
    bool any = false;

    for (size_t i = 0; i < n && !any; i++)
        any = jobs[i].has_causation;
    if (!any) {
        hw_pg_arrays_skip(a);
        return;
    }
    hw_pg_arrays_begin(a, HW_OID_UUID, n, &array);
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].has_causation)
            hw_pg_array_put(a->out, jobs[i].causation_id.b, sizeof jobs[i].causation_id.b);
        else
            hw_pg_array_put_null(a->out, &array);
    }
}

/* The arrays come in the order of push_arrays()'s parameters; the answer has a row for each job. */
int hw_pg_push(hw_store *store, hw_str queue, const hw_push *jobs, size_t n,
               howdah_pushed *ret_pushed, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_JOB_PUSH, .writes = true};
    hw_pg_arrays a = {.out = &pg->params};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0 || n == 0)
        return s;
    hw_buf_clear(a.out);
    put_texts(&a, HW_OID_JSON, jobs, n, json_of);
    put_texts(&a, HW_OID_BYTEA, jobs, n, bytes_of);
    put_texts(&a, HW_OID_TEXT, jobs, n, content_type_of);
    put_texts(&a, HW_OID_JSON, jobs, n, headers_of);
    put_times(&a, jobs, n);
    put_numbers(&a, jobs, n, priority_of);
    put_numbers(&a, jobs, n, max_attempts_of);
    put_texts(&a, HW_OID_TEXT, jobs, n, key_of);
    put_texts(&a, HW_OID_TEXT, jobs, n, dedup_of);
    put_texts(&a, HW_OID_TEXT, jobs, n, correlation_of);
    put_causations(&a, jobs, n);
    assert(a.n == 12); /* the parameters of push_arrays() after the queue */
    s = hw_buf_check(a.out, reterr);
    if (s < 0)
        return s;
    hw_pg_param_str(&call, queue);
    hw_pg_param_arrays(&call, &a);
    s = hw_pg_exec(pg, &call, &result, reterr);
    assert(s < 0 || (size_t)PQntuples(result) == n);
    for (int i = 0; s >= 0 && i < PQntuples(result); i++)
        ret_pushed[i] = (howdah_pushed){.id = hw_pg_get_int8(result, i, 0),
                                        .existed = hw_pg_get_bool(result, i, 1)};
    PQclear(result);
    return s;
}
