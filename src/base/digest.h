/* digest.h - SHA-256 and MD5 by way of OpenSSL. */
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

#endif
