/* digest.c - see digest.h. */
#include "base/digest.h"

#include <endian.h>
#include <openssl/evp.h>
#include <string.h>

/* OpenSSL may refuse (no memory, or a provider that is not loaded), so callers must check. */
bool hw_sha256(const void *data, size_t len, uint8_t ret_digest[HW_SHA256_BYTES])
{
    unsigned n = 0;

    return EVP_Digest(data, len, ret_digest, &n, EVP_sha256(), NULL) == 1 && n == HW_SHA256_BYTES;
}

bool hw_md5(const void *data, size_t len, uint8_t ret_digest[HW_MD5_BYTES])
{
    unsigned n = 0;

    return EVP_Digest(data, len, ret_digest, &n, EVP_md5(), NULL) == 1 && n == HW_MD5_BYTES;
}

/* Both steps can be undone, so two states that differ before them still differ after them. */
uint64_t hw_quick_number(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/*
 * The length goes in first, so that bytes moved from one value to the next change the result.
 * Words are read as little-endian: a stored digest means the same on every machine.
 */
uint64_t hw_quick_bytes(uint64_t h, const void *bytes, size_t n)
{
    const char *p = bytes;
    uint64_t word = 0;

    h = hw_quick_number(h, n);
    for (; n >= sizeof word; p += sizeof word, n -= sizeof word) {
        memcpy(&word, p, sizeof word);
        h = hw_quick_number(h, le64toh(word));
    }
    if (n == 0)
        return h;
    word = 0;
    memcpy(&word, p, n);
    return hw_quick_number(h, le64toh(word));
}
