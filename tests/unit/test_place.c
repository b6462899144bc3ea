/* test_place.c - a place as a text, and back. */
#include "unit.h"

#include "engine/place.h"

/* So many of what is random, each of a seed of its own. */
#define TRIES 20000

typedef struct dice {
    uint64_t state;
} dice;

/* splitmix64: the same on every machine. */
static uint64_t throw_dice(dice *d, uint64_t below)
{
    uint64_t x = d->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) % below;
}

/* Of any size: as many digits as come, to base 2. */
static int64_t some_number(dice *d, int64_t max)
{
    int64_t number = (int64_t)(throw_dice(d, UINT64_C(1) << 62) >> throw_dice(d, 62));

    return number <= max ? number : max;
}

static void add(hw_ranges *set, int64_t first, int64_t last)
{
    assert_int_equal(hw_ranges_add(set, first, last, NULL), HOWDAH_OK);
}

static void fill(howdah_place *place, dice *d, size_t ranges)
{
    int64_t first = 1;
    int64_t below;

    *place = (howdah_place)HW_PLACE_INIT;
    place->high = some_number(d, INT64_MAX - 2);
    place->log = throw_dice(d, UINT64_C(1) << 48);
    below = place->high;
    while (below > 0 && place->anchors_n < throw_dice(d, HW_PLACE_ANCHORS + 1)) {
        int64_t sequence = below - some_number(d, below - 1);

        place->anchors[place->anchors_n++] =
            (hw_place_anchor){sequence, throw_dice(d, UINT64_C(1) << 48)};
        below = sequence - 1;
    }
    for (size_t i = 0; i < ranges && first <= place->high; i++) {
        int64_t gap = some_number(d, (place->high - first) / 2);
        int64_t more = some_number(d, (place->high - first - gap) / 2);

        add(&place->outstanding, first + gap, first + gap + more);
        first += gap + more + 2;
    }
}

static void assert_same(const howdah_place *a, const howdah_place *b)
{
    assert_i64_equal(a->high, b->high);
    assert_int_equal(a->log, b->log);
    assert_int_equal(a->anchors_n, b->anchors_n);
    for (size_t i = 0; i < a->anchors_n; i++) {
        assert_i64_equal(a->anchors[i].sequence, b->anchors[i].sequence);
        assert_int_equal(a->anchors[i].hash, b->anchors[i].hash);
    }
    assert_int_equal(a->outstanding.n, b->outstanding.n);
    if (a->outstanding.n > 0)
        assert_memory_equal(a->outstanding.items, b->outstanding.items,
                            a->outstanding.n * sizeof(hw_range));
}

static void assert_header_safe(const char *text)
{
    assert_int_equal(
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"),
        strlen(text));
}

static void a_place_is_written_as_it_was_released(void **state)
{
    static const char text[] = "1.F_.3Az.2.F_.1.F0.zzzzzzzz.0.0.1.2";
    howdah_place place = HW_PLACE_INIT;
    char again[HOWDAH_PLACE_SIZE];

    (void)state;
    assert_int_equal(hw_place_parse(hw_str_of(text), &place, NULL), HOWDAH_OK);
    assert_i64_equal(place.high, 15 * 64 + 63);
    assert_int_equal(place.anchors_n, 2);
    assert_i64_equal(place.anchors[1].sequence, 15 * 64);
    assert_int_equal(place.outstanding.n, 2); /* 1, and 4 to 6 */
    assert_i64_equal(place.outstanding.items[1].first, 4);
    assert_i64_equal(place.outstanding.items[1].last, 6);
    assert_int_equal(hw_place_write(&place, again), strlen(text));
    assert_string_equal(again, text);
    assert_int_equal(hw_place_hash("0123456789abcdef", 16), UINT64_C(0x525b5812399d));
    hw_place_done(&place);
}

static void a_random_place_is_read_as_it_was_written(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        dice d = {seed};
        howdah_place place;
        howdah_place again = HW_PLACE_INIT;
        char text[HOWDAH_PLACE_SIZE];
        size_t len;

        fill(&place, &d, throw_dice(&d, 65));
        len = hw_place_write(&place, text);
        assert_int_equal(len, strlen(text));
        assert_header_safe(text);
        assert_int_equal(hw_place_parse(hw_str_of(text), &again, NULL), HOWDAH_OK);
        assert_same(&place, &again);
        hw_place_done(&place);
        hw_place_done(&again);
    }
}

