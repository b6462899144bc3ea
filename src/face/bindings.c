/* bindings.c - see bindings.h. */
#include "face/bindings.h"

#include "face/subscriptions.h"

/* The word that a binding is made with. */
static void get_key(const void *thing, face_value *v)
{
    const howdah_binding_info *info = thing;

    v->text = hw_str_of(howdah_binding_key_name(info->key));
}

static void get_state(const void *thing, face_value *v)
{
    const howdah_binding_info *info = thing;

    v->text = hw_str_of(face_subscription_state(info->state));
}

#define AT(member) FACE_AT(howdah_binding_info, member)

static const face_field fields[] = {
    {"queue", FACE_TEXT, .style = FACE_NAME, AT(queue)},
    {"pattern", FACE_TEXT, AT(pattern)},
    {"key", FACE_WORD, .get = get_key},
    {"subscriber_id", FACE_TEXT, AT(subscriber_id)},
    {"high", FACE_NUMBER, .head = "at", AT(high)},
    {"head", FACE_NUMBER, AT(head)},
    {"lag", FACE_NUMBER, AT(lag)},
    {"state", FACE_WORD, .get = get_state},
    {"owner", FACE_TEXT, .style = FACE_ASIDE, .blank = "-", AT(owner)},
    {"created_at", FACE_TIME, AT(created_at_us)},
    {"reason", FACE_TEXT, AT(reason)},
    {.name = NULL},
};

const face_entity face_binding = {
    fields,
    .json = "queue pattern key subscriber_id high head lag state owner created_at reason",
    .table = "queue pattern key state high lag owner",
};

const face_entity face_binding_named = {fields, .json = "queue pattern"};
