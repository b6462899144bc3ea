/* report.c - see report.h. */
#include "bench/report.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "bench/asof.h"
#include "bench/group.h"
#include "bench/http.h"
#include "cli/out/table.h"

#define MIB (1024.0 * 1024.0)

/* Per event and not per second: a side that is slower must not look frugal. */
static double cpu_s_per_100k(const bench_tally *tally)
{
    return tally->events > 0 ? (double)tally->cpu_us / 1e6 * 1e5 / (double)tally->events : 0;
}

/* Of the sums; the ratios of single pairs of slices show the spread. */
static double ratio_of(const bench_result *result)
{
    double ceiling = bench_rate(&result->ceiling);

    return ceiling > 0 ? bench_rate(&result->ours) / ceiling : 0;
}

static double p(const bench_tally *tally, double part)
{
    return bench_histogram_ms(&tally->latency, part);
}

/* How many times as long as the ceiling's. */
static double p_ratio(const bench_result *r, double part)
{
    return p(&r->ceiling, part) > 0 ? p(&r->ours, part) / p(&r->ceiling, part) : 0;
}

/* deliver: of one whole delivery, and how many times as fast a filtered one is. */
static double all_us(const bench_result *r)
{
    return r->slices > 0 ? (double)r->ours.us / (double)r->slices : 0;
}

static double speedup(const bench_result *r, int64_t us)
{
    return us > 0 ? all_us(r) / (double)us : 0;
}

/* ---- JSON */

/* Only what the kind of bench uses: a reader need not know which figures were ignored. */
static void json_plan(cli_out *out, const bench_plan *plan)
{
    assert(plan->kind != BENCH_CONTEND && plan->kind != BENCH_LISTEN); /* they report themselves */
    if (plan->http)
        cli_out_printf(out, ",\"of\":\"%s\"", bench_over_names[plan->over]);
    if (plan->kind == BENCH_ASOF)
        cli_out_printf(out, ",\"of\":\"%s\"", bench_asof_names[plan->of]);
    if (bench_is_whole(plan) || plan->kind == BENCH_ASOF)
        cli_out_printf(out, ",\"events\":%lld", (long long)plan->events);
    else if (plan->http && plan->kind == BENCH_GROUP_READ)
        cli_out_printf(out, ",\"events\":%lld,\"batch\":%lld", (long long)plan->events,
                       (long long)plan->batch);
    else if (plan->kind == BENCH_GROUP_READ)
        cli_out_printf(out, ",\"through\":\"%s\",\"against\":\"%s\",\"events\":%lld,\"batch\":%lld",
                       bench_through_names[plan->through], bench_against_names[plan->against],
                       (long long)plan->events, (long long)plan->batch);
    else if (plan->kind == BENCH_LATENCY)
        cli_out_printf(out, ",\"rate\":%lld", (long long)plan->rate);
    else if (plan->kind == BENCH_QUEUE)
        cli_out_printf(out, ",\"jobs\":%lld,\"batch\":%lld", (long long)plan->jobs,
                       (long long)plan->batch);
    else
        cli_out_printf(out, ",\"streams\":%lld,\"batch\":%lld", (long long)plan->streams,
                       (long long)plan->batch);
    if (plan->combine > 0)
        cli_out_printf(out, ",\"combine\":%lld", (long long)plan->combine);
    if (plan->kind == BENCH_QUEUE && plan->keys > 0)
        cli_out_printf(out, ",\"keys\":%lld", (long long)plan->keys);
    if (plan->kind == BENCH_FANOUT)
        cli_out_printf(out, ",\"subscriptions\":%lld", (long long)plan->subscriptions);
    if (plan->members > 0)
        cli_out_printf(out, ",\"members\":%lld", (long long)plan->members);
}

/* latency compares times, where less is better; all others compare rates. */
static void json_ratio(cli_out *out, const bench_plan *plan, const bench_result *r)
{
    const char *of = plan->kind == BENCH_LATENCY ? "p50_" : "";

    if (!plan->ceiling)
        return;
    cli_out_printf(out, ",\"ceiling_per_s\":%.1f", bench_rate(&r->ceiling));
    if (plan->kind == BENCH_LATENCY)
        cli_out_printf(out, ",\"p50_ratio\":%.3f,\"p99_ratio\":%.3f", p_ratio(r, 0.5),
                       p_ratio(r, 0.99));
    else
        cli_out_printf(out, ",\"ratio\":%.3f", ratio_of(r));
    cli_out_printf(out,
                   ",\"%sratio_min\":%.3f,\"%sratio_median\":%.3f,"
                   "\"%sratio_max\":%.3f",
                   of, r->ratio_min, of, r->ratio_median, of, r->ratio_max);
}

