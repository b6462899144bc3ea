/*
 * tokens.c - see tokens.h.
 *
 * A secret is compared by its hash, with each token of the list, in a time that does not depend on
 * where they differ.
 */
#include "gateway/tokens.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

#define LOOK_MS 1000
#define TOKENS_MAX 10000
#define DAY_US INT64_C(86400000000)

struct gw_token_list {
    atomic_int holders;
    int64_t read_ms; /* when its question was asked, by hw_clock_mono_ms() */
    bool any;        /* also revoked ones */
    size_t n;
    size_t room;
    gw_token **items; /* that are good */
};

struct gw_tokens {
    gw_tokens_options options;
    pthread_mutex_t lock;
    pthread_cond_t look; /* at once, or the end */
    pthread_t thread;
    bool started;
    bool wanted;
    bool over;
    gw_token_list *list;
    howdah_bus *bus; /* the thread's; changed under the lock: the end interrupts it */
};

/* --------------------------------------------------------------------- lists */

static void free_token(gw_token *token)
{
    if (!token)
        return;
    hw_free(token->texts);
    hw_free(token->list);
    hw_free(token);
}

void gw_token_list_release(gw_token_list *list)
{
    if (!list || atomic_fetch_sub(&list->holders, 1) > 1)
        return;
    for (size_t i = 0; i < list->n; i++)
        free_token(list->items[i]);
    hw_free(list->items);
    hw_free(list);
}

static size_t texts_size(const char *const *texts, size_t n)
{
    size_t size = 0;

    for (size_t i = 0; i < n; i++)
        size += strlen(texts[i]) + 1;
    return size;
}

/* Copies the texts to *at, and where they are to *list; both move on. */
static const char *const *copy_texts(const char *const *texts, size_t n, const char ***list,
                                     char **at)
{
    const char **begin = *list;

    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(texts[i]) + 1;

        memcpy(*at, texts[i], size);
        *(*list)++ = *at;
        *at += size;
    }
    return begin;
}

static gw_token *copy_token(const howdah_token_info *info)
{
    size_t n = info->patterns_n + info->streams_n + info->queues_n;
    size_t size = strlen(info->name) + 1 + texts_size(info->patterns, info->patterns_n) +
                  texts_size(info->streams, info->streams_n) +
                  texts_size(info->queues, info->queues_n);
    gw_token *token = hw_calloc(1, sizeof *token);
    const char **list;
    char *at;

    if (!token)
        return NULL;
    at = token->texts = hw_alloc(size);
    list = token->list = hw_calloc(n + 1, sizeof *token->list);
    if (!token->texts || !token->list) {
        free_token(token);
        return NULL;
    }
    token->name = memcpy(at, info->name, strlen(info->name) + 1);
    at += strlen(at) + 1;
    memcpy(token->hash, info->hash, sizeof token->hash);
    token->may = info->may;
    token->patterns = copy_texts(info->patterns, token->patterns_n = info->patterns_n, &list, &at);
    token->streams = copy_texts(info->streams, token->streams_n = info->streams_n, &list, &at);
    token->queues = copy_texts(info->queues, token->queues_n = info->queues_n, &list, &at);
    token->used_today = info->used_at_us != HOWDAH_NO_TIME &&
                        info->used_at_us / DAY_US == hw_clock_wall_us() / DAY_US;
    return token;
}

typedef struct reading {
    gw_token_list *list;
    howdah_error *reterr;
    int status;
} reading;

static int on_token(void *ctx, const howdah_token_info *info)
{
    reading *r = ctx;
    gw_token_list *list = r->list;

    list->any = true;
    if (info->revoked_at_us != HOWDAH_NO_TIME)
        return 0;
    if (list->n == TOKENS_MAX) {
        r->status = hw_fail(r->reterr, HOWDAH_LIMIT, "there are more than %d tokens", TOKENS_MAX);
        return 1;
    }
    if (list->n == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : 16;
        gw_token **items = hw_realloc(list->items, room * sizeof *items);

        if (items) {
            list->items = items;
            list->room = room;
        }
    }
    if (list->n < list->room)
        list->items[list->n] = copy_token(info);
    if (list->n == list->room || !list->items[list->n]) {
        r->status = hw_fail_no_memory(r->reterr);
        return 1;
    }
    list->n++;
    return 0;
}

/* Its age counts from the question: what is revoked after it may be missing in the answer. */
static int read_list(howdah_bus *bus, gw_token_list **ret_list, howdah_error *reterr)
{
    reading r = {.list = hw_calloc(1, sizeof(gw_token_list)), .reterr = reterr};
    int s;

    if (!r.list)
        return hw_fail_no_memory(reterr);
    atomic_init(&r.list->holders, 1);
    r.list->read_ms = hw_clock_mono_ms();
    s = howdah_tokens_walk(bus, on_token, &r, reterr);
    s = r.status < 0 ? r.status : s;
    if (s < 0)
        gw_token_list_release(r.list);
    else
        *ret_list = r.list;
    return s;
}

bool gw_token_list_is_fresh(const gw_token_list *list)
{
    return list && hw_clock_mono_ms() - list->read_ms <= GW_TOKENS_FRESH_MS;
}

bool gw_tokens_in_force(const gw_tokens *tokens, const gw_token_list *list)
{
    return tokens->options.required || !list || list->any;
}

size_t gw_token_list_count(const gw_token_list *list)
{
    return list ? list->n : 0;
}

