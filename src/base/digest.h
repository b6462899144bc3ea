/* digest.h - SHA-256 by way of OpenSSL. */
#ifndef HW_BASE_DIGEST_H
#define HW_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_SHA256_BYTES 32

bool hw_sha256(const void *data, size_t len, uint8_t ret_digest[HW_SHA256_BYTES]);

#endif
