/*
 * bell.c - sleeping until something happens, and waking those who sleep.
 *
 * A sleeper listens, arms the bell (sets its bits in the mark), looks once more, and waits.  A
 * writer that finds the mark set for its types rings: NOTIFY on their channels, and the bits are
 * cleared.  So nobody pays for NOTIFY while everybody is busy.  The SQL functions ring by
 * themselves; sessions of ours learn the mark from the append itself and ring after its commit.
 *
 *   I1  A ring is a hint: lost ones, late ones and needless ones do no harm.
 *   I2  A ring after an append does not keep its caller waiting: it is sent, and the next statement
 *       takes its answer in.
 *   I3  Not more than one ring in RING_PAUSE_MS; the mark stays set meanwhile, so the next append
 *       sees it again.
 *   I4  "a.b" and "a_b" share a channel: the payload is the type, and decides.
 *   I5  In the caller's transaction, which the caller commits, the ring is part of it, where
 *       that is possible (the SQL function ring_inside() decides).  It has a savepoint of its
 *       own, because a hint must not break the append that it is about.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "engine/channel.h"
#include "store/pg/pg.h"

#define RING_PAUSE_MS 2
#define WAIT_SLICE_MS 60000
#define LISTEN_BYTES_MAX ((size_t)16 * 1024 * 1024)

void hw_pg_bell_init(hw_pg *pg)
{
    pg->bell = (hw_pg_bell){.epoll_fd = -1, .event_fd = -1, .socket = -1};
}

/*
 * The connection is gone, and LISTEN with it.  rung stays as it is: one look too many does no
 * harm (I1).
 */
void hw_pg_bell_forget(hw_pg *pg)
{
    pg->bell.listening = false;
    pg->bell.ringing = false;
    pg->bell.mask = 0;
    pg->bell.general = false;
    pg->bell.socket = -1; /* closed, and so not watched any more */
    hw_free(pg->bell.types);
    pg->bell.types = NULL;
}

void hw_pg_bell_done(hw_pg *pg)
{
    hw_pg_bell_forget(pg);
    if (pg->bell.epoll_fd >= 0)
        (void)close(pg->bell.epoll_fd);
    if (pg->bell.event_fd >= 0)
        (void)close(pg->bell.event_fd);
}

/*
 * A caller that finds another number has lost its locks and its LISTEN, and has to get them
 * again.
 */
int hw_pg_session_number(hw_store *store, uint64_t *ret_session, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int s;

    /* A page that is under way (pg.h I4) is this session's, and so is all that came before it.
       Whether the session is still there is seen when the page is wanted: to wait for it here would
       let the server idle while this page is handled. */
    if (pg->in_flight && PQstatus(pg->conn) == CONNECTION_OK) {
        *ret_session = pg->session;
        return HOWDAH_OK;
    }
    s = hw_pg_ready(pg, reterr);
    if (s >= 0)
        *ret_session = pg->session;
    return s;
}

/* ------------------------------------------------------------------ listening */

/* A channel's name is the same as in SQL (engine/channel.h), where it is made of an MD5. */
static int put_listen(const hw_pg *pg, hw_buf *sql, hw_str type, howdah_error *reterr)
{
    char channel[HW_CHANNEL_SIZE];

    if (!hw_channel_name(hw_str_of(pg->schema), type, channel))
        return hw_fail(reterr, HOWDAH_FAILED, "no MD5 in this OpenSSL: a channel has no name");
    hw_buf_puts(sql, "; LISTEN ");
    hw_pg_quote_ident(sql, channel);
    return HOWDAH_OK;
}

/* One text, and so one transaction: there is no moment in which the session hears nothing. */
static int make_listen(const hw_pg *pg, bool general, const hw_str *types, size_t n, hw_buf *sql,
                       howdah_error *reterr)
{
    char control[HW_CHANNEL_SIZE];
    int s = HOWDAH_OK;

    hw_channel_control(hw_str_of(pg->schema), control);
    hw_buf_puts(sql, "UNLISTEN *; LISTEN ");
    hw_pg_quote_ident(sql, control);
    if (general)
        s = put_listen(pg, sql, HW_STR_NULL, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++)
        s = put_listen(pg, sql, types[i], reterr);
    return s < 0 ? s : hw_buf_check(sql, reterr);
}

/* The types one after the other, an empty one at the end; the caller frees it. */
static char *keep_types(const hw_str *types, size_t n)
{
    size_t room = 1;
    char *kept;
    char *at;

    for (size_t i = 0; i < n; i++)
        room += types[i].len + 1;
    kept = at = hw_alloc(room);
    if (!kept)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        memcpy(at, types[i].s, types[i].len);
        at += types[i].len;
        *at++ = '\0';
    }
    *at = '\0';
    assert((size_t)(at - kept) == room - 1);
    return kept;
}

/*
 * Behind a pooler, on a standby and on the caller's connection no NOTIFY reaches us: the caller
 * polls (HOWDAH_END).  Memory is taken before LISTEN is sent, so that what we hear and what we
 * wait for agree.
 */
