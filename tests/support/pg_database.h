/*
 * pg_database.h - a database with a migrated bus for each case, on the server of HOWDAH_TEST_PG.
 *
 * To migrate takes longer than most cases do.  So that is done once a program, in a template, and
 * each case gets a copy.  Roles belong to the server: all cases of a program share those of the
 * bus.
 */
#ifndef HW_TESTS_PG_DATABASE_H
#define HW_TESTS_PG_DATABASE_H

#include <stddef.h>

/* The one schema of the template and of its copies; a quote and a space in it on purpose. */
const char *pg_database_schema(void);

/* Migrates the bus in the database of this URL; fails the test when it cannot. */
typedef void (*pg_database_migrate)(const char *url, const char *schema);

/* A new copy; writes its URL.  The template is made by the first call. */
void pg_database_open(const char *server_url, pg_database_migrate migrate, char *ret_url,
                      size_t url_bytes_max);
/* Drops the copy, whoever is still connected. */
void pg_database_close(const char *url);
/* After the last case: drops the template, and the roles of its bus. */
void pg_database_end(void);

#endif
