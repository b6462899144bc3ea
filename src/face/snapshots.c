/* snapshots.c - see snapshots.h. */
#include "face/snapshots.h"

/* A snapshot of a list comes without its data: then JSON does not name them. */
static void get_data(const void *thing, face_value *v)
{
    const howdah_snapshot *s = thing;

    v->left_out = !s->data;
    if (!s->content_type)
        v->text = (hw_str){s->data, s->data_len};
}

static void get_content_type(const void *thing, face_value *v)
{
    const howdah_snapshot *s = thing;

    v->text = hw_str_of(s->content_type);
    v->left_out = !s->content_type;
}

static void get_base64(const void *thing, face_value *v)
{
    const howdah_snapshot *s = thing;

    face_value_base64(v, s->content_type, s->data, s->data_len);
}

/* For people: JSON as it is, bytes as their type and size. */
static void get_payload(const void *thing, face_value *v)
{
    const howdah_snapshot *s = thing;

    if (s->content_type)
        hw_buf_printf(&v->room, "(%.80s, %zu bytes)", s->content_type, s->data_len);
    else
        v->text = (hw_str){s->data, s->data_len};
}

/* The answer to "put" does not know it. */
static void get_taken_at(const void *thing, face_value *v)
{
    const howdah_snapshot *s = thing;

    v->number = s->taken_at_us;
    v->left_out = s->taken_at_us == HOWDAH_NO_TIME;
}

#define AT(member) FACE_AT(howdah_snapshot, member)

static const face_field fields[] = {
    {"stream", FACE_TEXT, .style = FACE_NAME, AT(stream)},
    {"version", FACE_NUMBER, AT(version)},
    {"data", FACE_JSON, .get = get_data},
    {"content_type", FACE_TEXT, .get = get_content_type},
    {"data_base64", FACE_JSON, .get = get_base64},
    {"payload", FACE_TEXT, "data", .get = get_payload},
    {"bytes", FACE_COUNT, AT(data_len)},
    {"schema_version", FACE_NUMBER, "schema version", "schema", .style = FACE_ASIDE,
     AT(schema_version)},
    {"taken_at", FACE_MOMENT, "taken at", "taken at (UTC)", .style = FACE_ASIDE,
     .get = get_taken_at},
    {.name = NULL},
};

const face_entity face_snapshot = {
    fields,
    .json = "stream version data content_type data_base64 bytes schema_version taken_at",
    .show = "stream version schema_version taken_at payload",
    .table = "stream version bytes schema_version taken_at",
};
