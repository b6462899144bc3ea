/* webhook_rules.c - see webhook_rules.h. */
#include "gateway/webhook_rules.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"

#define SECRET_PREFIX "whsec_"
#define KEY_BYTES_MAX 64
#define ID_TIME_MAX 128
#define ALL_ONES UINT32_C(0xffffffff)

/* ---------------------------------------------------------------- signature */

static bool hmac(hw_str key, const char *before, hw_str body, uint8_t ret_mac[HW_SHA256_BYTES])
{
    EVP_PKEY *pkey =
        EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, (const unsigned char *)key.s, key.len);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t n = HW_SHA256_BYTES;
    bool good = pkey && ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, pkey) == 1 &&
                EVP_DigestSignUpdate(ctx, before, strlen(before)) == 1 &&
                EVP_DigestSignUpdate(ctx, body.s, body.len) == 1 &&
                EVP_DigestSignFinal(ctx, ret_mac, &n) == 1 && n == HW_SHA256_BYTES;

    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pkey);
    return good;
}

static int put_signature(const uint8_t mac[HW_SHA256_BYTES], char ret_signature[GW_SIGNATURE_SIZE],
                         howdah_error *reterr)
{
    hw_buf text = HW_BUF_INIT(GW_SIGNATURE_SIZE);
    int s;

    hw_buf_puts(&text, "v1,");
    hw_base64_put(&text, mac, HW_SHA256_BYTES);
    s = hw_buf_check(&text, reterr);
    if (s >= 0)
        (void)snprintf(ret_signature, GW_SIGNATURE_SIZE, "%s", hw_buf_str(&text));
    hw_buf_done(&text);
    return s;
}

int gw_webhook_sign(const char *secret, const char *id, int64_t time_s, hw_str body,
                    char ret_signature[GW_SIGNATURE_SIZE], howdah_error *reterr)
{
    const size_t skip = sizeof SECRET_PREFIX - 1;
    bool prefixed = strncmp(secret, SECRET_PREFIX, skip) == 0;
    hw_buf key = HW_BUF_INIT(KEY_BYTES_MAX);
    uint8_t mac[HW_SHA256_BYTES];
    char before[ID_TIME_MAX];
    int n = snprintf(before, sizeof before, "%s.%" PRId64 ".", id, time_s);
    int s = HOWDAH_OK;

    if (n < 0 || (size_t)n >= sizeof before)
        return hw_fail(reterr, HOWDAH_LIMIT, "an id of more than %d bytes", ID_TIME_MAX);
    if (!prefixed || !hw_base64_get(secret + skip, strlen(secret + skip), &key) || key.len == 0)
        s = hw_fail(reterr, HOWDAH_CORRUPT, "the secret is not whsec_ and base64 of a key");
    else if (!hmac((hw_str){key.data, key.len}, before, body, mac))
        s = hw_fail_no_memory(reterr);
    else
        s = put_signature(mac, ret_signature, reterr);
    if (key.data)
        OPENSSL_cleanse(key.data, key.len);
    hw_buf_done(&key);
    return s;
}

/* ---------------------------------------------------------------- addresses */

typedef struct range4 {
    uint32_t first;
    unsigned bits;
} range4;

#define V4(a, b, c) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8)

static bool is_public4(uint32_t address)
{
    static const range4 others[] = {
        {V4(0, 0, 0), 8},       /* this network, unspecified */
        {V4(10, 0, 0), 8},      /* private */
        {V4(100, 64, 0), 10},   /* shared, behind a carrier's NAT */
        {V4(127, 0, 0), 8},     /* loopback */
        {V4(169, 254, 0), 16},  /* link-local, and what tells machines of a cloud their secrets */
        {V4(172, 16, 0), 12},   /* private */
        {V4(192, 0, 0), 24},    /* of protocols */
        {V4(192, 0, 2), 24},    /* for documents */
        {V4(192, 88, 99), 24},  /* relays of 6to4 */
        {V4(192, 168, 0), 16},  /* private */
        {V4(198, 18, 0), 15},   /* benchmarks */
        {V4(198, 51, 100), 24}, /* for documents */
        {V4(203, 0, 113), 24},  /* for documents */
        {V4(224, 0, 0), 3},     /* multicast, reserved, broadcast */
    };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (((address ^ others[i].first) & (ALL_ONES << (32 - others[i].bits))) == 0)
            return false;
    return true;
}

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Only 2000::/3 is given out.  What stands for an address of IPv4 is judged as that one; one that
   goes by a tunnel's server (Teredo) is never public. */
static bool is_public6(const uint8_t a[16])
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};

    if (memcmp(a, nat64, sizeof nat64) == 0)
        return is_public4(word_at(a + 12));
    if ((a[0] & 0xe0) != 0x20)
        return false;
    if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
        return is_public4(word_at(a + 2));
    if (a[0] == 0x20 && a[1] == 0x01 && a[2] < 0x02) /* 2001::/23: of protocols */
        return false;
    if (a[0] == 0x20 && a[1] == 0x01 && a[2] == 0x0d && a[3] == 0xb8) /* for documents */
        return false;
    return !(a[0] == 0x3f && a[1] == 0xff && (a[2] & 0xf0) == 0); /* the same */
}

bool gw_address_is_public(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;

    if (address->sa_family == AF_INET)
        return is_public4(ntohl(v4->sin_addr.s_addr));
    return address->sa_family == AF_INET6 && is_public6(v6->sin6_addr.s6_addr);
}
