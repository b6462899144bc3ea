/* board.c - a process that has reserved a group; see board.h. */
#include "board.h"

#include <stdio.h>
#include <string.h>

#include "engine/range_board.h"

enum { NUMBERS = 120, STREAMS = 8, SLOTS = 6, PAGE_EVENTS = 8, STEPS = 600, HEAL_STEPS = 20000 };

typedef struct number {
    int stream;
    enum { DRAWN, COMMITTED, NEVER } fate;
    bool given;  /* it is in a page of this reservation */
    bool done;   /* handled, as far as this process knows */
    bool stored; /* and as far as the store does */
} number;

typedef struct page {
    int64_t events[PAGE_EVENTS];
    int n;
} page;

typedef struct slot {
    enum { IDLE, READS, HANDLES } does;
    size_t range;       /* READS: of this page */
    hw_board_part part; /* HANDLES */
    int stream;         /* of it: each has a lane of its own */
    int64_t event;      /* in hand */
} slot;

typedef struct reserved {
    sim_dice dice;
    bool show;
    number numbers[NUMBERS + 1];
    int64_t drawn;
    int64_t high; /* all up to here were given out once, or were missing then */
    int streams;
    int slots_n;
    int64_t page_numbers;
    uint32_t kill, end, let_go, late; /* chances */
    hw_board board;
    page pages[HW_BOARD_RANGES];
    int64_t pages_n;
    slot slots[SLOTS];
    uint64_t trace;
    bool violated;
    char what[CHECK_WHAT];
} reserved;

static void tell(reserved *v, const char *what, int64_t who, int64_t event)
{
    uint64_t line = dice_hash((uint64_t)who, (uint64_t)event, (uint8_t)what[0]);

    v->trace = dice_hash(v->trace, line, 0);
    if (v->show)
        printf("# %-8s %2lld %4lld\n", what, (long long)who, (long long)event);
}

static void violate(reserved *v, int64_t event, const char *what)
{
    if (!v->violated)
        (void)snprintf(v->what, sizeof v->what, "event %lld: %s", (long long)event, what);
    v->violated = true;
}

/* ------------------------------------------------------------------- writers */

static bool is_writing(const reserved *v, int stream)
{
    for (int64_t i = 1; i <= v->drawn; i++)
        if (v->numbers[i].stream == stream && v->numbers[i].fate == DRAWN)
            return true;
    return false;
}

/* A transaction has drawn some numbers, and has the stream until it ends. */
static void draw(reserved *v)
{
    int stream = (int)dice_roll(&v->dice, (uint32_t)v->streams);
    int64_t n = dice_between(&v->dice, 1, 4);

    if (is_writing(v, stream))
        return;
    while (n-- > 0 && v->drawn < NUMBERS)
        v->numbers[++v->drawn] = (number){.stream = stream};
}

/* The numbers of a stream that are drawn become events, or never will. */
static void end_writer(reserved *v, int stream, bool commits)
{
    for (int64_t i = 1; i <= v->drawn; i++)
        if (v->numbers[i].stream == stream && v->numbers[i].fate == DRAWN) {
            v->numbers[i].fate = commits ? COMMITTED : NEVER;
            tell(v, commits ? "commit" : "rollback", stream, i);
        }
}

/* --------------------------------------------------------------------- pages */

static bool is_to_come(const number *e)
{
    return e->fate == COMMITTED && !e->given && !e->stored;
}

static void put(reserved *v, page *p, int64_t event)
{
    p->events[p->n++] = event;
    v->numbers[event].given = true;
}

/* Those that were missing when their range was taken, or come again; else the next of the log. */
static bool fill(reserved *v, page *p)
{
    p->n = 0;
    for (int64_t i = 1; i <= v->high && p->n < PAGE_EVENTS; i++)
        if (is_to_come(&v->numbers[i]))
            put(v, p, i);
    if (p->n > 0)
        return true;
    if (v->high == v->drawn)
        return false;
    for (int64_t i = 0; i < v->page_numbers && v->high < v->drawn; i++)
        if (is_to_come(&v->numbers[++v->high]))
            put(v, p, v->high);
    return true;
}

static bool announce(reserved *v, slot *t)
{
    page p;

    if (hw_board_is_full(&v->board) || !fill(v, &p))
        return false;
    t->does = READS;
    t->range = hw_board_announce(&v->board, ++v->pages_n);
    v->pages[t->range] = p;
    tell(v, "announce", (int64_t)t->range, p.n);
    return true;
}

static unsigned lane_of(int stream)
{
    return (unsigned)(stream * 9);
}

/* What is through is acked: the store forgets it. */
static void pop(reserved *v)
{
    size_t at;

    while (hw_board_pop(&v->board, &at))
        for (int i = 0; i < v->pages[at].n; i++) {
            number *e = &v->numbers[v->pages[at].events[i]];

            if (!e->done)
                violate(v, v->pages[at].events[i], "G1: it is acked, and was never handled");
            e->stored = true;
        }
}

static void read_page(reserved *v, slot *t)
{
    const page *p = &v->pages[t->range];
    uint64_t lanes = 0;

    for (int i = 0; i < p->n; i++)
        lanes |= UINT64_C(1) << lane_of(v->numbers[p->events[i]].stream);
    hw_board_read(&v->board, t->range, lanes);
    t->does = IDLE;
    pop(v);
}

