/*
 * group_reserve.c - a group that one process has reserved, on PostgreSQL; see group_reserve.sql.
 *
 *   I1  A range is numbers, not places of rows, so it may be read by any session, also behind a
 *       pooler, and by a statement of its own: its numbers were decided before it was taken.  That
 *       statement also asks whether the server knows the range: it may be another one by now.
 */
#include <assert.h>
#include <string.h>

#include "engine/pattern.h"
#include "store/pg/pg.h"

static int reserve(hw_store *store, const hw_group_take *as, int64_t token, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_RESERVE, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    hw_pg_param_str(&call, as->subscriber_id);
    hw_pg_param_str(&call, as->member);
    hw_pg_param_int8(&call, as->process);
    hw_pg_param_int8(&call, token);
    hw_pg_param_int8(&call, as->lease_ms);
    if (s >= 0)
        s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        s = hw_pg_get_bool(result, 0, 0) ? HOWDAH_OK : HOWDAH_END;
    PQclear(result);
    return s;
}

static int fail_lost(const hw_reservation *reservation, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_LOST,
                   "subscription %.*s: the reservation is lost, others have its events",
                   (int)reservation->subscriber_id.len, reservation->subscriber_id.s);
}

static void call_of(hw_pg_call *call, const hw_reservation *reservation)
{
    hw_pg_param_str(call, reservation->subscriber_id);
    hw_pg_param_int8(call, reservation->token);
}

/* The numbers from lo to hi without the gaps.  False: there are too many. */
static bool cut(const PGresult *result, hw_group_range *range)
{
    const char *gaps = NULL;
    size_t gaps_n = 0;
    int64_t at = hw_pg_get_int8(result, 0, 2);

    range->parts_n = 0;
    if (!hw_pg_get_int8s(result, 0, 4, &gaps, &gaps_n) || gaps_n / 2 >= HW_RANGE_PARTS)
        return false;
    for (size_t i = 0; i + 1 < gaps_n; i += 2) {
        int64_t first = hw_pg_int8_at(gaps, i);

        if (first > at)
            range->parts[range->parts_n++] = (hw_range){at, first - 1};
        at = hw_pg_int8_at(gaps, i + 1) + 1;
    }
    range->parts[range->parts_n++] = (hw_range){at, hw_pg_get_int8(result, 0, 3)};
    return true;
}

static int take(hw_store *store, const hw_reservation *reservation, int64_t acked, int64_t numbers,
                hw_group_range *ret_range, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_TAKE_RANGE, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    assert(numbers > 0 && numbers <= INT32_MAX);
    call_of(&call, reservation);
    hw_pg_param_int8(&call, reservation->fresh);
    hw_pg_param_int8(&call, acked);
    hw_pg_param_int4(&call, (int32_t)numbers);
    hw_pg_param_int8(&call, reservation->lease_ms);
    if (s >= 0)
        s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0) {
        hw_str state = hw_pg_get_str(result, 0, 0);

        if (hw_str_equal(state, HW_STR_LIT("lost")))
            s = fail_lost(reservation, reterr);
        ret_range->state = hw_str_equal(state, HW_STR_LIT("range"))  ? HW_RANGE_TAKEN
                           : hw_str_equal(state, HW_STR_LIT("none")) ? HW_RANGE_NONE
                           : hw_str_equal(state, HW_STR_LIT("wait")) ? HW_RANGE_WAIT
                                                                     : HW_RANGE_OVER;
        ret_range->lot = hw_pg_get_int8_or(result, 0, 1, 0);
        ret_range->token = reservation->fresh;
        if (ret_range->state == HW_RANGE_TAKEN && !cut(result, ret_range))
            ret_range->state = HW_RANGE_OVER; /* it is given back with the rest */
    }
    PQclear(result);
    return s;
}

/* Events that have appeared in a gap since come later: they leave the list. */
static void leave_out_gaps(const hw_group_range *range, hw_group_batch *batch)
{
    howdah_event *events = (howdah_event *)(uintptr_t)batch->events; /* nobody has seen them yet */
    size_t kept = 0;
    size_t part = 0;

    for (size_t i = 0; i < batch->n; i++) {
        int64_t sequence = events[i].global_sequence;

        while (part < range->parts_n && range->parts[part].last < sequence)
            part++;
        if (part < range->parts_n && range->parts[part].first <= sequence)
            events[kept++] = events[i];
    }
    batch->n = kept;
}

