/*
 * tokens.h - who may: the tokens of the store, as they were within the last two seconds.
 *
 *   I1  The threads that speak HTTP never wait for the store: a thread of its own, with a session
 *       of its own, looks every second.  A request that finds the list older than two seconds asks
 *       the store itself, in its worker, before anything is done.
 *   I2  A request keeps the list that it was judged by until it ends.  A list is never changed.
 *   I3  Once a token has been made, tokens are asked for, even if all of them are revoked: nobody
 *       opens a gateway to everybody by taking the last token away.
 */
#ifndef HW_GATEWAY_TOKENS_H
#define HW_GATEWAY_TOKENS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#define GW_TOKENS_FRESH_MS 2000

typedef struct gw_token {
    char *name;
    unsigned char hash[HOWDAH_TOKEN_HASH_SIZE];
    int64_t may;
    const char *const *patterns;
    size_t patterns_n; /* 0: no limit, as of the others */
    const char *const *streams;
    size_t streams_n;
    const char *const *queues;
    size_t queues_n;
    bool used_today;  /* the store knows */
    atomic_bool used; /* since the list was read */
    char *texts;      /* what all of them point into */
    const char **list;
} gw_token;

typedef struct gw_token_list gw_token_list;
typedef struct gw_tokens gw_tokens;

typedef struct gw_tokens_options {
    const char *url;
    const howdah_settings *settings;
    bool required; /* also when there are none */
} gw_tokens_options;

/* Asks the store once before it returns; a store that is away is asked again and again. */
int gw_tokens_new(const gw_tokens_options *options, gw_tokens **ret_tokens, howdah_error *reterr);
void gw_tokens_free(gw_tokens *tokens);

/* Looks at once. */
void gw_tokens_reload(gw_tokens *tokens);
/* The same with this bus, if the list is not fresh.  Errors: what the store says. */
int gw_tokens_refresh(gw_tokens *tokens, howdah_bus *bus, howdah_error *reterr);

/* The newest list, for as long as it is held; NULL: none was read yet. */
gw_token_list *gw_tokens_hold(gw_tokens *tokens);
void gw_token_list_release(gw_token_list *list);
/* No older than two seconds. */
bool gw_token_list_is_fresh(const gw_token_list *list);
/* I3, or they are required. */
bool gw_tokens_in_force(const gw_tokens *tokens, const gw_token_list *list);
/* How many are good. */
size_t gw_token_list_count(const gw_token_list *list);
/* The one with this secret; NULL: none that is good. */
const gw_token *gw_token_list_find(const gw_token_list *list, const char *secret);

#endif
