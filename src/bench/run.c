/* run.c - see run.h. */
#include "bench/run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/clients.h"
#include "bench/deliver.h"
#include "bench/queue.h"
#include "cli/in/signals.h"
#include "cli/out/progress.h"

#define SLICES_MIN 10 /* of each side */
#define SLICE_MS_MAX 250
/* A side that was quiet sleeps; waking up must not be most of what is measured. */
#define LATENCY_SLICES_MIN 4
#define LATENCY_SLICE_MS_MAX 2500
/*
 * A whole read may take longer than the seconds that were asked for; three of them show the
 * spread.
 */
#define WHOLE_SLICES_MIN 3
/* The end of a pinned run, when what cannot be cleaned up has piled up. */
#define PINNED_LAST_US INT64_C(10000000)

/*
 * By the time of the slices only, not by the clock on the wall: pauses between them do not count.
 */
double bench_rate(const bench_tally *tally)
{
    return tally->us > 0 ? (double)tally->events * 1e6 / (double)tally->us : 0;
}

bool bench_is_by_piece(const bench_plan *plan)
{
    return bench_is_whole(plan) || plan->kind == BENCH_QUEUE || plan->kind == BENCH_GROUP_READ;
}

bool bench_is_whole(const bench_plan *plan)
{
    return plan->kind == BENCH_READ || plan->kind == BENCH_DELIVER;
}

/* One bench on its way. */
typedef struct run {
    bench_clients *clients;
    const bench_site *site;
    const bench_plan *plan;
    bench_result *result;
    int64_t slice_ms;
    int64_t memory_base; /* -1: not measured */
    double *ratios;      /* of each pair of slices */
    size_t ratios_n;
    size_t ratios_room;
} run;

/* What two slices are compared by. */
static double figure_of(const run *r, const bench_tally *slice)
{
    return r->plan->kind == BENCH_LATENCY ? bench_histogram_ms(&slice->latency, 0.5)
                                          : bench_rate(slice);
}

/* The sums are kept only of slices that went well. */
static int run_slice(run *r, int side, bench_tally *tally, double *ret_figure, howdah_error *reterr)
{
    bench_tally slice;
    int s = bench_clients_slice(r->clients, side, r->slice_ms, &slice, reterr);

    if (s < 0)
        return s;
    tally->events += slice.events;
    tally->us += slice.us;
    tally->cpu_us += slice.cpu_us;
    tally->pushed += slice.pushed;
    tally->push_us += slice.push_us;
    bench_histogram_merge(&tally->latency, &slice.latency);
    *ret_figure = figure_of(r, &slice);
    return HOWDAH_OK;
}

/* What other sessions write meanwhile counts as ours: a bench wants a quiet server. */
static int run_with_wal(run *r, bench_tally *tally, double *ret_figure, howdah_error *reterr)
{
    int64_t before = 0;
    int64_t after = 0;
    int s = r->site->backend->wal_bytes(r->site, &before, reterr);

    if (s >= 0)
        s = run_slice(r, BENCH_OURS, tally, ret_figure, reterr);
    if (s >= 0)
        s = r->site->backend->wal_bytes(r->site, &after, reterr);
    r->result->wal_bytes += after - before;
    return s;
}

/* Where memory is measured, the peak of our slices alone: the ceiling's buffers are not ours. */
static int run_ours(run *r, bench_tally *tally, double *ret_figure, howdah_error *reterr)
{
    int64_t peak;
    int s;

    if (r->plan->kind == BENCH_GROUP_READ && r->site->backend->wal_bytes)
        return run_with_wal(r, tally, ret_figure, reterr);
    if (r->memory_base < 0)
        return run_slice(r, BENCH_OURS, tally, ret_figure, reterr);
    bench_memory_reset_peak();
    s = run_slice(r, BENCH_OURS, tally, ret_figure, reterr);
    peak = bench_memory_peak();
    if (peak >= 0 && peak - r->memory_base > r->result->memory_bytes)
        r->result->memory_bytes = peak - r->memory_base;
    return s;
}

/* One slice of each side; which one starts changes from pair to pair. */
static int run_pair(run *r, bool ceiling_first, bench_tally *ours, bench_tally *ceiling,
                    double *ret_ratio, howdah_error *reterr)
{
    double ours_figure = 0;
    double ceiling_figure = 0;
    int s = HOWDAH_OK;

    if (r->plan->ceiling && ceiling_first)
        s = run_slice(r, BENCH_CEILING, ceiling, &ceiling_figure, reterr);
    if (s >= 0)
        s = run_ours(r, ours, &ours_figure, reterr);
    if (s >= 0 && r->plan->ceiling && !ceiling_first)
        s = run_slice(r, BENCH_CEILING, ceiling, &ceiling_figure, reterr);
    *ret_ratio = ceiling_figure > 0 ? ours_figure / ceiling_figure : 0;
    return s;
}

/* Pieces are not cut short, so there it is the time that both sides have worked. */
static bool is_over(const run *r)
{
    const bench_result *result = r->result;
    int64_t wanted_us = r->plan->ms * 1000;

    if (!bench_is_by_piece(r->plan))
        return result->slices * r->slice_ms >= r->plan->ms;
    return result->slices >= WHOLE_SLICES_MIN && result->ours.us >= wanted_us &&
           (!r->plan->ceiling || result->ceiling.us >= wanted_us);
}