int hw_pg_listen(hw_store *store, bool general, const hw_str *types, size_t types_n,
                 howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_buf sql = HW_BUF_INIT(LISTEN_BYTES_MAX);
    char *kept = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    if (pg->pooled || pg->recovery || pg->caller_owned)
        return HOWDAH_END;
    s = make_listen(pg, general, types, types_n, &sql, reterr);
    if (s >= 0 && !(kept = keep_types(types, types_n)))
        s = hw_fail_no_memory(reterr);
    if (s >= 0)
        s = hw_pg_command(pg, hw_buf_str(&sql), reterr);
    hw_buf_done(&sql);
    if (s < 0) {
        hw_free(kept);
        return s;
    }
    hw_free(pg->bell.types);
    pg->bell.types = kept;
    pg->bell.general = general;
    pg->bell.listening = true;
    pg->bell.mask = general ? hw_channel_bit(HW_STR_NULL) : 0;
    for (size_t i = 0; i < types_n; i++)
        pg->bell.mask |= hw_channel_bit(types[i]);
    return HOWDAH_OK;
}

/*
 * I4.  A notification without a payload is of the general channel, or calls owners and
 * standbys.
 */
static bool concerns_us(const hw_pg_bell *bell, const char *type)
{
    if (!*type)
        return true;
    for (const char *t = bell->types; t && *t; t += strlen(t) + 1)
        if (strcmp(t, type) == 0)
            return true;
    return false;
}

/*
 * The event descriptor follows the flag: hw_pg_fd() is readable while something is to be looked
 * at.
 */
static void set_rung(hw_pg *pg, bool rung)
{
    uint64_t count = 1;

    if (pg->bell.rung == rung)
        return;
    pg->bell.rung = rung;
    if (pg->bell.event_fd < 0)
        return;
    if ((rung ? write(pg->bell.event_fd, &count, sizeof count)
              : read(pg->bell.event_fd, &count, sizeof count)) < 0) {
        /* EAGAIN: it is as we want it. */
    }
}

/* libpq takes notifications in with any answer and keeps them until they are asked for. */
void hw_pg_bell_hear(hw_pg *pg)
{
    PGnotify *note;

    while (pg->conn && (note = PQnotifies(pg->conn))) {
        if (concerns_us(&pg->bell, note->extra))
            set_rung(pg, true);
        PQfreemem(note);
    }
}

/* -------------------------------------------------------------------- sleeping */

/*
 * After LISTEN and before the last look: whatever is appended after that look finds the mark
 * set.
 */
int hw_pg_arm(hw_store *store, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_BELL_ARM};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    /* Who hears nothing, or may write nothing, polls. */
    if (s < 0 || !pg->bell.listening || pg->bell.mask == 0 || pg->read_only)
        return s;
    hw_pg_param_int8(&call, pg->bell.mask);
    s = hw_pg_exec(pg, &call, &result, reterr);
    PQclear(result);
    return s;
}

/* Sleeps until there is something to read; OK, END when the time is over, INTERRUPTED. */
static int sleep_on(const hw_pg *pg, int64_t until_ms, howdah_error *reterr)
{
    assert(pg->conn);
    for (;;) {
        struct pollfd p[2] = {{.fd = PQsocket(pg->conn), .events = POLLIN},
                              {.fd = pg->interrupt ? pg->interrupt->fd : -1, .events = POLLIN}};
        int64_t left = until_ms - hw_clock_mono_ms();
        int n = poll(p, 2, left <= 0 ? 0 : left > WAIT_SLICE_MS ? WAIT_SLICE_MS : (int)left);

        if (n > 0 && p[1].revents)
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        if (n > 0)
            return HOWDAH_OK;
        if (n < 0 && errno != EINTR)
            return hw_fail(reterr, HOWDAH_FAILED, "poll: %s", strerrordesc_np(errno));
        if (left <= 0)
            return HOWDAH_END;
    }
}

/*
 * Waits for the socket, and not for a statement: an idle server speaks only to notify, or to
 * end the session.
 */
int hw_pg_wait(hw_store *store, int64_t ms, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int64_t until_ms = hw_clock_mono_ms() + ms;
    int s = HOWDAH_OK;

    if (hw_interrupted(pg->interrupt))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    hw_pg_drain_reply(pg);
    while (s == HOWDAH_OK) {
        if (!pg->conn)
            return hw_fail(reterr, HOWDAH_UNAVAILABLE, "not connected");
        (void)PQisBusy(pg->conn); /* hands notices to their receiver */
        if (pg->ended)
            return hw_pg_lost(pg, false, false, reterr);
        hw_pg_bell_hear(pg);
        if (pg->bell.rung) {
            set_rung(pg, false);
            return HOWDAH_OK;
        }
        s = sleep_on(pg, until_ms, reterr);
        if (s == HOWDAH_OK && !PQconsumeInput(pg->conn))
            return hw_pg_lost(pg, false, false, reterr);
    }
    return s;
}