/* Of more numbers, not all have events that match; a page has at most four times as many. */
#define ROWS_LIKELY 2000

static int read_range(hw_store *store, const hw_reservation *reservation,
                      const hw_group_range *range, const hw_filter *filter,
                      hw_group_batch *ret_batch, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_str type = HW_STR_NULL;
    hw_str pattern = filter->pattern;
    hw_pg_call call = {.statement = HW_PG_GROUP_RANGE};
    int64_t first = range->parts[0].first;
    int64_t last = range->parts[range->parts_n - 1].last;
    PGresult *rows = NULL;
    int s = hw_pg_ready(pg, reterr);

    hw_pattern_to_type(&type, &pattern);
    hw_pg_param_int8(&call, first);
    hw_pg_param_int8(&call, last);
    hw_pg_param_int4(&call,
                     hw_pg_batch_cap(last - first < ROWS_LIKELY ? last - first + 1 : ROWS_LIKELY));
    hw_pg_param_str(&call, reservation->subscriber_id);
    hw_pg_param_int8(&call, range->lot);
    hw_pg_param_int8(&call, range->token);
    if (type.s || pattern.s) {
        call.statement = type.s ? HW_PG_GROUP_RANGE_TYPE : HW_PG_GROUP_RANGE_PATTERN;
        hw_pg_param_str(&call, type.s ? type : pattern);
    }
    if (s >= 0)
        s = hw_pg_exec(pg, &call, &rows, reterr);
    if (s >= 0)
        s = hw_pg_batch_of(rows, ret_batch, reterr);
    if (s == HOWDAH_OK && range->parts_n > 1)
        leave_out_gaps(range, ret_batch);
    return s;
}

static int extend(hw_store *store, const hw_reservation *reservation, bool *ret_over,
                  howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_RESERVE_EXTEND, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    call_of(&call, reservation);
    hw_pg_param_int8(&call, reservation->lease_ms);
    if (s >= 0)
        s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_over = hw_str_equal(hw_pg_get_str(result, 0, 0), HW_STR_LIT("end"));
    if (s >= 0 && hw_str_equal(hw_pg_get_str(result, 0, 0), HW_STR_LIT("lost")))
        s = fail_lost(reservation, reterr);
    PQclear(result);
    return s;
}

static void put_numbers(hw_pg_arrays *arrays, const int64_t *numbers, size_t n)
{
    hw_pg_array array;

    hw_pg_arrays_begin(arrays, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(arrays->out, numbers[i]);
}

/* A row for each event that is busy. */
static int read_end(const PGresult *result, const hw_reservation *reservation,
                    void (*fn)(void *ctx, int64_t sequence, const char *token), void *ctx,
                    howdah_error *reterr)
{
    for (int i = 0; i < PQntuples(result); i++) {
        int64_t sequence = hw_pg_get_int8_or(result, i, 0, 0);

        if (sequence == 0)
            return fail_lost(reservation, reterr);
        fn(ctx, sequence, PQgetvalue(result, i, 1));
    }
    return HOWDAH_OK;
}

static int end_ranges(hw_store *store, const hw_reservation *reservation, const hw_group_end *end,
                      void (*fn)(void *ctx, int64_t sequence, const char *token), void *ctx,
                      howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_END_RANGES, .writes = true};
    hw_pg_arrays arrays = {.out = &pg->params};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    hw_buf_clear(&pg->params);
    put_numbers(&arrays, end->done, end->done_n);
    put_numbers(&arrays, end->busy, end->busy_n);
    if (s >= 0)
        s = hw_buf_check(&pg->params, reterr);
    if (s < 0)
        return s;
    call_of(&call, reservation);
    hw_pg_param_int8(&call, reservation->fresh);
    hw_pg_param_int8(&call, reservation->process);
    hw_pg_param_int8(&call, end->acked);
    hw_pg_param_int8(&call, end->upto);
    hw_pg_param_arrays(&call, &arrays);
    hw_pg_param_int8(&call, reservation->lease_ms);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        s = read_end(result, reservation, fn, ctx, reterr);
    PQclear(result);
    return s;
}

const hw_reserve_ops hw_pg_reserve_ops = {
    .reserve = reserve, .take = take, .read = read_range, .extend = extend, .end = end_ranges};
