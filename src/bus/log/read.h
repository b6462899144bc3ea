/* read.h - the inside of a reader: a cursor of the log, or of a query over two times. */
#ifndef HW_BUS_LOG_READ_H
#define HW_BUS_LOG_READ_H

#include "bus/bus.h"
#include "bus/log/upcast.h"

struct howdah_reader {
    hw_closing closing; /* the first member: closing it is closing the reader */
    howdah_bus *bus;
    hw_store *store;
    hw_cursor *cursor;
    const howdah_event *events; /* the batch, borrowed from the cursor */
    size_t n;
    size_t at;
    int failed; /* the error that ended it: repeated by every later call */
    hw_upcasts *upcasts;
    hw_upcast_event upcast; /* the event handed out last, if it was lifted */
    howdah_knowledge knowledge;
};

/* A reader of a query of the log; its batch is filled in. */
int hw_reader_open(howdah_bus *bus, hw_query *query, howdah_reader **ret_reader,
                   howdah_error *reterr);
/* The same of a query over two times. */
int hw_reader_open_times(howdah_bus *bus, hw_times_query *query, howdah_reader **ret_reader,
                         howdah_error *reterr);

/* The text as a UUID: INVALID, naming the field, when it is none. */
int hw_parse_uuid(const char *field, const char *text, hw_uuid *ret_id, howdah_error *reterr);

#endif
