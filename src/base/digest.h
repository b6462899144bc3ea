/* digest.h - SHA-256 and MD5 by way of OpenSSL, and a quick one of our own. */
#ifndef HW_BASE_DIGEST_H
#define HW_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_SHA256_BYTES 32

bool hw_sha256(const void *data, size_t len, uint8_t ret_digest[HW_SHA256_BYTES]);

/* Only for names that must be the same in SQL, where md5() is all there is; false in FIPS mode. */
#define HW_MD5_BYTES 16

bool hw_md5(const void *data, size_t len, uint8_t ret_digest[HW_MD5_BYTES]);

/*
 * A quick digest of values in a row: start with 0, and hand each result on.  Two rows of as many
 * values that differ in one number, or in eight bytes, never have the same; others hardly ever,
 * unless somebody wants it so.  The same on every machine.
 */
uint64_t hw_quick_number(uint64_t h, uint64_t value);
uint64_t hw_quick_bytes(uint64_t h, const void *bytes, size_t n);

#endif
