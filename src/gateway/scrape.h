/*
 * scrape.h - GET /metrics: the gateway's own numbers, and those of the store.
 *
 *   I1  The gateway's own are always answered: with a store that is away, or slow, or while every
 *       session of the pool is busy.  So a thread with a session of its own asks the store, opened
 *       by the first who wants to know.
 *   I2  The store is asked at most once in a second, however many ask, and what it says is kept
 *       that long.  Each question has a deadline, and so has all of them together.
 *   I3  What could not be asked is howdah_up 0.  Older numbers are not told in its place: nobody
 *       could tell them from new ones.
 */
#ifndef HW_GATEWAY_SCRAPE_H
#define HW_GATEWAY_SCRAPE_H

#include <howdah/howdah.h>

typedef struct gw_scrape gw_scrape;
struct gw_gateway;

int gw_scrape_new(struct gw_gateway *gateway, gw_scrape **ret_scrape, howdah_error *reterr);
/* A question that runs now ends soon. */
void gw_scrape_interrupt(gw_scrape *scrape);
/* Answers who waits, and asks nothing more. */
void gw_scrape_end(gw_scrape *scrape);
void gw_scrape_free(gw_scrape *scrape);

#endif
