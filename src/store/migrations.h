/* migrations.h - the SQL sources of sql/, embedded at build time by tools/embed_sql.py. */
#ifndef HW_STORE_MIGRATIONS_H
#define HW_STORE_MIGRATIONS_H

#include <stddef.h>

#include "store/store.h"

/* Numbered steps, applied once, in order; their text never changes after a release. */
extern const hw_step hw_pg_steps[];
extern const size_t hw_pg_steps_n;
extern const hw_step hw_sqlite_steps[];
extern const size_t hw_sqlite_steps_n;

/* Functions and roles of the PostgreSQL schema: applied again whenever their text has changed. */
extern const hw_step hw_pg_functions;

#endif
