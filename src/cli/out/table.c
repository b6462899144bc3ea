/*
 * table.c - see table.h.
 *
 * Cells are kept one after the other in one buffer, each ended by a NUL: a row needs no memory of
 * its own, and what is held has a maximum.
 */
#include "cli/out/table.h"

#include <assert.h>
#include <string.h>
#include <wchar.h>

#include "cli/out/sanitize.h"

#define CELL_BYTES_MAX 4096u
#define CELLS_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define GAP 2u
#define NARROWEST 8u /* what a column is cut to at most, when the terminal is too small */

/* What the C library does not know counts as one column. */
static unsigned point_width(unsigned point)
{
    int width = point < 0x7f ? 1 : wcwidth((wchar_t)point);

    return width < 0 ? 1 : (unsigned)width;
}

static void into_buffer(void *ctx, const char *bytes, size_t n)
{
    hw_buf_put(ctx, bytes, n);
}

/* On one line: a line break in a cell would break the table. */
void cli_text_clean(hw_buf *out, hw_str text, size_t bytes_max, bool utf8)
{
    cli_sanitizer h = {.utf8 = utf8, .one_line = true, .sink = into_buffer, .ctx = out};

    cli_sanitize_put(&h, text.s, text.len < bytes_max ? text.len : bytes_max);
    if (text.len <= bytes_max) /* else the cut may have gone through a character */
        cli_sanitize_end(&h);
}

/* Whole characters: a wide one that does not fit is left out. */
size_t cli_text_fit(const char *text, unsigned width)
{
    size_t at = 0;
    unsigned used = 0;

    while (text[at]) {
        unsigned point;
        size_t n = cli_point_decode(text + at, &point);

        used += point_width(point);
        if (used > width)
            break;
        at += n;
    }
    return at;
}

unsigned cli_text_width(const char *text)
{
    unsigned width = 0;

    while (*text) {
        unsigned point;

        text += cli_point_decode(text, &point);
        width += point_width(point);
    }
    return width;
}

/* The columns are copied: a caller may change their widths for one table. */
void cli_table_init(cli_table *table, cli_out *out, const cli_column *columns, size_t columns_n,
                    size_t rows_held)
{
    assert(columns_n >= 1 && columns_n <= CLI_COLUMNS_MAX && rows_held >= 1);
    memset(table, 0, sizeof *table);
    table->out = out;
    memcpy(table->columns, columns, columns_n * sizeof *columns);
    table->columns_n = columns_n;
    table->rows_held = rows_held;
    table->cells = (hw_buf)HW_BUF_INIT(CELLS_BYTES_MAX);
}

void cli_table_done(cli_table *table)
{
    hw_buf_done(&table->cells);
}

static void put_spaces(cli_out *out, unsigned n)
{
    while (n-- > 0)
        cli_out_puts(out, " ");
}

/* The last column is not padded: trailing blanks would wrap in a narrow terminal. */
static void print_cell(cli_table *t, size_t column, const char *text, cli_style style)
{
    const cli_column *c = &t->columns[column];
    unsigned natural = cli_text_width(text);
    unsigned width = t->width[column];
    bool cut = natural > width && !c->whole && width > 0;
    size_t bytes = cut ? cli_text_fit(text, width - 1) : strlen(text);
    unsigned pad = natural < width ? width - natural : 0;
    bool last = column + 1 == t->columns_n;

    if (c->right)
        put_spaces(t->out, pad);
    if (style != CLI_PLAIN)
        cli_out_style(t->out, style);
    cli_out_put(t->out, text, bytes);
    if (cut)
        cli_out_puts(t->out, t->out->utf8 ? "\xe2\x80\xa6" : "~");
    if (style != CLI_PLAIN)
        cli_out_style(t->out, CLI_PLAIN);
    if (!c->right && !last)
        put_spaces(t->out, pad);
    cli_out_puts(t->out, last ? "\n" : "  ");
}