const gw_token *gw_token_list_find(const gw_token_list *list, const char *secret)
{
    unsigned char hash[HOWDAH_TOKEN_HASH_SIZE];
    gw_token *found = NULL;

    if (!list || howdah_token_hash(secret, hash, NULL) < 0)
        return NULL;
    for (size_t i = 0; i < list->n; i++)
        if (CRYPTO_memcmp(hash, list->items[i]->hash, sizeof hash) == 0)
            found = list->items[i];
    if (found)
        atomic_store(&found->used, true);
    return found;
}

/* ----------------------------------------------------------------- the newest */

gw_token_list *gw_tokens_hold(gw_tokens *tokens)
{
    gw_token_list *list;

    (void)pthread_mutex_lock(&tokens->lock);
    list = tokens->list;
    if (list)
        atomic_fetch_add(&list->holders, 1);
    (void)pthread_mutex_unlock(&tokens->lock);
    return list;
}

/* Of two that were read at the same time the one that was asked for later stays. */
static void put_list(gw_tokens *tokens, gw_token_list *list)
{
    gw_token_list *old;

    (void)pthread_mutex_lock(&tokens->lock);
    old = tokens->list;
    if (old && old->read_ms > list->read_ms)
        old = list;
    else
        tokens->list = list;
    (void)pthread_mutex_unlock(&tokens->lock);
    gw_token_list_release(old);
}

int gw_tokens_refresh(gw_tokens *tokens, howdah_bus *bus, howdah_error *reterr)
{
    gw_token_list *list = gw_tokens_hold(tokens);
    bool fresh = gw_token_list_is_fresh(list);
    int s = HOWDAH_OK;

    gw_token_list_release(list);
    if (!fresh)
        s = read_list(bus, &list, reterr);
    if (!fresh && s >= 0)
        put_list(tokens, list);
    return s;
}

/* ---------------------------------------------------------------- the thread */

static void set_bus(gw_tokens *tokens, howdah_bus *bus)
{
    (void)pthread_mutex_lock(&tokens->lock);
    tokens->bus = bus;
    (void)pthread_mutex_unlock(&tokens->lock);
}

/* For people who look which tokens are in use: whether it works does not matter to anybody. */
static void keep_days(gw_tokens *tokens)
{
    gw_token_list *list = gw_tokens_hold(tokens);

    for (size_t i = 0; list && i < list->n; i++)
        if (atomic_load(&list->items[i]->used) && !list->items[i]->used_today &&
            howdah_token_used(tokens->bus, list->items[i]->name, NULL) < 0)
            break;
    gw_token_list_release(list);
}

static int look(gw_tokens *tokens, howdah_error *reterr)
{
    gw_token_list *list = NULL;
    howdah_bus *bus = tokens->bus;
    int s = HOWDAH_OK;

    if (!bus) {
        s = howdah_open(tokens->options.url, tokens->options.settings, &bus, reterr);
        if (s < 0)
            return s;
        set_bus(tokens, bus);
    }
    keep_days(tokens);
    s = read_list(bus, &list, reterr);
    if (s >= 0) {
        put_list(tokens, list);
    } else if (reterr->flags & HOWDAH_HANDLE_DEAD) {
        set_bus(tokens, NULL);
        (void)howdah_close(bus);
    }
    return s;
}

static void wait_for_next(gw_tokens *tokens)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOOK_MS / 1000;
    (void)pthread_mutex_lock(&tokens->lock);
    while (!tokens->wanted && !tokens->over &&
           pthread_cond_timedwait(&tokens->look, &tokens->lock, &until) == 0)
        ;
    tokens->wanted = false;
    (void)pthread_mutex_unlock(&tokens->lock);
}

static bool is_over(gw_tokens *tokens)
{
    bool over;

    (void)pthread_mutex_lock(&tokens->lock);
    over = tokens->over;
    (void)pthread_mutex_unlock(&tokens->lock);
    return over;
}

static void *run(void *arg)
{
    gw_tokens *tokens = arg;

    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;

        wait_for_next(tokens);
        if (is_over(tokens))
            return NULL;
        (void)look(tokens, &err);
    }
}

void gw_tokens_reload(gw_tokens *tokens)
{
    (void)pthread_mutex_lock(&tokens->lock);
    tokens->wanted = true;
    (void)pthread_cond_signal(&tokens->look);
    (void)pthread_mutex_unlock(&tokens->lock);
}

int gw_tokens_new(const gw_tokens_options *options, gw_tokens **ret_tokens, howdah_error *reterr)
{
    gw_tokens *tokens = hw_calloc(1, sizeof *tokens);
    howdah_error err = HOWDAH_ERROR_INIT;
    pthread_condattr_t monotonic;

    if (!tokens)
        return hw_fail_no_memory(reterr);
    tokens->options = *options;
    (void)pthread_mutex_init(&tokens->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&tokens->look, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)look(tokens, &err);
    if (pthread_create(&tokens->thread, NULL, run, tokens) != 0) {
        gw_tokens_free(tokens);
        return hw_fail(reterr, HOWDAH_FAILED, "no thread could be started");
    }
    tokens->started = true;
    *ret_tokens = tokens;
    return HOWDAH_OK;
}

void gw_tokens_free(gw_tokens *tokens)
{
    if (!tokens)
        return;
    (void)pthread_mutex_lock(&tokens->lock);
    tokens->over = true;
    if (tokens->bus)
        howdah_interrupt(tokens->bus);
    (void)pthread_cond_signal(&tokens->look);
    (void)pthread_mutex_unlock(&tokens->lock);
    if (tokens->started)
        (void)pthread_join(tokens->thread, NULL);
    (void)howdah_close(tokens->bus);
    gw_token_list_release(tokens->list);
    (void)pthread_cond_destroy(&tokens->look);
    (void)pthread_mutex_destroy(&tokens->lock);
    hw_free(tokens);
}
