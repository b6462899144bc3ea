/* digest.c - SHA-256 and MD5 by way of OpenSSL. */
#include "base/digest.h"

#include <openssl/evp.h>

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
