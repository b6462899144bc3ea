/* sql_params.h - cases as the binary arrays that the SQL functions take. */
#ifndef HW_TESTS_SQL_PARAMS_H
#define HW_TESTS_SQL_PARAMS_H

#include <libpq-fe.h>

#include "property.h"

/* The columns of append_arrays(). */
#define COLUMNS_N 13
#define SQL_PARAMS_MAX (COLUMNS_N + 1)

/* Parameters are pieces of one buffer, which may move while it grows: kept as offsets. */
typedef struct sql_params {
    hw_buf bytes;
    size_t start[SQL_PARAMS_MAX];
    Oid type[SQL_PARAMS_MAX];
    int n;
    size_t *asked; /* which cases */
    size_t asked_n;
    size_t asked_room;
} sql_params;

/* Documents are texts where they may be no JSON. */
void sql_put_columns(sql_params *p, const sql_case *cases, bool documents_as_text);
/* A boolean array. */
void sql_put_alone(sql_params *p, const sql_case *cases);
/* A text array, and one JSON array. */
void sql_put_lines(sql_params *p, const sql_case *cases);
void sql_put_document(sql_params *p, const sql_case *cases);

#endif