/* A piece of work that goes through the whole log says nothing that the rate does not. */
static void json_latency(cli_out *out, const bench_plan *plan, const bench_result *r)
{
    if (bench_is_by_piece(plan))
        return;
    cli_out_printf(out, ",\"p50_ms\":%.3f,\"p99_ms\":%.3f", p(&r->ours, 0.5), p(&r->ours, 0.99));
    if (plan->ceiling)
        cli_out_printf(out, ",\"ceiling_p50_ms\":%.3f,\"ceiling_p99_ms\":%.3f", p(&r->ceiling, 0.5),
                       p(&r->ceiling, 0.99));
}

/* -1 means that the system does not tell: the member is left out then. */
static void json_memory(cli_out *out, const bench_plan *plan, const bench_result *r)
{
    if (bench_is_whole(plan) && r->memory_bytes >= 0)
        cli_out_printf(out, ",\"client_memory_mib\":%.1f", (double)r->memory_bytes / MIB);
    if (plan->kind == BENCH_FANOUT)
        cli_out_printf(out, ",\"slowest_ms\":%.1f", (double)r->slowest_us / 1e3);
    if (plan->kind == BENCH_FANOUT && r->rss_bytes >= 0)
        cli_out_printf(out, ",\"rss_mib\":%.1f", (double)r->rss_bytes / MIB);
}

/* 0 where nothing was pushed. */
static double push_rate(const bench_tally *tally)
{
    return tally->push_us > 0 ? (double)tally->pushed * 1e6 / (double)tally->push_us : 0;
}

/* Pushing is timed apart from draining: see queue.h. */
static void json_queue(cli_out *out, const bench_plan *plan, const bench_result *r)
{
    if (plan->kind != BENCH_QUEUE)
        return;
    cli_out_printf(out, ",\"push_per_s\":%.1f", push_rate(&r->ours));
    if (plan->ceiling)
        cli_out_printf(out, ",\"ceiling_push_per_s\":%.1f", push_rate(&r->ceiling));
    cli_out_printf(out, ",\"push_to_handler_p50_ms\":%.3f,\"push_to_handler_p99_ms\":%.3f",
                   bench_histogram_ms(&r->waited, 0.5), bench_histogram_ms(&r->waited, 0.99));
}

static double wal_per_event(const bench_result *r)
{
    return r->ours.events > 0 ? (double)r->wal_bytes / (double)r->ours.events : 0;
}

/* Only one side, and only two rates. */
static void json_pinned(cli_out *out, const bench_plan *plan, const bench_result *r)
{
    bool group = plan->kind == BENCH_GROUP_READ;

    cli_out_printf(out,
                   "{\"bench\":\"%s\",\"pinned\":true,\"%s\":%lld,\"payload\":%lld,"
                   "\"%s\":%lld,\"batch\":%lld,\"seconds\":%g,\"clean_per_s\":%.1f,"
                   "\"pinned_per_s\":%.1f,\"ratio\":%.3f}\n",
                   plan->name, group ? "members" : "workers", (long long)plan->clients,
                   (long long)plan->payload, group ? "events" : "jobs",
                   (long long)(group ? plan->events : plan->jobs), (long long)plan->batch,
                   (double)plan->ms / 1000, r->clean_rate, r->pinned_rate,
                   r->clean_rate > 0 ? r->pinned_rate / r->clean_rate : 0);
}

/* How much faster a subscription to a rare type is than one to everything. */
static void json_filtered(cli_out *out, const bench_plan *plan, const bench_result *r)
{
    if (plan->holes > 0)
        cli_out_printf(out, ",\"holes\":%lld", (long long)plan->holes);
    if (plan->pattern_share == 0)
        return;
    cli_out_printf(out,
                   ",\"pattern_share\":%lld,\"all_ms\":%.1f,\"exact_ms\":%.1f,"
                   "\"wildcard_ms\":%.1f,\"exact_speedup\":%.1f,\"wildcard_speedup\":%.1f",
                   (long long)plan->pattern_share, all_us(r) / 1e3, (double)r->exact_us / 1e3,
                   (double)r->wildcard_us / 1e3, speedup(r, r->exact_us),
                   speedup(r, r->wildcard_us));
}

