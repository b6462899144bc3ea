/* bench_report.c - see bench_report.h. */
#include "cli/bench_report.h"

#include <stdio.h>
#include <string.h>

#include "cli/table.h"

#define MIB (1024.0 * 1024.0)

static double cpu_s_per_100k(const bench_tally *tally)
{
    return tally->events > 0 ? (double)tally->cpu_us / 1e6 * 1e5 / (double)tally->events : 0;
}

static double ratio_of(const bench_result *result)
{
    double ceiling = bench_rate(&result->ceiling);

    return ceiling > 0 ? bench_rate(&result->ours) / ceiling : 0;
}

/* ---- JSON */

static void report_json(cli_out *out, const bench_site *site, const bench_result *r)
{
    const bench_plan *plan = site->plan;
    bool read = plan->kind == BENCH_READ;

    cli_out_printf(out, "{\"bench\":\"%s\",\"store\":\"%s\",\"clients\":%lld,\"payload\":%lld",
                   plan->name, site->backend->name, (long long)plan->clients,
                   (long long)plan->payload);
    if (read)
        cli_out_printf(out, ",\"events\":%lld", (long long)plan->events);
    else
        cli_out_printf(out, ",\"streams\":%lld,\"batch\":%lld", (long long)plan->streams,
                       (long long)plan->batch);
    cli_out_printf(out, ",\"slices\":%lld,\"events_per_s\":%.1f", (long long)r->slices,
                   bench_rate(&r->ours));
    if (plan->ceiling)
        cli_out_printf(out,
                       ",\"ceiling_per_s\":%.1f,\"ratio\":%.3f,\"ratio_min\":%.3f,"
                       "\"ratio_median\":%.3f,\"ratio_max\":%.3f",
                       bench_rate(&r->ceiling), ratio_of(r), r->ratio_min, r->ratio_median,
                       r->ratio_max);
    if (!read)
        cli_out_printf(out, ",\"p50_ms\":%.3f,\"p99_ms\":%.3f",
                       bench_histogram_ms(&r->ours.latency, 0.5),
                       bench_histogram_ms(&r->ours.latency, 0.99));
    if (!read && plan->ceiling)
        cli_out_printf(out, ",\"ceiling_p50_ms\":%.3f,\"ceiling_p99_ms\":%.3f",
                       bench_histogram_ms(&r->ceiling.latency, 0.5),
                       bench_histogram_ms(&r->ceiling.latency, 0.99));
    cli_out_printf(out, ",\"cpu_s_per_100k\":%.3f", cpu_s_per_100k(&r->ours));
    if (plan->ceiling)
        cli_out_printf(out, ",\"ceiling_cpu_s_per_100k\":%.3f", cpu_s_per_100k(&r->ceiling));
    if (read && r->memory_bytes >= 0)
        cli_out_printf(out, ",\"client_memory_mib\":%.1f", (double)r->memory_bytes / MIB);
    cli_out_puts(out, "}\n");
}

/* ---- a terminal */

#define CELL_SIZE 32
#define COLUMNS 6

static void put_row(cli_table *table, const char *side, const bench_tally *tally)
{
    char cell[4][CELL_SIZE];
    hw_str row[COLUMNS] = {hw_str_of(side)};

    cli_count_text((long long)(bench_rate(tally) + 0.5), cell[0]);
    (void)snprintf(cell[1], CELL_SIZE, "%.2f", cpu_s_per_100k(tally));
    (void)snprintf(cell[2], CELL_SIZE, "%.3f", bench_histogram_ms(&tally->latency, 0.5));
    (void)snprintf(cell[3], CELL_SIZE, "%.3f", bench_histogram_ms(&tally->latency, 0.99));
    for (size_t i = 0; i < 4; i++)
        row[i + 1] = hw_str_of(cell[i]);
    /* The last column of a table takes all the width that is left: an empty one shall have it. */
    row[table->columns_n - 1] = HW_STR_LIT("");
    cli_table_row(table, row);
}

static void put_table(cli_out *out, const bench_plan *plan, const bench_result *r)
{
    static const cli_column figures[COLUMNS - 1] = {
        {"side", CLI_PLAIN, false, true, 8},         {"events/s", CLI_GREEN, true, true, 10},
        {"CPU s/100,000", CLI_PLAIN, true, true, 0}, {"p50 ms", CLI_PLAIN, true, true, 8},
        {"p99 ms", CLI_PLAIN, true, true, 8},
    };
    cli_column columns[COLUMNS];
    /* How long a whole read took is in its rate. */
    size_t n = plan->kind == BENCH_READ ? 3 : 5;
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

static void report_text(cli_out *out, const bench_site *site, const bench_result *r)
{
    const bench_plan *plan = site->plan;
    char count[CLI_COUNT_SIZE];

    cli_count_text(plan->kind == BENCH_READ ? plan->events : plan->batch, count);
    cli_out_style(out, CLI_BOLD);
    cli_out_printf(out, "%s on %s", plan->name, site->backend->name);
    cli_out_style(out, CLI_PLAIN);
    cli_out_printf(out, ": %lld client%s, payloads of %lld bytes", (long long)plan->clients,
                   plan->clients == 1 ? "" : "s", (long long)plan->payload);
    if (plan->kind != BENCH_APPEND)
        cli_out_printf(out, ", %s of %s events", plan->kind == BENCH_READ ? "a log" : "batches",
                       count);
    cli_out_puts(out, "\n");
    put_table(out, plan, r);
    if (plan->ceiling)
        cli_out_printf(out, "ratio %.3f; of %lld pairs of slices: %.3f to %.3f, median %.3f\n",
                       ratio_of(r), (long long)r->slices, r->ratio_min, r->ratio_max,
                       r->ratio_median);
    if (plan->kind == BENCH_READ && r->memory_bytes >= 0)
        cli_out_printf(out, "client memory %.1f MiB\n", (double)r->memory_bytes / MIB);
}

void bench_report(cli_context *cli, const bench_site *site, const bench_result *result)
{
    if (cli->out.json)
        report_json(&cli->out, site, result);
    else
        report_text(&cli->out, site, result);
}