static void print_row(cli_table *t, const char *cells)
{
    for (size_t i = 0; i < t->columns_n; i++) {
        print_cell(t, i, cells, t->columns[i].style);
        cells += strlen(cells) + 1;
    }
}

/* All columns but the last, with the gaps. */
static unsigned others_width(const cli_table *t)
{
    unsigned sum = GAP * (unsigned)(t->columns_n - 1);

    for (size_t i = 0; i + 1 < t->columns_n; i++)
        sum += t->width[i];
    return sum;
}

/* The widest column that may be cut, other than the last; columns_n when there is none. */
static size_t widest(const cli_table *t)
{
    size_t best = t->columns_n;

    for (size_t i = 0; i + 1 < t->columns_n; i++)
        if (!t->columns[i].whole && t->width[i] > NARROWEST &&
            (best == t->columns_n || t->width[i] > t->width[best]))
            best = i;
    return best;
}

/* What is too wide is taken from the widest column, one column of the terminal at a time. */
static void decide_widths(cli_table *t)
{
    const char *cell = hw_buf_str(&t->cells);
    unsigned total = t->out->width;
    size_t last = t->columns_n - 1;
    unsigned last_min;
    unsigned room;

    assert(!t->open && t->columns_n >= 1);
    for (size_t i = 0; i < t->columns_n; i++) {
        unsigned head = cli_text_width(t->columns[i].head);

        t->width[i] = head > t->columns[i].width_min ? head : t->columns[i].width_min;
    }
    for (size_t n = 0; n < t->rows * t->columns_n; n++) {
        unsigned width = cli_text_width(cell);

        if (width > t->width[n % t->columns_n])
            t->width[n % t->columns_n] = width;
        cell += strlen(cell) + 1;
    }
    /* The last column gets a quarter, if it can use it, before the others get their wish. */
    last_min = t->width[last] < total / 4 ? t->width[last] : total / 4;
    while (others_width(t) + last_min > total && widest(t) < t->columns_n)
        t->width[widest(t)]--;
    if (last_min > NARROWEST && others_width(t) + last_min > total)
        last_min = NARROWEST; /* the others are at their narrowest */
    room = others_width(t) + last_min < total ? total - others_width(t) : last_min;
    /* Numbers stay beside the others, not at the far edge. */
    if (!t->columns[last].right || t->width[last] > room)
        t->width[last] = room;
}

static void print_head(cli_table *t)
{
    for (size_t i = 0; i < t->columns_n; i++)
        print_cell(t, i, t->columns[i].head, CLI_BOLD);
}

/* The first flush fixes the widths; the rows after it fit or are cut. */
void cli_table_flush(cli_table *table)
{
    const char *cell = hw_buf_str(&table->cells);

    if (table->rows == 0)
        return;
    if (!table->open) {
        decide_widths(table);
        print_head(table);
        table->open = true;
    }
    for (size_t i = 0; i < table->rows; i++) {
        print_row(table, cell);
        for (size_t n = 0; n < table->columns_n; n++)
            cell += strlen(cell) + 1;
    }
    table->rows = 0;
    hw_buf_clear(&table->cells);
}

/* Cells are cleaned as they come, so that widths are those of what will be shown. */
void cli_table_row(cli_table *table, const hw_str *cells)
{
    size_t len = table->cells.len;

    assert(table->rows < table->rows_held);
    for (size_t i = 0; i < table->columns_n; i++) {
        cli_text_clean(&table->cells, cells[i], CELL_BYTES_MAX, table->out->utf8);
        hw_buf_putc(&table->cells, '\0');
    }
    if (table->cells.broken) { /* without room a row less is better than half a row */
        table->cells.broken = HOWDAH_OK;
        table->cells.len = len;
        return;
    }
    table->rows++;
    if (table->open || table->rows >= table->rows_held)
        cli_table_flush(table);
}