/* One line: scripts collect these. */
static void report_json(cli_out *out, const bench_site *site, const bench_result *r)
{
    const bench_plan *plan = site->plan;

    if (plan->pin) {
        json_pinned(out, plan, r);
        return;
    }
    cli_out_printf(out, "{\"bench\":\"%s\",\"store\":\"%s\",\"clients\":%lld,\"payload\":%lld",
                   plan->name, site->backend->name, (long long)plan->clients,
                   (long long)plan->payload);
    json_plan(out, plan);
    cli_out_printf(out, ",\"slices\":%lld,\"events_per_s\":%.1f", (long long)r->slices,
                   bench_rate(&r->ours));
    json_ratio(out, plan, r);
    json_latency(out, plan, r);
    cli_out_printf(out, ",\"cpu_s_per_100k\":%.3f", cpu_s_per_100k(&r->ours));
    if (plan->ceiling)
        cli_out_printf(out, ",\"ceiling_cpu_s_per_100k\":%.3f", cpu_s_per_100k(&r->ceiling));
    json_memory(out, plan, r);
    json_queue(out, plan, r);
    json_filtered(out, plan, r);
    if (r->wal_bytes > 0)
        cli_out_printf(out, ",\"wal_bytes_per_event\":%.1f", wal_per_event(r));
    cli_out_puts(out, "}\n");
}

/* ---- a terminal */

#define CELL_SIZE 32
/*
 * Side, rate, processor time, two percentiles, and an empty one that takes the rest of the line.
 */
#define COLUMNS 6

static void put_row(cli_table *table, const char *side, const bench_tally *tally)
{
    char cell[4][CELL_SIZE];
    hw_str row[COLUMNS] = {hw_str_of(side)};

    cli_count_text((long long)(bench_rate(tally) + 0.5), cell[0]);
    (void)snprintf(cell[1], CELL_SIZE, "%.2f", cpu_s_per_100k(tally));
    (void)snprintf(cell[2], CELL_SIZE, "%.3f", p(tally, 0.5));
    (void)snprintf(cell[3], CELL_SIZE, "%.3f", p(tally, 0.99));
    assert(table->columns_n >= 2 && table->columns_n <= COLUMNS);
    for (size_t i = 0; i < 4; i++)
        row[i + 1] = hw_str_of(cell[i]);
    /* The last column of a table takes all the width that is left: so there is an empty one. */
    row[table->columns_n - 1] = HW_STR_LIT("");
    cli_table_row(table, row);
}

/* Two rows, ours and the ceiling's, in the same columns. */
static void put_table(cli_out *out, const bench_plan *plan, const bench_result *r)
{
    static const cli_column figures[COLUMNS - 1] = {
        {"side", CLI_PLAIN, false, true, 8},         {"events/s", CLI_GREEN, true, true, 10},
        {"CPU s/100,000", CLI_PLAIN, true, true, 0}, {"p50 ms", CLI_PLAIN, true, true, 8},
        {"p99 ms", CLI_PLAIN, true, true, 8},
    };
    cli_column columns[COLUMNS];
    /* How long a whole read took is in its rate. */
    size_t n = bench_is_by_piece(plan) ? 3 : 5;
    cli_table table;

    memcpy(columns, figures, n * sizeof *columns);
    columns[n] = (cli_column){"", CLI_PLAIN, false, true, 0};
    cli_table_init(&table, out, columns, n + 1, 2);
    put_row(&table, "howdah", &r->ours);
    if (plan->ceiling)
        put_row(&table, "ceiling", &r->ceiling);
    cli_table_flush(&table);
    cli_table_done(&table);
}