static void what_does_not_fit_is_joined_and_nothing_is_left_out(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        dice d = {seed};
        size_t ranges = 65 + (size_t)throw_dice(&d, 3000);
        howdah_place place;
        howdah_place again = HW_PLACE_INIT;
        hw_ranges before = HW_RANGES_INIT;
        hw_ranges lost = HW_RANGES_INIT;
        char text[HOWDAH_PLACE_SIZE];

        fill(&place, &d, 0);
        place.high = INT64_MAX - 2;
        for (int64_t first = 1; ranges-- > 0;) {
            int64_t last = first + (int64_t)throw_dice(&d, 9);

            add(&place.outstanding, first, last);
            first = last + 2 + (int64_t)throw_dice(&d, UINT64_C(1) << throw_dice(&d, 50));
        }
        assert_int_equal(hw_ranges_copy(&before, &place.outstanding, NULL), HOWDAH_OK);
        (void)hw_place_write(&place, text);
        assert_int_equal(hw_place_parse(hw_str_of(text), &again, NULL), HOWDAH_OK);
        assert_int_equal(hw_ranges_subtract(&lost, &before, &again.outstanding, NULL), HOWDAH_OK);
        assert_int_equal(lost.n, 0);
        assert_true(again.outstanding.n >= (before.n < 64 ? before.n : 64));
        assert_i64_equal(again.outstanding.items[0].first, 1);
        assert_i64_equal(again.outstanding.items[again.outstanding.n - 1].last,
                         before.items[before.n - 1].last);
        hw_place_done(&place);
        hw_place_done(&again);
        hw_ranges_done(&before);
        hw_ranges_done(&lost);
    }
}

static void the_widest_gaps_are_kept(void **state)
{
    hw_range items[] = {{1, 1}, {3, 3}, {100, 100}, {103, 103}, {500, 500}, {502, 502}};
    hw_ranges set = {items, COUNT_OF(items), COUNT_OF(items)};
    hw_range out[3];

    (void)state;
    assert_int_equal(hw_place_join(out, &set, 3), 3);
    assert_i64_equal(out[0].last, 3);
    assert_i64_equal(out[1].first, 100);
    assert_i64_equal(out[1].last, 103);
    assert_i64_equal(out[2].first, 500);
    assert_i64_equal(out[2].last, 502);
    assert_int_equal(hw_place_join(items, &set, 1), 1);
    assert_i64_equal(items[0].first, 1);
    assert_i64_equal(items[0].last, 502);
}

/* Whatever it is, it is refused, or it is a place with that very text. */
static void assert_judged(const char *text)
{
    howdah_place place = HW_PLACE_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    char again[HOWDAH_PLACE_SIZE];
    int s = hw_place_parse(hw_str_of(text), &place, &err);

    if (s == HOWDAH_INVALID) {
        assert_string_equal(err.field, "place");
        assert_int_equal(place.outstanding.n, 0);
        return;
    }
    assert_int_equal(s, HOWDAH_OK);
    for (size_t i = 0; i < place.outstanding.n; i++) {
        const hw_range *range = &place.outstanding.items[i];

        assert_true(range->first > (i > 0 ? range[-1].last + 1 : 0));
        assert_true(range->first <= range->last && range->last <= place.high);
    }
    assert_true(place.anchors_n == 0 || place.anchors[0].sequence <= place.high);
    assert_int_equal(hw_place_write(&place, again), strlen(text));
    assert_string_equal(again, text);
    hw_place_done(&place);
}

static void mutate(dice *d, char *text, size_t room)
{
    static const char bytes[] = "..019AZaz-_ \n\x7f\xff";
    size_t len = strlen(text);
    size_t at = len > 0 ? (size_t)throw_dice(d, len) : 0;

    switch (throw_dice(d, 4)) {
    case 0:
        text[at] = bytes[throw_dice(d, sizeof bytes - 1)];
        break;
    case 1:
        memmove(text + at, text + at + (len > 0), len - at);
        break;
    case 2:
        text[at] = '\0';
        break;
    default:
        if (len + 12 < room) {
            memmove(text + at + 11, text + at, len - at + 1);
            memcpy(text + at, "7__________", 11);
        }
    }
}