/* ------------------------------------------------------------------ handling */

/* The next one of the part; 0: none. */
static int64_t next_of(const reserved *v, const slot *t)
{
    const page *p = &v->pages[t->part.range];

    for (int i = 0; i < p->n; i++)
        if (v->numbers[p->events[i]].stream == t->stream && !v->numbers[p->events[i]].done)
            return p->events[i];
    return 0;
}

/* G2, G3. */
static void begin(reserved *v, slot *t)
{
    t->event = next_of(v, t);
    tell(v, "begin", t - v->slots, t->event);
    for (int64_t i = 1; i < t->event; i++)
        if (v->numbers[i].stream == t->stream && v->numbers[i].fate == COMMITTED &&
            !v->numbers[i].done)
            violate(v, t->event, "G2: before an earlier one of its stream");
    for (int k = 0; k < v->slots_n; k++)
        if (&v->slots[k] != t && v->slots[k].does == HANDLES && v->slots[k].stream == t->stream)
            violate(v, t->event, "G3: its stream has two holders");
}

static bool claim(reserved *v, slot *t)
{
    if (!hw_board_claim(&v->board, &t->part))
        return false;
    t->does = HANDLES;
    for (t->stream = 0; lane_of(t->stream) != t->part.lane;)
        t->stream++;
    begin(v, t);
    return true;
}

static void handled(reserved *v, slot *t)
{
    bool more;

    v->numbers[t->event].done = true;
    tell(v, "handled", t - v->slots, t->event);
    more = next_of(v, t) > 0;
    if (more && !dice_chance(&v->dice, v->let_go)) {
        begin(v, t);
        return;
    }
    hw_board_finish(&v->board, t->part, !more);
    t->does = IDLE;
    pop(v);
}

static void slot_step(reserved *v, slot *t)
{
    if (t->does == READS)
        read_page(v, t);
    else if (t->does == HANDLES)
        handled(v, t);
    else if (!claim(v, t))
        (void)announce(v, t);
}

/* -------------------------------------------------------------------- troubles */

/* The next one gets what the store does not know to be done. */
static void begin_anew(reserved *v)
{
    for (int64_t i = 1; i <= v->drawn; i++) {
        v->numbers[i].given = false;
        v->numbers[i].done = v->numbers[i].stored;
    }
    v->board = (hw_board){.n = 0};
    memset(v->slots, 0, sizeof v->slots);
}

/* What threads have in hand becomes batches of their own, which end well or badly. */
static void end_reservation(reserved *v)
{
    for (int i = 0; i < v->slots_n; i++)
        if (v->slots[i].does == HANDLES && dice_roll(&v->dice, 2))
            v->numbers[v->slots[i].event].done = true;
    for (int64_t i = 1; i <= v->drawn; i++)
        v->numbers[i].stored = v->numbers[i].done;
    begin_anew(v);
}

static void step(reserved *v)
{
    int stream = (int)dice_roll(&v->dice, (uint32_t)v->streams);

    if (dice_roll(&v->dice, 6) == 0)
        draw(v);
    if (dice_chance(&v->dice, v->late))
        end_writer(v, stream, dice_roll(&v->dice, 5) > 0);
    if (dice_chance(&v->dice, v->kill)) {
        tell(v, "kill", 0, 0);
        begin_anew(v);
    } else if (dice_chance(&v->dice, v->end)) {
        tell(v, "end", 0, 0);
        end_reservation(v);
    }
    slot_step(v, &v->slots[dice_roll(&v->dice, (uint32_t)v->slots_n)]);
}

static int64_t unfinished(const reserved *v)
{
    for (int64_t i = 1; i <= v->drawn; i++)
        if (v->numbers[i].fate == COMMITTED && !v->numbers[i].stored)
            return i;
    return 0;
}

static void heal(reserved *v)
{
    for (int stream = 0; stream < v->streams; stream++)
        end_writer(v, stream, true);
    for (int i = 0; i < HEAL_STEPS && unfinished(v) > 0 && !v->violated; i++)
        slot_step(v, &v->slots[i % v->slots_n]);
    if (unfinished(v) > 0)
        violate(v, unfinished(v), "G1: it was never handled");
}

void board_run(uint64_t seed, planted_bug bug, bool show, sim_result *ret_result)
{
    reserved v = {.dice.state = dice_hash(seed, 2, 2), .show = show};

    planted_now = bug;
    v.streams = 1 + (int)dice_roll(&v.dice, STREAMS - 1);
    v.slots_n = 1 + (int)dice_roll(&v.dice, SLOTS);
    v.page_numbers = dice_between(&v.dice, 1, PAGE_EVENTS);
    v.kill = dice_roll(&v.dice, 2) ? dice_roll(&v.dice, 100) : 0;
    v.end = dice_roll(&v.dice, 2) ? dice_roll(&v.dice, 200) : 0;
    v.let_go = dice_roll(&v.dice, 2) ? dice_roll(&v.dice, 3000) : 0;
    v.late = 300 + dice_roll(&v.dice, 5000);
    for (int i = 0; i < STEPS && !v.violated; i++)
        step(&v);
    heal(&v);
    *ret_result = (sim_result){.violated = v.violated, .trace = v.trace};
    memcpy(ret_result->what, v.what, sizeof ret_result->what);
}
