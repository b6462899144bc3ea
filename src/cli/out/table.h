/*
 * table.h - aligned tables for a terminal, in constant memory.
 *
 * The first rows_held rows are kept until the widths can be told from them; then they are
 * printed, the widths stay, and every further row is printed at once.  A cell that does not fit
 * is cut and marked, unless its column is "whole".  The last column takes what is left.
 */
#ifndef HW_CLI_OUT_TABLE_H
#define HW_CLI_OUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/out/out.h"

#define CLI_COLUMNS_MAX 8

typedef struct cli_column {
    const char *head;
    cli_style style;
    bool right; /* numbers stand on the right */
    bool whole; /* never cut: half a number is a wrong number */
    unsigned width_min;
} cli_column;

typedef struct cli_table {
    cli_out *out;
    cli_column columns[CLI_COLUMNS_MAX];
    size_t columns_n;
    unsigned width[CLI_COLUMNS_MAX];
    size_t rows_held;
    size_t rows;  /* held now */
    hw_buf cells; /* their cells, each ended by a NUL */
    bool open;    /* the widths stand, the head is printed */
} cli_table;

void cli_table_init(cli_table *table, cli_out *out, const cli_column *columns, size_t columns_n,
                    size_t rows_held);
/* One cell a column.  The text is made harmless (no control characters) and may be long. */
void cli_table_row(cli_table *table, const hw_str *cells);
/* Prints what is held; a table without rows prints nothing. */
void cli_table_flush(cli_table *table);
void cli_table_done(cli_table *table);

/* Columns that text takes in a terminal, and the bytes of it that fit into width. */
unsigned cli_text_width(const char *text);
size_t cli_text_fit(const char *text, unsigned width);
/* Appends text with everything that could steer a terminal replaced; at most bytes_max of it. */
void cli_text_clean(hw_buf *out, hw_str text, size_t bytes_max, bool utf8);

#endif
