/*
 * test_fault.c - named points where a test can kill the process.
 *
 * Built with fault points on and with its own copy of fault.c, whatever the library has.
 */
#include "unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"

/* Visits of the point "a.b" that a child survives out of 5; -1 when it was not killed. */
static int survived(const char *spec)
{
    int status;
    int pipes[2];
    int visits = 0;
    char byte;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (setenv("HOWDAH_FAILPOINT", spec, 1) != 0)
            _exit(1);
        for (int i = 0; i < 5; i++) {
            HW_FAULT_POINT("other");
            HW_FAULT_POINT("a.b");
            if (write(pipes[1], "x", 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    (void)close(pipes[1]);
    while (read(pipes[0], &byte, 1) == 1)
        visits++;
    (void)close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_equal(visits, 5);
        return -1;
    }
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return visits;
}

static void the_named_point_kills_at_the_visit_asked_for(void **state)
{
    (void)state;
    assert_int_equal(survived("a.b:kill"), 0);
    assert_int_equal(survived("a.b:kill@1"), 0);
    assert_int_equal(survived("a.b:kill@3"), 2);
    assert_int_equal(survived("a.b:kill@5"), 4);
    assert_int_equal(survived("a.b:kill@6"), -1);
}

static void another_name_or_a_malformed_spec_kills_nobody(void **state)
{
    static const char *const specs[] = {"",           "a.b",        "a:kill",     "a.b.c:kill",
                                        "a.b:",       "a.b:skip",   "a.b:kill@",  "a.b:kill@0",
                                        "a.b:kill@x", "a.b:killed", "a.b:kill@-1"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(specs); i++)
        assert_int_equal(survived(specs[i]), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_named_point_kills_at_the_visit_asked_for),
        cmocka_unit_test(another_name_or_a_malformed_spec_kills_nobody),
    };

    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
