/* subscriptions.h - subscriptions, their members and what they skipped, as JSON, a row or fields.
 */
#ifndef HW_FACE_SUBSCRIPTIONS_H
#define HW_FACE_SUBSCRIPTIONS_H

#include <howdah/howdah.h>

#include "base/buf.h"
#include "face/fields.h"

/* "live", "behind", ... */
const char *face_subscription_state(howdah_subscription_state state);

/* Of a howdah_subscription_info. */
extern const face_entity face_subscription;

/* With the members of a shared one, as JSON. */
typedef struct face_subscription_shown {
    howdah_subscription_info info; /* first: its fields are the same */
    const char *members;
    size_t members_n;
} face_subscription_shown;

/* Of a face_subscription_shown. */
extern const face_entity face_subscription_with_members;
/* Of a howdah_member_info. */
extern const face_entity face_member;
/* Of a howdah_skip. */
extern const face_entity face_skip;

/* The members of one subscription, collected for face_subscription_shown. */
typedef struct face_members {
    hw_buf json; /* broken: not all are in it */
    size_t n;
} face_members;

#define FACE_MEMBERS_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define FACE_MEMBERS_INIT                                                                          \
    {                                                                                              \
        HW_BUF_INIT(FACE_MEMBERS_BYTES_MAX), 0                                                     \
    }

void face_members_add(face_members *members, const howdah_member_info *info);
/* After the last: json is a list. */
void face_members_end(face_members *members);
void face_members_done(face_members *members);

#endif