/* The same facts as json_plan(), as a sentence. */
static void text_plan(cli_out *out, const bench_plan *plan)
{
    char count[CLI_COUNT_SIZE];

    cli_out_printf(out, ": %lld client%s, payloads of %lld bytes", (long long)plan->clients,
                   plan->clients == 1 ? "" : "s", (long long)plan->payload);
    cli_count_text(bench_is_whole(plan) || plan->kind == BENCH_ASOF ? plan->events : plan->batch,
                   count);
    if (plan->kind == BENCH_APPEND_BATCH)
        cli_out_printf(out, ", batches of %s events", count);
    else if (bench_is_whole(plan))
        cli_out_printf(out, ", a log of %s events", count);
    else if (plan->kind == BENCH_GROUP_READ)
        cli_out_printf(out, ", through %s, %lld events, batches of %s",
                       plan->http ? "a gateway" : bench_through_names[plan->through],
                       (long long)plan->events, count);
    else if (plan->kind == BENCH_QUEUE)
        cli_out_printf(out, ", %lld jobs at a time, batches of %s", (long long)plan->jobs, count);
    else if (plan->kind == BENCH_LATENCY)
        cli_out_printf(out, ", %lld a second", (long long)plan->rate);
    else if (plan->kind == BENCH_ASOF)
        cli_out_printf(out, ", of one %s, a log of %s events", bench_asof_names[plan->of], count);
    else if (plan->kind == BENCH_FANOUT)
        cli_out_printf(out, ", %lld subscription%s", (long long)plan->subscriptions,
                       plan->subscriptions == 1 ? "" : "s");
    cli_out_puts(out, "\n");
}

static void text_ratio(cli_out *out, const bench_plan *plan, const bench_result *r)
{
    if (!plan->ceiling)
        return;
    if (plan->kind == BENCH_LATENCY)
        cli_out_printf(out, "ratio of p50 %.3f, of p99 %.3f; p50", p_ratio(r, 0.5),
                       p_ratio(r, 0.99));
    else
        cli_out_printf(out, "ratio %.3f;", ratio_of(r));
    cli_out_printf(out, " of %lld pairs of slices: %.3f to %.3f, median %.3f\n",
                   (long long)r->slices, r->ratio_min, r->ratio_max, r->ratio_median);
}

/* Figures that do not exist for this kind are left out, not shown as 0. */
static void report_text(cli_out *out, const bench_site *site, const bench_result *r)
{
    const bench_plan *plan = site->plan;

    cli_out_style(out, CLI_BOLD);
    cli_out_printf(out, "%s%s%s on %s", plan->name, plan->http ? " " : "",
                   plan->http ? bench_over_names[plan->over] : "", site->backend->name);
    cli_out_style(out, CLI_PLAIN);
    text_plan(out, plan);
    if (plan->pin) {
        cli_out_printf(out, "%.0f/s, and %.0f after %g s with an old snapshot held open: %.2f\n",
                       r->clean_rate, r->pinned_rate, (double)plan->ms / 1000,
                       r->clean_rate > 0 ? r->pinned_rate / r->clean_rate : 0);
        return;
    }
    put_table(out, plan, r);
    text_ratio(out, plan, r);
    if (bench_is_whole(plan) && r->memory_bytes >= 0)
        cli_out_printf(out, "client memory %.1f MiB\n", (double)r->memory_bytes / MIB);
    if (plan->kind == BENCH_FANOUT)
        cli_out_printf(out, "all delivered within %.1f ms of a slice's last append\n",
                       (double)r->slowest_us / 1e3);
    if (plan->kind == BENCH_FANOUT && r->rss_bytes >= 0)
        cli_out_printf(out, "memory of the process %.1f MiB\n", (double)r->rss_bytes / MIB);
    if (plan->kind == BENCH_QUEUE) {
        cli_out_printf(out, "pushed %.0f/s", push_rate(&r->ours));
        if (plan->ceiling)
            cli_out_printf(out, " (ceiling %.0f/s)", push_rate(&r->ceiling));
        cli_out_printf(out, "; from a push to a worker that waits: p50 %.3f ms, p99 %.3f ms\n",
                       bench_histogram_ms(&r->waited, 0.5), bench_histogram_ms(&r->waited, 0.99));
    }
    if (r->wal_bytes > 0)
        cli_out_printf(out, "%.1f bytes of WAL an event\n", wal_per_event(r));
    if (plan->holes > 0)
        cli_out_printf(out, "%lld numbers burnt between them, under an open appender\n",
                       (long long)plan->holes);
    if (plan->pattern_share > 0)
        cli_out_printf(out,
                       "one in %lld: by type %.1f ms, by pattern %.1f ms, all %.1f ms: %.1f and"
                       " %.1f times as fast\n",
                       (long long)plan->pattern_share, (double)r->exact_us / 1e3,
                       (double)r->wildcard_us / 1e3, all_us(r) / 1e3, speedup(r, r->exact_us),
                       speedup(r, r->wildcard_us));
}

void bench_report(cli_context *cli, const bench_site *site, const bench_result *result)
{
    if (cli->out.json)
        report_json(&cli->out, site, result);
    else
        report_text(&cli->out, site, result);
}
