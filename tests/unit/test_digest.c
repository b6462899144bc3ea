/* test_digest.c - SHA-256, MD5 and the system's randomness. */
#include "unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/random.h"

static void sha256_follows_the_test_vectors_of_fips_180(void **state)
{
    static const uint8_t of_empty[HW_SHA256_BYTES] = {
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
        0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
        0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};
    static const uint8_t of_abc[HW_SHA256_BYTES] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                                    0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                                    0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
                                                    0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    uint8_t digest[HW_SHA256_BYTES];

    (void)state;
    assert_true(hw_sha256("", 0, digest));
    assert_memory_equal(digest, of_empty, sizeof digest);
    assert_true(hw_sha256("abc", 3, digest));
    assert_memory_equal(digest, of_abc, sizeof digest);
}

/* The numbers are in files: they stay. */
static void the_quick_digest_is_the_same_everywhere_and_sees_every_change(void **state)
{
    char text[] = "nineteen characters";
    uint64_t before = hw_quick_bytes(0, text, sizeof text - 1);

    (void)state;
    assert_true(hw_quick_number(0, 0) == 0);
    assert_true(hw_quick_number(0, 1) == UINT64_C(0x9e3779b9e17d05ac));
    assert_true(hw_quick_bytes(0, "", 0) == 0);
    assert_true(hw_quick_bytes(0, "a", 1) != hw_quick_bytes(0, "a\0", 2));
    for (size_t i = 0; i < sizeof text - 1; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            text[i] = (char)((unsigned char)text[i] ^ 1u << bit);
            assert_true(hw_quick_bytes(0, text, sizeof text - 1) != before);
            text[i] = (char)((unsigned char)text[i] ^ 1u << bit);
        }
    assert_true(hw_quick_bytes(0, text, sizeof text - 1) == before);
    assert_true(before == UINT64_C(0x65cfa68bd35a8c2f));
}

static void md5_follows_the_test_vectors_of_rfc_1321(void **state)
{
    static const uint8_t of_abc[HW_MD5_BYTES] = {0x90, 0x01, 0x50, 0x98, 0x3c, 0xd2, 0x4f, 0xb0,
                                                 0xd6, 0x96, 0x3f, 0x7d, 0x28, 0xe1, 0x7f, 0x72};
    uint8_t digest[HW_MD5_BYTES];

    (void)state;
    assert_true(hw_md5("abc", 3, digest));
    assert_memory_equal(digest, of_abc, sizeof digest);
}

static void random_bytes_differ_in_small_and_large_requests(void **state)
{
    uint8_t seen[200][16];
    uint8_t large[2][5000];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        assert_true(hw_random_bytes(seen[i], sizeof seen[i]));
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(seen[i], seen[k], sizeof seen[i]);
    }
    assert_true(hw_random_bytes(large[0], sizeof large[0]));
    assert_true(hw_random_bytes(large[1], sizeof large[1]));
    assert_memory_not_equal(large[0], large[1], sizeof large[0]);
    assert_memory_not_equal(large[0] + 4900, large[1] + 4900, 100);
    assert_true(hw_random_bytes(large[0], 0));
}

static void random_numbers_use_all_their_bits(void **state)
{
    uint32_t ones = 0;
    uint32_t zeros = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint32_t v = hw_random_u32();

        ones |= v;
        zeros |= ~v;
    }
    assert_int_equal(ones, UINT32_MAX);
    assert_int_equal(zeros, UINT32_MAX);
}

/* The parent's block of bytes is full at fork(); the child must not hand out the same. */
static void a_child_does_not_repeat_its_parents_bytes(void **state)
{
    uint8_t mine[32];
    uint8_t theirs[32];
    int pipes[2];
    int status;
    pid_t child;

    (void)state;
    assert_true(hw_random_bytes(mine, sizeof mine));
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(hw_random_bytes(theirs, sizeof theirs) &&
                      write(pipes[1], theirs, sizeof theirs) == sizeof theirs
                  ? 0
                  : 1);
    assert_true(hw_random_bytes(mine, sizeof mine));
    assert_int_equal(read(pipes[0], theirs, sizeof theirs), sizeof theirs);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_memory_not_equal(mine, theirs, sizeof mine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_follows_the_test_vectors_of_fips_180),
        cmocka_unit_test(the_quick_digest_is_the_same_everywhere_and_sees_every_change),
        cmocka_unit_test(md5_follows_the_test_vectors_of_rfc_1321),
        cmocka_unit_test(random_bytes_differ_in_small_and_large_requests),
        cmocka_unit_test(random_numbers_use_all_their_bits),
        cmocka_unit_test(a_child_does_not_repeat_its_parents_bytes),
    };

    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
