/* posts.c - see posts.h. */
#include "gateway/posts.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "gateway/webhook_rules.h"

#define POSTS_MAX 1024
#define ANSWER_BYTES_MAX ((size_t)4 * 1024)
#define ANSWER_HEADERS_MAX ((size_t)64 * 1024)
#define CONNECT_MS 10000
#define IDLE_CONNECTIONS_MAX 64L
#define HEADER_BYTES_MAX 8192
#define POLL_MS 1000
#define RETRY_AFTER_MAX_MS (INT64_C(24) * 3600 * 1000)

struct gw_posts {
    bool anywhere;
    CURLM *multi;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    gw_post *inbox; /* under the lock, as what follows */
    size_t n;       /* in it or under way */
    bool ending;
    int64_t until_ms;
    gw_post *running; /* the thread's own */
};

/* ------------------------------------------------------- what libcurl calls */

/* I1. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    gw_post *post = ctx;
    int fd;

    (void)purpose;
    if (!post->posts->anywhere && !gw_address_is_public(&address->addr)) {
        post->refused = true;
        return CURL_SOCKET_BAD;
    }
    fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* I3: all of it is looked at by nobody, and more than enough ends it. */
static size_t on_body(const char *bytes, size_t size, size_t n, void *ctx)
{
    gw_post *post = ctx;

    (void)bytes;
    post->body_bytes += size * n;
    if (post->body_bytes <= ANSWER_BYTES_MAX)
        return size * n;
    post->truncated = true;
    return 0;
}

static size_t on_header(const char *bytes, size_t size, size_t n, void *ctx)
{
    gw_post *post = ctx;

    (void)bytes;
    post->header_bytes += size * n;
    return post->header_bytes <= ANSWER_HEADERS_MAX ? size * n : 0;
}

/* ----------------------------------------------------------------- one post */

static bool is_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

int gw_post_header(gw_post *post, const char *name, const char *value, howdah_error *reterr)
{
    char line[HEADER_BYTES_MAX];
    struct curl_slist *list;
    int n;

    if (!is_line(name) || strchr(name, ':') || !is_line(value))
        return HOWDAH_OK;
    /* Without a value libcurl wants a semicolon. */
    n = snprintf(line, sizeof line, *value ? "%s: %s" : "%s;", name, value);
    if (n < 0 || (size_t)n >= sizeof line)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "headers", "one has more than %d bytes",
                             HEADER_BYTES_MAX);
    list = curl_slist_append(post->headers, line);
    if (!list)
        return hw_fail_no_memory(reterr);
    post->headers = list;
    return HOWDAH_OK;
}

void gw_post_clear(gw_post *post)
{
    curl_slist_free_all(post->headers);
    post->headers = NULL;
    hw_buf_done(&post->body);
}

static bool set_limits(CURL *easy, const gw_post *post)
{
    long timeout_ms = (long)post->timeout_ms;
    long connect_ms = timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS;

    /* A name's server that does not answer is not waited for at the end either. */
    return curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 4096L) == CURLE_OK;
}

static bool set_ways(CURL *easy, gw_post *post)
{
    return curl_easy_setopt(easy, CURLOPT_URL, post->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, post) == CURLE_OK;
}

/* Nobody is asked whether a body is wanted: it costs a second with who does not answer that. */
static bool set_content(CURL *easy, gw_post *post)
{
    struct curl_slist *list = curl_slist_append(post->headers, "Expect:");

    if (!list)
        return false;
    post->headers = list;
    return curl_easy_setopt(easy, CURLOPT_HTTPHEADER, post->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->body.len) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, hw_buf_str(&post->body)) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "howdah/" HOWDAH_VERSION_STRING) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, post) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, post) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PRIVATE, post) == CURLE_OK;
}

static void unlist(gw_posts *posts, gw_post *post)
{
    if (post->previous)
        post->previous->next = post->next;
    else
        posts->running = post->next;
    if (post->next)
        post->next->previous = post->previous;
}

/* I4.  The post is its owner's again with done(). */
static void finish(gw_posts *posts, gw_post *post)
{
    unlist(posts, post);
    if (post->easy)
        curl_easy_cleanup(post->easy);
    post->easy = NULL;
    post->duration_ms = hw_clock_mono_ms() - post->begun_ms;
    (void)pthread_mutex_lock(&posts->lock);
    posts->n--;
    (void)pthread_mutex_unlock(&posts->lock);
    post->done(post);
}

static void begin(gw_posts *posts, gw_post *post)
{
    post->previous = NULL;
    post->next = posts->running;
    if (post->next)
        post->next->previous = post;
    posts->running = post;
    post->begun_ms = hw_clock_mono_ms();
    post->easy = curl_easy_init();
    if (post->easy && set_limits(post->easy, post) && set_ways(post->easy, post) &&
        set_content(post->easy, post) &&
        curl_multi_add_handle(posts->multi, post->easy) == CURLM_OK)
        return;
    (void)snprintf(post->error, sizeof post->error, "the request could not be made");
    finish(posts, post);
}

/* ------------------------------------------------------------------ outcome */

static void judge_answer(gw_post *post)
{
    curl_off_t after_s = 0;
    long status = 0;

    (void)curl_easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(post->easy, CURLINFO_RETRY_AFTER, &after_s);
    post->http_status = status;
    if (status >= 300 && status < 400)
        (void)snprintf(post->error, sizeof post->error, "HTTP %ld: redirects are not followed",
                       status);
    else if (status < 200 || status >= 300)
        (void)snprintf(post->error, sizeof post->error, "HTTP %ld", status);
    if ((status == 429 || status == 503) && after_s > 0)
        post->retry_after_ms =
            after_s < RETRY_AFTER_MAX_MS / 1000 ? after_s * 1000 : RETRY_AFTER_MAX_MS;
}