static void a_mutated_text_is_refused_or_is_a_place_of_its_own(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        dice d = {seed};
        howdah_place place;
        char text[HOWDAH_PLACE_SIZE];

        fill(&place, &d, throw_dice(&d, 20));
        (void)hw_place_write(&place, text);
        hw_place_done(&place);
        for (uint64_t n = throw_dice(&d, 4) + 1; n > 0; n--)
            mutate(&d, text, sizeof text);
        assert_judged(text);
    }
}

static void hostile_texts_are_refused_with_their_length(void **state)
{
    static const char *const texts[] = {"1",
                                        "2.0.0.0",
                                        "1.0",
                                        "1.0.0",
                                        "1.0.0.",
                                        ".1.0.0.0",
                                        "1..0.0",
                                        "1.00.0.0",
                                        "1.0.0.8",
                                        "1.8__________.0.0",
                                        "1.zzzzzzzzzzzzzzzzzzzz.0.0",
                                        "1.5.zzzzzzzzz.0",
                                        "1.5.0.1.6.0",
                                        "1.5.0.1.0.0",
                                        "1.5.0.2.3.0.3.0",
                                        "1.5.0.1.3",
                                        "1.5.0.0.1",
                                        "1.5.0.0.5.0",
                                        "1.5.0.0.0.5",
                                        "1.5.0.0.0.0.3.1",
                                        "1.0.0.0.0.0",
                                        "1.5.0.0.0.0\r\nX: y",
                                        "42",
                                        "-1",
                                        "1.5.0.0 "};
    char text[HOWDAH_PLACE_SIZE + 1];
    howdah_place place = HW_PLACE_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char got[40];

        (void)snprintf(got, sizeof got, "got %zu bytes", strlen(texts[i]));
        if (hw_place_parse(hw_str_of(texts[i]), &place, &err) != HOWDAH_INVALID)
            fail_msg("%s is taken", texts[i]);
        assert_string_equal(err.field, "place");
        assert_non_null(strstr(err.message, got));
    }
    assert_int_equal(hw_place_parse(hw_str_of(""), &place, &err), HOWDAH_INVALID);
    memset(text, '0', sizeof text);
    text[HOWDAH_PLACE_SIZE] = '\0';
    assert_int_equal(hw_place_parse(hw_str_of(text), &place, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "place: must be 1 to 2047 bytes, got 2048");
}

static void a_place_covers_what_was_handed_out(void **state)
{
    howdah_place *place = NULL;

    (void)state;
    assert_int_equal(howdah_place_new("1.9.0.0.1.0.2.1", &place, NULL), HOWDAH_OK); /* 2, 6, 7 */
    for (int64_t sequence = 1; sequence <= 12; sequence++)
        assert_int_equal(howdah_place_covers(place, sequence),
                         sequence <= 9 && sequence != 2 && sequence != 6 && sequence != 7);
    assert_false(howdah_place_covers(NULL, 1));
    howdah_place_free(place);
    howdah_place_free(NULL);
}

/* Compared number by number. */
static void a_place_includes_another_when_it_covers_all_that_one_does(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        dice d = {seed};
        howdah_place places[2] = {HW_PLACE_INIT, HW_PLACE_INIT};
        bool all = true;

        for (size_t i = 0; i < 2; i++) {
            places[i].high = (int64_t)throw_dice(&d, 9);
            for (int64_t number = 1; number <= places[i].high; number++) {
                if (throw_dice(&d, 3) == 0)
                    add(&places[i].outstanding, number, number);
            }
        }
        for (int64_t number = 1; number <= 9; number++)
            all = all && (howdah_place_covers(&places[0], number) ||
                          !howdah_place_covers(&places[1], number));
        assert_int_equal(howdah_place_includes(&places[0], &places[1]), all);
        places[0].log = 1;
        assert_false(howdah_place_includes(&places[0], &places[1]));
        hw_place_done(&places[0]);
        hw_place_done(&places[1]);
    }
    assert_false(howdah_place_includes(NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_written_as_it_was_released),
        cmocka_unit_test(a_random_place_is_read_as_it_was_written),
        cmocka_unit_test(what_does_not_fit_is_joined_and_nothing_is_left_out),
        cmocka_unit_test(the_widest_gaps_are_kept),
        cmocka_unit_test(a_mutated_text_is_refused_or_is_a_place_of_its_own),
        cmocka_unit_test(hostile_texts_are_refused_with_their_length),
        cmocka_unit_test(a_place_covers_what_was_handed_out),
        cmocka_unit_test(a_place_includes_another_when_it_covers_all_that_one_does),
    };

    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