/* How many pairs there will be is not known before: slices may be pieces of any length. */
static int keep_ratio(run *r, double ratio, howdah_error *reterr)
{
    if (r->ratios_n == r->ratios_room) {
        size_t room = r->ratios_room ? 2 * r->ratios_room : 64;
        double *ratios = hw_realloc(r->ratios, room * sizeof *ratios);

        if (!ratios)
            return hw_fail_no_memory(reterr);
        r->ratios = ratios;
        r->ratios_room = room;
    }
    assert(r->ratios_n < r->ratios_room);
    r->ratios[r->ratios_n++] = ratio;
    return HOWDAH_OK;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median is what is compared from day to day; a single disturbed slice does not move it. */
static void sum_up_ratios(run *r)
{
    if (r->ratios_n == 0)
        return; /* the first pair failed already */
    qsort(r->ratios, r->ratios_n, sizeof *r->ratios, compare_doubles);
    r->result->ratio_min = r->ratios[0];
    r->result->ratio_median = r->ratios[r->ratios_n / 2];
    r->result->ratio_max = r->ratios[r->ratios_n - 1];
}

/* The first pair is thrown away: it warms caches, plans and connections of both sides. */
static int run_slices(run *r, cli_progress *progress, howdah_error *reterr)
{
    bench_result *result = r->result;
    bench_tally unused;
    double ratio = 0;
    int s;

    memset(&unused, 0, sizeof unused);
    s = run_pair(r, true, &unused, &unused, &ratio, reterr);
    result->wal_bytes = 0;
    while (s >= 0 && !is_over(r)) {
        s = run_pair(r, result->slices % 2 != 0, &result->ours, &result->ceiling, &ratio, reterr);
        if (s >= 0)
            s = keep_ratio(r, ratio, reterr);
        result->slices++;
        cli_progress_update(progress, result->slices,
                            bench_is_by_piece(r->plan) ? 0 : r->plan->ms / r->slice_ms);
    }
    sum_up_ratios(r);
    return s;
}

/*
 * Our side alone, for so long; the rate is that of the last seconds, when dead rows have piled
 * up.
 */
static int run_for(run *r, int64_t us, cli_progress *progress, double *ret_rate,
                   howdah_error *reterr)
{
    int64_t until_us = hw_clock_mono_us() + us;
    int64_t last_us = us / 2 < PINNED_LAST_US ? us / 2 : PINNED_LAST_US;
    bench_tally last = {.events = 0};
    int s = HOWDAH_OK;

    while (s >= 0 && hw_clock_mono_us() < until_us) {
        bench_tally *tally = until_us - hw_clock_mono_us() < last_us ? &last : NULL;
        bench_tally unused = {.events = 0};
        double figure;

        s = run_slice(r, BENCH_OURS, tally ? tally : &unused, &figure, reterr);
        r->result->slices++;
        cli_progress_update(progress, r->result->slices, 0);
    }
    *ret_rate = bench_rate(&last);
    return s;
}

/* The clean rate comes first: after the pin the tables are bloated. */
static int run_pinned(run *r, const bench_site *site, cli_progress *progress, howdah_error *reterr)
{
    int64_t us = r->plan->ms * 1000;
    int64_t clean_us = us < 2 * PINNED_LAST_US ? us : 2 * PINNED_LAST_US; /* enough for a rate */
    void *pin = NULL;
    int s = run_for(r, clean_us, progress, &r->result->clean_rate, reterr);

    assert(site->backend->pin && site->backend->unpin); /* site_open() refused others */

    if (s >= 0)
        s = site->backend->pin(site, &pin, reterr);
    if (s >= 0) {
        s = run_for(r, us, progress, &r->result->pinned_rate, reterr);
        site->backend->unpin(pin);
    }
    return s;
}

/* Short slices, so that a disturbance meets both sides; but enough of them in a short bench. */
static int64_t slice_ms_of(const bench_plan *plan)
{
    bool latency = plan->kind == BENCH_LATENCY;
    int64_t ms = plan->ms / (latency ? LATENCY_SLICES_MIN : SLICES_MIN);
    int64_t ms_max = latency ? LATENCY_SLICE_MS_MAX : SLICE_MS_MAX;

    assert(ms > 0);
    return ms < ms_max ? ms : ms_max;
}

/*
 * What is measured apart, waits and filters, comes last, when the clients of the slices are gone.
 */
int bench_run(cli_context *cli, const bench_site *site, bench_result *ret_result,
              howdah_error *reterr)
{
    run r = {.site = site, .plan = site->plan, .result = ret_result, .memory_base = -1};
    cli_progress progress;
    int s;

    memset(ret_result, 0, sizeof *ret_result);
    r.slice_ms = slice_ms_of(site->plan);
    if (bench_is_whole(site->plan))
        r.memory_base = bench_memory_now();
    if (r.memory_base < 0)
        ret_result->memory_bytes = -1;
    s = bench_clients_open(site, &r.clients, reterr);
    cli_progress_start(&progress, cli, "slices");
    if (s >= 0)
        s = site->plan->pin ? run_pinned(&r, site, &progress, reterr)
                            : run_slices(&r, &progress, reterr);
    cli_progress_clear(&progress);
    if (s >= 0) {
        ret_result->slowest_us = bench_clients_slowest_us(r.clients);
        ret_result->rss_bytes = bench_memory_peak();
    }
    bench_clients_close(r.clients);
    hw_free(r.ratios);
    if (s >= 0 && site->plan->kind == BENCH_QUEUE && !site->plan->pin)
        s = bench_queue_latency(site, &ret_result->waited, reterr);
    if (s >= 0 && site->plan->pattern_share > 0)
        s = bench_deliver_filtered(cli, site, &ret_result->exact_us, &ret_result->wildcard_us,
                                   reterr);
    return s;
}
