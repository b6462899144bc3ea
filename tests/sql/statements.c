/*
 * statements.c - prints the library's prepared statements: name, types of the parameters, text;
 * separated by tabs, one a line.  The argument is the schema.
 */
#include <stdio.h>

#include "base/mem.h"
#include "store/pg/pg.h"

static const char *const names[] = {
#define STATEMENT_NAME(name) #name,
    HW_PG_STATEMENTS(STATEMENT_NAME)
#undef STATEMENT_NAME
};

int main(int argc, char **argv)
{
    static hw_pg pg;

    pg.schema = argc > 1 ? argv[1] : NULL;
    if (!pg.schema || hw_pg_fill_statements(&pg, NULL) < 0)
        return 2;
    for (int i = 0; i < HW_PG_STATEMENT_COUNT; i++) {
        const Oid *types = NULL;
        int n = hw_pg_statement_types((hw_pg_statement)i, &types);

        (void)printf("%s\t", names[i]);
        for (int k = 0; k < n; k++)
            (void)printf("%s%u", k ? " " : "", types[k]);
        (void)printf("\t%s\n", pg.sql[i]);
        hw_free(pg.sql[i]);
    }
    return 0;
}