/* I5: curl_easy_strerror() has constant texts only. */
static void judge_failure(gw_post *post, CURLcode code)
{
    long os_error = 0;
    char why[128] = "";

    (void)curl_easy_getinfo(post->easy, CURLINFO_OS_ERRNO, &os_error);
    if (post->refused)
        (void)snprintf(post->error, sizeof post->error,
                       "the address is not a public one, and only --webhooks-private allows that");
    else if (code == CURLE_OPERATION_TIMEDOUT)
        (void)snprintf(post->error, sizeof post->error, "no whole answer within %lld ms",
                       (long long)post->timeout_ms);
    else if (code == CURLE_WRITE_ERROR)
        (void)snprintf(post->error, sizeof post->error, "the answer's headers are too long");
    else {
        if (code == CURLE_COULDNT_CONNECT && os_error > 0) {
            errno = (int)os_error;
            (void)snprintf(why, sizeof why, "%m");
        }
        (void)snprintf(post->error, sizeof post->error, "%s%s%s", curl_easy_strerror(code),
                       why[0] ? ": " : "", why);
    }
}

static void take_ended(gw_posts *posts)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(posts->multi, &left))) {
        CURLcode code = message->data.result;
        CURL *easy = message->easy_handle;
        char *at = NULL;
        gw_post *post;

        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &at);
        post = (gw_post *)(void *)at;
        if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && post->truncated))
            judge_answer(post);
        else
            judge_failure(post, code);
        (void)curl_multi_remove_handle(posts->multi, easy);
        finish(posts, post);
    }
}

/* ---------------------------------------------------------------- the thread */

static void give_up_all(gw_posts *posts)
{
    while (posts->running) {
        gw_post *post = posts->running;

        (void)curl_multi_remove_handle(posts->multi, post->easy);
        post->given_up = true;
        (void)snprintf(post->error, sizeof post->error, "the gateway was stopped meanwhile");
        finish(posts, post);
    }
}

/* How long to wait for the network; negative: all is over. */
static int64_t take_inbox(gw_posts *posts)
{
    int64_t wait_ms = POLL_MS;
    gw_post *post;

    (void)pthread_mutex_lock(&posts->lock);
    post = posts->inbox;
    posts->inbox = NULL;
    if (posts->ending) {
        wait_ms = posts->until_ms - hw_clock_mono_ms();
        if (wait_ms < 0 || posts->n == 0)
            wait_ms = -1;
        else if (wait_ms > POLL_MS)
            wait_ms = POLL_MS;
    }
    (void)pthread_mutex_unlock(&posts->lock);
    while (post) {
        gw_post *next = post->next;

        begin(posts, post);
        post = next;
    }
    return wait_ms;
}

static void *work(void *arg)
{
    gw_posts *posts = arg;
    int64_t wait_ms;
    int running = 0;

    while ((wait_ms = take_inbox(posts)) >= 0) {
        (void)curl_multi_perform(posts->multi, &running);
        take_ended(posts);
        (void)curl_multi_poll(posts->multi, NULL, 0, (int)wait_ms, NULL);
    }
    give_up_all(posts);
    return NULL;
}

bool gw_posts_put(gw_posts *posts, gw_post *post)
{
    bool fits;

    post->posts = posts;
    post->http_status = HOWDAH_ABSENT;
    post->retry_after_ms = -1;
    (void)pthread_mutex_lock(&posts->lock);
    fits = !posts->ending && posts->n < POSTS_MAX;
    if (fits) {
        post->next = posts->inbox;
        posts->inbox = post;
        posts->n++;
    }
    (void)pthread_mutex_unlock(&posts->lock);
    if (fits)
        (void)curl_multi_wakeup(posts->multi);
    return fits;
}

/* ------------------------------------------------------------- begin and end */

int gw_posts_new(bool anywhere, gw_posts **ret_posts, howdah_error *reterr)
{
    gw_posts *posts = hw_calloc(1, sizeof *posts);

    if (!posts)
        return hw_fail_no_memory(reterr);
    posts->anywhere = anywhere;
    (void)pthread_mutex_init(&posts->lock, NULL);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
        posts->multi = curl_multi_init();
    if (!posts->multi ||
        curl_multi_setopt(posts->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS_MAX) != CURLM_OK) {
        gw_posts_free(posts);
        return hw_fail_no_memory(reterr);
    }
    if (pthread_create(&posts->thread, NULL, work, posts) != 0) {
        gw_posts_free(posts);
        return hw_fail(reterr, HOWDAH_FAILED, "no thread could be started");
    }
    posts->started = true;
    *ret_posts = posts;
    return HOWDAH_OK;
}

void gw_posts_end(gw_posts *posts, int64_t until_ms)
{
    (void)pthread_mutex_lock(&posts->lock);
    if (!posts->ending || until_ms < posts->until_ms)
        posts->until_ms = until_ms;
    posts->ending = true;
    (void)pthread_mutex_unlock(&posts->lock);
    (void)curl_multi_wakeup(posts->multi);
}

void gw_posts_free(gw_posts *posts)
{
    if (!posts)
        return;
    if (posts->started) {
        gw_posts_end(posts, hw_clock_mono_ms());
        (void)pthread_join(posts->thread, NULL);
    }
    if (posts->multi)
        (void)curl_multi_cleanup(posts->multi);
    (void)pthread_mutex_destroy(&posts->lock);
    hw_free(posts);
}
