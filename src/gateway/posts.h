/*
 * posts.h - requests that the gateway sends: one thread and libcurl, for any number of them.
 *
 *   I1  The address that is really connected to is checked, not the name: what a name meant a
 *       moment ago says nothing.  Without "anywhere" only public ones are connected to, whatever
 *       the URL, its spelling and the environment (proxies) say.
 *   I2  A redirect is an answer, and not a good one: nobody checked where it leads.
 *   I3  Of an answer the status and the wish to come later count.  At most 4 KiB of its body are
 *       read, and nothing of it is kept, told or logged.
 *   I4  Each post ends: its time is over at its time-out, or at the end of all.  done() is called
 *       once for each that was taken, in the thread of these posts.
 *   I5  What is said about a failure names no URL and no header: secrets stand in them.
 */
#ifndef HW_GATEWAY_POSTS_H
#define HW_GATEWAY_POSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"

#define GW_POST_ERROR_SIZE 200

typedef struct gw_posts gw_posts;
typedef struct gw_post gw_post;
struct curl_slist;

struct gw_post {
    const char *url; /* both live until done() */
    hw_buf body;
    int64_t timeout_ms;
    void (*done)(gw_post *post);
    /* What came of it. */
    int64_t http_status;            /* HOWDAH_ABSENT: there was no answer */
    char error[GW_POST_ERROR_SIZE]; /* "": it was taken */
    int64_t retry_after_ms;         /* -1: nobody said */
    int64_t duration_ms;
    bool given_up; /* the gateway ended before its time was over */
    /* posts.c's own. */
    gw_post *next;
    gw_post *previous;
    void *easy;
    struct curl_slist *headers;
    gw_posts *posts;
    int64_t begun_ms;
    size_t body_bytes;
    size_t header_bytes;
    bool refused;   /* the address */
    bool truncated; /* I3 */
};

int gw_posts_new(bool anywhere, gw_posts **ret_posts, howdah_error *reterr);
/* Before it is put.  A header that could break out of its line is left out. */
int gw_post_header(gw_post *post, const char *name, const char *value, howdah_error *reterr);
/* False: it ends, or has too many; done() is not called then. */
bool gw_posts_put(gw_posts *posts, gw_post *post);
/* Frees what it holds; one that is under way is never freed. */
void gw_post_clear(gw_post *post);
/* Takes none any more; what runs has time until then, by hw_clock_mono_ms(). */
void gw_posts_end(gw_posts *posts, int64_t until_ms);
/* Waits for the end of all. */
void gw_posts_free(gw_posts *posts);

#endif
