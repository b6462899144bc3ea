/* test_webhook_rules.c - what requests of webhooks are signed with, and where they may go. */
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "gateway/webhook_rules.h"

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define ID "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define BODY "{\"test\": 2432232314}"

static void the_documented_example_has_the_documented_signature(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char signature[GW_SIGNATURE_SIZE];

    (void)state;
    assert_int_equal(gw_webhook_sign(SECRET, ID, 1614265330, HW_STR_LIT(BODY), signature, &err),
                     HOWDAH_OK);
    assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

static void another_id_time_or_body_has_another_signature(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char texts[4][GW_SIGNATURE_SIZE];

    (void)state;
    assert_int_equal(gw_webhook_sign(SECRET, ID, 1614265330, HW_STR_LIT(BODY), texts[0], &err), 0);
    assert_int_equal(gw_webhook_sign(SECRET, "x", 1614265330, HW_STR_LIT(BODY), texts[1], &err), 0);
    assert_int_equal(gw_webhook_sign(SECRET, ID, 1614265331, HW_STR_LIT(BODY), texts[2], &err), 0);
    assert_int_equal(gw_webhook_sign(SECRET, ID, 1614265330, HW_STR_LIT("{}"), texts[3], &err), 0);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = i + 1; k < 4; k++)
            assert_string_not_equal(texts[i], texts[k]);
}

static void what_is_no_secret_signs_nothing_and_is_not_told(void **state)
{
    static const char *const wrong[] = {"", "whsec_", "whsec_***hidden***", "hwd_abcd",
                                        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        char signature[GW_SIGNATURE_SIZE] = "untouched";

        assert_int_equal(gw_webhook_sign(wrong[i], ID, 1, HW_STR_LIT(BODY), signature, &err),
                         HOWDAH_CORRUPT);
        assert_string_equal(signature, "untouched");
        assert_null(strstr(err.message, "hidden"));
    }
}

static bool is_public(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return gw_address_is_public((const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return gw_address_is_public((const struct sockaddr *)&v6);
}

static void addresses_of_the_internet_are_public(void **state)
{
    static const char *const good[] = {
        "1.1.1.1",          "8.8.8.8",         "9.255.255.255",   "11.0.0.0",
        "100.63.255.255",   "100.128.0.0",     "126.255.255.255", "128.0.0.1",
        "169.253.255.255",  "169.255.0.0",     "172.15.255.255",  "172.32.0.0",
        "192.167.255.255",  "192.169.0.0",     "198.17.255.255",  "198.20.0.0",
        "223.255.255.255",  "2606:4700::1111", "2a00:1450::1",    "2001:4860:4860::8888",
        "64:ff9b::8.8.8.8", "2002:808:808::1",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        if (!is_public(good[i]))
            fail_msg("not public: %s", good[i]);
}

static void all_others_are_not_whatever_they_are_wrapped_in(void **state)
{
    static const char *const others[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.100.100.200",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:8.8.8.8",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "2001::1",
        "2001:10::1",
        "3fff::1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2002:a00:1::1",
        "100::1",
        "4000::1",
    };
    struct sockaddr local = {.sa_family = AF_UNIX};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (is_public(others[i]))
            fail_msg("public: %s", others[i]);
    assert_false(gw_address_is_public(&local));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documented_example_has_the_documented_signature),
        cmocka_unit_test(another_id_time_or_body_has_another_signature),
        cmocka_unit_test(what_is_no_secret_signs_nothing_and_is_not_told),
        cmocka_unit_test(addresses_of_the_internet_are_public),
        cmocka_unit_test(all_others_are_not_whatever_they_are_wrapped_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
