/*
 * webhook_rules.h - what a request of a webhook is signed with, and where it may go: no I/O.
 */
#ifndef HW_GATEWAY_WEBHOOK_RULES_H
#define HW_GATEWAY_WEBHOOK_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <howdah/howdah.h>

#include "base/str.h"

/* "v1," and base64 of 32 bytes, with its NUL. */
#define GW_SIGNATURE_SIZE 48

/*
 * Standard Webhooks: "v1," and base64 of the HMAC-SHA256 of "id.time.body".  secret: "whsec_" and
 * base64 of the key.  CORRUPT when it is none.
 */
int gw_webhook_sign(const char *secret, const char *id, int64_t time_s, hw_str body,
                    char ret_signature[GW_SIGNATURE_SIZE], howdah_error *reterr);

/*
 * Whether an address belongs to the internet at large.  Loopback, private, link-local,
 * unique-local, shared, multicast, reserved, documented-only and unspecified ones do not; nor does
 * an address of IPv6 that stands for one of these, whatever it is wrapped in.
 */
bool gw_address_is_public(const struct sockaddr *address);

#endif
