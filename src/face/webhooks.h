/* webhooks.h - whom a gateway tells of events, as JSON or fields; and the subscription behind it.
 */
#ifndef HW_FACE_WEBHOOKS_H
#define HW_FACE_WEBHOOKS_H

#include <howdah/howdah.h>

#include "face/fields.h"

/* Of a howdah_webhook_info.  Of its headers only the names are told: the values may be secrets. */
extern const face_entity face_webhook;

/* With what its subscription is at. */
typedef struct face_webhook_shown {
    howdah_webhook_info info; /* first: its fields are the same */
    bool subscribed;          /* the subscription is there */
    howdah_subscription_state state;
    int64_t lag;
    int64_t dead_letters;
} face_webhook_shown;

/* Of a face_webhook_shown. */
extern const face_entity face_webhook_with_lag;

/*
 * One webhook with its subscription: fn gets it, and its texts live until it returns.  NOT_FOUND
 * without the webhook.
 */
int face_webhook_show(howdah_bus *bus, const char *name,
                      void (*fn)(void *ctx, const face_webhook_shown *shown), void *ctx,
                      howdah_error *reterr);

/*
 * howdah_webhook_set(), and its subscription is there when this returns: what is appended from then
 * on is sent.  The filter of a webhook that exists is its subscription's: another one is CONFLICT,
 * and nothing is changed.
 */
int face_webhook_set(howdah_bus *bus, const howdah_webhook_options *options,
                     char ret_secret[HOWDAH_WEBHOOK_SECRET_SIZE], howdah_error *reterr);
/* Makes the subscription of one that is stored, if it is not there. */
int face_webhook_subscribe(howdah_bus *bus, const howdah_webhook_info *info, howdah_error *reterr);

#endif
