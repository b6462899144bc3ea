/* tokens.c - see tokens.h. */
#include "face/tokens.h"

#include <string.h>

#include "base/error.h"

static const char *const rights[] = {"read", "publish", "subscribe", "work", "admin"};
#define RIGHTS_N (sizeof rights / sizeof *rights)

int face_rights_parse(const char *text, int64_t *ret_may, howdah_error *reterr)
{
    int64_t may = 0;

    while (*text) {
        size_t len = strcspn(text, ",");
        size_t i = 0;

        while (i < RIGHTS_N && (strlen(rights[i]) != len || strncmp(rights[i], text, len) != 0))
            i++;
        if (i == RIGHTS_N)
            return hw_fail_field(reterr, HOWDAH_INVALID, "may",
                                 "expected some of read,publish,subscribe,work,admin");
        may |= INT64_C(1) << i;
        text += len + (text[len] == ',');
    }
    if (may == 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "may", "is empty");
    *ret_may = may;
    return HOWDAH_OK;
}

static void put_rights(face_value *v, int64_t may, const char *quote)
{
    bool first = true;

    for (size_t i = 0; i < RIGHTS_N; i++)
        if (may & INT64_C(1) << i) {
            hw_buf_printf(&v->room, "%s%s%s%s", first ? "" : ",", quote, rights[i], quote);
            first = false;
        }
}

static void get_may(const void *thing, face_value *v)
{
    hw_buf_putc(&v->room, '[');
    put_rights(v, ((const howdah_token_info *)thing)->may, "\"");
    hw_buf_putc(&v->room, ']');
}

static void get_rights(const void *thing, face_value *v)
{
    put_rights(v, ((const howdah_token_info *)thing)->may, "");
}

static void put_list(face_value *v, const char *const *list, size_t n)
{
    hw_buf_putc(&v->room, '[');
    for (size_t i = 0; i < n; i++) {
        hw_buf_puts(&v->room, i > 0 ? "," : "");
        face_json_text(&v->room, list[i]);
    }
    hw_buf_putc(&v->room, ']');
}

/* For people: nothing when there is no limit. */
static void put_words(face_value *v, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hw_buf_printf(&v->room, "%s%s", i > 0 ? " " : "", list[i]);
}

#define LIST(name)                                                                                 \
    static void get_##name(const void *thing, face_value *v)                                       \
    {                                                                                              \
        const howdah_token_info *info = thing;                                                     \
                                                                                                   \
        put_list(v, info->name, info->name##_n);                                                   \
    }                                                                                              \
    static void get_##name##_words(const void *thing, face_value *v)                               \
    {                                                                                              \
        const howdah_token_info *info = thing;                                                     \
                                                                                                   \
        put_words(v, info->name, info->name##_n);                                                  \
    }
LIST(patterns)
LIST(streams)
LIST(queues)

static void get_state(const void *thing, face_value *v)
{
    const howdah_token_info *info = thing;

    v->text = hw_str_of(info->revoked_at_us == HOWDAH_NO_TIME ? "good" : "revoked");
}

static void get_used_at(const void *thing, face_value *v)
{
    v->number = ((const howdah_token_info *)thing)->used_at_us;
    v->absent = v->number == HOWDAH_NO_TIME;
}

static void get_revoked_at(const void *thing, face_value *v)
{
    v->number = ((const howdah_token_info *)thing)->revoked_at_us;
    v->absent = v->number == HOWDAH_NO_TIME;
}

#define AT(member) FACE_AT(howdah_token_info, member)

static const face_field fields[] = {
    {"name", FACE_TEXT, .style = FACE_NAME, AT(name)},
    {"may", FACE_JSON, .get = get_may},
    {"rights", FACE_TEXT, "may", .get = get_rights},
    {"patterns", FACE_JSON, .get = get_patterns},
    {"pattern", FACE_TEXT, "pattern", .blank = "-", .get = get_patterns_words},
    {"streams", FACE_JSON, .get = get_streams},
    {"stream", FACE_TEXT, "stream", .blank = "-", .get = get_streams_words},
    {"queues", FACE_JSON, .get = get_queues},
    {"queue", FACE_TEXT, "queue", .blank = "-", .get = get_queues_words},
    {"state", FACE_WORD, .get = get_state},
    {"created_at", FACE_TIME, AT(created_at_us)},
    {"used_at", FACE_DAY, .head = "used", .blank = "-", .get = get_used_at},
    {"revoked_at", FACE_TIME, .get = get_revoked_at},
    {.name = NULL},
};

const face_entity face_token = {
    fields,
    .json = "name may patterns streams queues state created_at used_at revoked_at",
    .show = "name rights pattern stream queue state created_at used_at revoked_at",
    .table = "name rights pattern stream queue state used_at",
};
