/* query.h - questions over two times: from the options to the store's terms. */
#ifndef HW_BUS_LOG_QUERY_H
#define HW_BUS_LOG_QUERY_H

#include "bus/log/read.h"

/* A query and what it points to, part of it into itself: not to be copied. */
typedef struct hw_query_call {
    hw_times_query query;
    howdah_knowledge knowledge;
    hw_uuid family;
    hw_header_is headers[HOWDAH_QUERY_HEADERS_MAX];
} hw_query_call;

/* Checks the bus for a call that needs two times. */
int hw_times_check(const howdah_bus *bus, const char *call, howdah_error *reterr);

/* Checks the options, finds the family, and finds out what the answer will be worth. */
int hw_query_call_make(howdah_bus *bus, const howdah_query_options *options, const char *call,
                       hw_query_call *ret_call, howdah_error *reterr);

/* INVALID when this time to know lies in the future; otherwise what an answer is worth.  field
   names it in the error. */
int hw_knowledge_ask(howdah_bus *bus, const char *field, int64_t known_at_us,
                     howdah_knowledge *ret_knowledge, howdah_error *reterr);

/* Hands it to the caller, no more than ret_knowledge->size of it; ret_knowledge may be NULL. */
void hw_knowledge_give(const howdah_knowledge *knowledge, howdah_knowledge *ret_knowledge);

#endif
