/* fuzz_texts.c - short texts of headers and arguments: places, traces, hosts, times, patterns. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "engine/place.h"
#include "gateway/access.h"
#include "gateway/trace_context.h"

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* What is taken is written down again as the same text.  One that is nearly as long as a text may
   be can come out shorter, with ranges joined: then it says less, and nothing more. */
static void try_place(hw_str text)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char again[HOWDAH_PLACE_SIZE];
    howdah_place place = HW_PLACE_INIT;
    howdah_place second = HW_PLACE_INIT;

    if (hw_place_parse(text, &place, &err) >= 0) {
        (void)howdah_place_covers(&place, place.high);
        must(howdah_place_includes(&place, &place));
        if (hw_place_parse((hw_str){again, hw_place_write(&place, again)}, &second, &err) < 0)
            abort();
        must(howdah_place_includes(&place, &second));
        must(text.len > HOWDAH_PLACE_SIZE / 2 || strcmp(again, text.s) == 0);
    }
    hw_place_done(&place);
    hw_place_done(&second);
}

static void try_trace(const char *text)
{
    gw_trace trace;
    char id[GW_TRACE_ID_TEXT + 1];
    hw_buf headers = HW_BUF_INIT(4096);

    if (gw_trace_take(&trace, text, text)) {
        gw_trace_id(&trace, id);
        must(strlen(id) == GW_TRACE_ID_TEXT);
        gw_trace_add(&headers, &trace);
    }
    hw_buf_done(&headers);
}

static void try_times(hw_str text)
{
    int64_t value;
    char out[HW_TIME_TEXT + 1];

    if (hw_time_parse(text.s, text.len, &value)) {
        must(value >= HW_TIME_MIN_US && value <= HW_TIME_MAX_US);
        hw_time_format(value, out);
    }
    if (hw_duration_parse(text.s, &value))
        must(value >= 0);
    if (hw_parse_bytes(text.s, &value))
        must(value >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size < 1)
        return 0;
    text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 5) {
    case 0:
        try_place((hw_str){text, size - 1});
        break;
    case 1:
        try_trace(text);
        break;
    case 2:
        (void)gw_host_is_loopback(text);
        break;
    case 3:
        try_times(hw_str_of(text));
        break;
    default:
        (void)howdah_pattern_matches(text, "order.created.late");
        (void)howdah_pattern_matches("order.>", text);
        break;
    }
    free(text);
    return 0;
}