static void watch(const hw_pg_bell *bell, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    (void)epoll_ctl(bell->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/*
 * One descriptor for as long as the store lives, whatever connection there is.  A closed socket
 * has left the epoll set by itself.
 */
int hw_pg_fd(hw_store *store)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_bell *bell = &pg->bell;

    if (bell->epoll_fd < 0) {
        bell->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        bell->event_fd = eventfd(bell->rung, EFD_CLOEXEC | EFD_NONBLOCK);
        if (bell->epoll_fd >= 0 && bell->event_fd >= 0)
            watch(bell, bell->event_fd);
    }
    if (bell->epoll_fd >= 0 && pg->conn && bell->socket != PQsocket(pg->conn)) {
        bell->socket = PQsocket(pg->conn);
        watch(bell, bell->socket);
    }
    return bell->epoll_fd;
}

/* --------------------------------------------------------------------- ringing */

/* out holds the types as an array; NO_MEMORY when it could not be built. */
static int call_of_ring(hw_pg_call *call, hw_pg_statement statement, const hw_buf *out)
{
    if (out->broken)
        return HOWDAH_NO_MEMORY;
    *call = (hw_pg_call){.statement = (int)statement};
    hw_pg_param_bin(call, out->data, out->len);
    return HOWDAH_OK;
}

/* For what is not an append: its answer is waited for, and its error reported. */
int hw_pg_ring(hw_store *store, const hw_str *types, size_t types_n, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call;
    PGresult *result = NULL;
    hw_pg_array array;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_buf_clear(&pg->params);
    hw_pg_array_begin(&pg->params, HW_OID_TEXT, types_n, &array);
    for (size_t i = 0; i < types_n; i++)
        hw_pg_array_put(&pg->params, types[i].s, types[i].len);
    if (call_of_ring(&call, HW_PG_BELL_RING, &pg->params) < 0)
        return hw_fail_no_memory(reterr);
    s = hw_pg_exec(pg, &call, &result, reterr);
    PQclear(result);
    return s;
}

int hw_pg_bell_call(hw_pg *pg, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_BELL_CALL};
    PGresult *result = NULL;
    int s = hw_pg_exec(pg, &call, &result, reterr);

    PQclear(result);
    return s;
}

/* Several types share a bit of the mark: a ring that nobody needs is the price (I1). */
static bool is_awaited(int64_t mark, const howdah_event *const *events, size_t n)
{
    bool awaited = (mark & hw_channel_bit(HW_STR_NULL)) != 0;

    for (size_t i = 0; i < n && !awaited; i++)
        awaited = (mark & hw_channel_bit(events[i]->type)) != 0;
    return awaited;
}

/* I5.  Its errors are dropped: the append is done, and the ring was a hint. */
static void ring_inside(hw_pg *pg)
{
    bool inside = PQtransactionStatus(pg->conn) == PQTRANS_INTRANS;
    hw_pg_call call;
    PGresult *result = NULL;
    int s;

    assert(pg->caller_owned && pg->conn);
    if (call_of_ring(&call, HW_PG_BELL_RING_INSIDE, &pg->params) < 0)
        return;
    if (inside && hw_pg_command(pg, "SAVEPOINT howdah_ring", NULL) < 0)
        return;
    s = hw_pg_exec(pg, &call, &result, NULL);
    PQclear(result);
    if (inside)
        (void)hw_pg_command(pg,
                            s >= 0 ? "RELEASE SAVEPOINT howdah_ring"
                                   : "ROLLBACK TO SAVEPOINT howdah_ring;"
                                     "RELEASE SAVEPOINT howdah_ring",
                            NULL);
}

/*
 * I2, I3.  The mark was read by the append itself: while nobody sleeps, this costs a
 * comparison.  Sessions that go through the SQL functions do not ring here: those do it
 * themselves.
 */
void hw_pg_bell_after(hw_pg *pg, int64_t mark, const howdah_event *const *events, size_t n)
{
    int64_t now_ms = hw_clock_mono_ms();
    hw_pg_call call;
    hw_pg_array array;

    if (mark == 0 || !pg->conn || !(pg->rings || (pg->caller_owned && pg->may_ring)) ||
        now_ms - pg->bell.rung_ms < RING_PAUSE_MS || !is_awaited(mark, events, n))
        return;
    hw_buf_clear(&pg->params);
    hw_pg_array_begin(&pg->params, HW_OID_TEXT, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put(&pg->params, events[i]->type.s, events[i]->type.len);
    pg->bell.rung_ms = now_ms;
    if (pg->caller_owned)
        ring_inside(pg);
    else if (call_of_ring(&call, HW_PG_BELL_RING, &pg->params) >= 0)
        pg->bell.ringing = hw_pg_send(pg, &call, NULL) >= 0;
}

/* I2.  A lost ring is logged, and no more (I1). */
void hw_pg_bell_drain_reply(hw_pg *pg)
{
    hw_pg_call call = {.statement = -1};
    PGresult *result = NULL;
    howdah_error err; /* large, and every statement passes here: cleared when it is needed */

    if (!pg->bell.ringing)
        return;
    err = (howdah_error)HOWDAH_ERROR_INIT;
    pg->bell.ringing = false;
    if (hw_pg_collect(pg, &call, &result, &err) < 0)
        hw_log(HOWDAH_LOG_DEBUG, "ringing the bell failed: %s", err.message);
    PQclear(result);
}
