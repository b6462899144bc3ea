/* subs_help.c - subscribers as processes. */
#include "subs_help.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"

#define END_MS 20000

static howdah_error error = HOWDAH_ERROR_INIT;

#define sh_ok(call)                                                                                \
    do {                                                                                           \
        int sh_status = (call);                                                                    \
        if (sh_status < 0)                                                                         \
            fail_msg("%s: %s %s", #call, howdah_status_name(sh_status), error.message);            \
    } while (0)

sh_board *sh_board_new(void)
{
    sh_board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(board != MAP_FAILED);
    return board;
}

void sh_board_free(sh_board *board)
{
    (void)munmap(board, sizeof *board);
}

void sh_let_term(bool let)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    assert_int_equal(sigprocmask(let ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL), 0);
}

/* ---- inside the process */

static howdah_bus *child_bus;

static void on_term(int signal)
{
    (void)signal;
    howdah_interrupt(child_bus); /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
}

static bool is_type(const howdah_event *event, const char *type)
{
    return strcmp(howdah_event_type(event), type) == 0;
}

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    const sh_hand *hand = ctx;
    sh_board *board = hand->board;
    size_t at = atomic_fetch_add(&board->n, 1);
    sh_sight sight = {.sequence = howdah_event_global_sequence(event),
                      .at_ms = hw_clock_mono_ms(),
                      .stream = (int32_t)strtol(howdah_event_stream(event) + 1, NULL, 10),
                      .version = (int32_t)howdah_event_version(event),
                      .who = hand->who,
                      .attempt = howdah_delivery_attempt(delivery)};

    if (at >= SH_SEEN_MAX)
        _exit(70);
    board->seen[at] = sight;
    atomic_store(&board->there[at], true);
    if (hand->o.checkpoint == HOWDAH_CHECKPOINT_TRANSACTIONAL &&
        !hand->stage->effect(hand->stage, delivery, &sight))
        return howdah_delivery_fail(delivery, "the effect failed");
    if (is_type(event, "poison"))
        (void)kill(getpid(), SIGKILL);
    if (is_type(event, "exit"))
        _exit(9);
    if (is_type(event, "slow"))
        (void)usleep(SH_SLOW_MS * 1000);
    if (is_type(event, "work"))
        (void)usleep(hw_random_u32() % 5000);
    (void)atomic_fetch_add(&board->ended, 1);
    return is_type(event, "fail") ? howdah_delivery_fail(delivery, "failed") : HOWDAH_HANDLED;
}

static void be_subscriber(sh_hand hand)
{
    howdah_subscription *sub = NULL;
    char url[1400];
    int s;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (hand.failpoint)
        (void)setenv("HOWDAH_FAILPOINT", hand.failpoint, 1);
    (void)snprintf(url, sizeof url, "%s", hand.url ? hand.url : hand.stage->url);
    if (hand.app)
        (void)snprintf(url + strlen(url), sizeof url - strlen(url), "%capplication_name=%s",
                       strchr(url, '?') ? '&' : '?', hand.app);
    hand.o.handler = on_event;
    hand.o.ctx = &hand;
    s = howdah_open(url, hand.stage->settings, &child_bus, &error);
    if (s >= 0)
        s = howdah_subscribe(child_bus, &hand.o, &sub, &error);
    if (s >= 0) {
        (void)signal(SIGTERM, on_term);
        sh_let_term(
            true); /* one that came before is delivered now; howdah_run() then ends at once */
        s = howdah_run(child_bus, -1, &error);
        if (s == HOWDAH_INTERRUPTED)
            s = HOWDAH_OK;
    }
    if (s < 0)
        (void)fprintf(stderr, "# %s: %s %s\n", hand.o.subscriber_id, howdah_status_name(s),
                      error.message);
    howdah_close(child_bus);
    _exit(s < 0 ? 3 : 0);
}

/* ---- outside */

howdah_subscribe_options sh_options(const sh_stage *stage, const char *subscriber_id,
                                    howdah_checkpoint_mode mode)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    o.subscriber_id = subscriber_id;
    o.checkpoint = mode;
    o.retry_delay_ms = 1;
    o.max_retry_delay_ms = 5;
    o.lease_ms = stage->lease_ms;
    return o;
}

pid_t sh_start(const sh_hand *hand)
{
    pid_t pid;

    sh_let_term(false); /* a child that has no handler yet would die of it */
    pid = fork();
    if (pid == 0)
        be_subscriber(*hand);
    sh_let_term(true);
    assert_true(pid >= 0);
    return pid;
}

int sh_result(pid_t pid)
{
    int64_t until = hw_clock_mono_ms() + SH_PATIENCE_MS;
    int status = 0;
    pid_t got;

    while ((got = waitpid(pid, &status, WNOHANG)) == 0) {
        if (hw_clock_mono_ms() > until) {
            (void)kill(pid, SIGKILL);
            fail_msg("process %d does not end", (int)pid);
        }
        (void)usleep(1000);
    }
    assert_int_equal(got, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void sh_end(pid_t pid)
{
    int64_t start = hw_clock_mono_ms();

    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(sh_result(pid), 0);
    assert_true(hw_clock_mono_ms() - start < END_MS);
}

void sh_kill(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(sh_result(pid), 1000 + SIGKILL);
}

int64_t sh_append(const sh_stage *stage, const char *stream, const char *type)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    howdah_position position = HOWDAH_POSITION_INIT;

    sh_ok(howdah_builder_new(&b, &error));
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, type);
    sh_ok(howdah_builder_build(b, &event, &error));
    sh_ok(howdah_append(stage->bus, event, NULL, &position, &error));
    howdah_event_free(event);
    howdah_builder_free(b);
    return position.global_sequence;
}

static int keep_place(void *ctx, const howdah_subscription_info *info)
{
    sh_place *p = ctx;

    *p = (sh_place){.high = info->high,
                    .contiguous = info->contiguous,
                    .token = info->token,
                    .dead_letters = info->dead_letters,
                    .skips = info->skips,
                    .owned = info->owner[0] != '\0',
                    .state = info->state};
    (void)snprintf(p->owner, sizeof p->owner, "%s", info->owner);
    (void)snprintf(p->reason, sizeof p->reason, "%s", info->reason);
    return 0;
}

sh_place sh_stored(const sh_stage *stage, const char *subscriber_id)
{
    sh_place p = {.high = -1, .contiguous = -1};
    int s = howdah_subscriptions_walk(stage->bus, subscriber_id, keep_place, &p, &error);

    if (s != HOWDAH_NOT_FOUND)
        sh_ok(s);
    return p;
}

void sh_wait_stored(const sh_stage *stage, const char *subscriber_id, int64_t contiguous)
{
    int64_t until = hw_clock_mono_ms() + SH_PATIENCE_MS;
    sh_place p;

    while ((p = sh_stored(stage, subscriber_id)).contiguous < contiguous) {
        if (hw_clock_mono_ms() > until)
            fail_msg("%s is at %lld (high %lld, state %d %s), waited for %lld", subscriber_id,
                     (long long)p.contiguous, (long long)p.high, (int)p.state, p.reason,
                     (long long)contiguous);
        (void)usleep(2000);
    }
}

void sh_wait_seen(const sh_board *board, size_t n, int64_t ms)
{
    int64_t until = hw_clock_mono_ms() + ms;

    while (atomic_load(&board->n) < n || !atomic_load(&board->there[n - 1])) {
        if (hw_clock_mono_ms() > until)
            fail_msg("%zu events were seen, waited for %zu", atomic_load(&board->n), n);
        (void)usleep(500);
    }
}

const char *sh_times(const sh_board *board, int64_t n)
{
    static char text[256];
    size_t seen = atomic_load(&board->n);

    assert_in_range(n, 1, sizeof text - 1);
    memset(text, '0', (size_t)n);
    text[n] = '\0';
    for (size_t i = 0; i < seen; i++) {
        assert_in_range(board->seen[i].sequence, 1, n);
        text[board->seen[i].sequence - 1]++;
    }
    return text;
}

int sh_disorder(const sh_board *board)
{
    int32_t last[SH_STREAMS] = {0};
    size_t seen = atomic_load(&board->n);
    int disorder = 0;

    for (size_t i = 0; i < seen; i++) {
        const sh_sight *s = &board->seen[i];

        assert_in_range(s->stream, 0, SH_STREAMS - 1);
        disorder += s->version > last[s->stream] + 1;
        if (s->version > last[s->stream])
            last[s->stream] = s->version;
    }
    return disorder;
}
