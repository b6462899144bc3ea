#!/usr/bin/env python3
"""The last line of a test run is only worth what its counting is worth."""
import sys

import tap
import count_tests


def entry(result, stdout="", stderr=""):
    return {"name": "t", "result": result, "stdout": stdout, "stderr": stderr}


def a_program_without_cases_counts_as_one():
    assert count_tests.count(entry("OK")) == (1, 0, 0)
    assert count_tests.count(entry("FAIL")) == (0, 1, 0)
    assert count_tests.count(entry("TIMEOUT")) == (0, 1, 0)
    assert count_tests.count(entry("SKIP")) == (0, 0, 1)


def tap_cases_are_counted_one_by_one():
    text = "1..4\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no server\nok 4 - d\n"
    assert count_tests.count(entry("FAIL", text)) == (2, 1, 1)


def cmocka_s_skip_line_is_a_skip():
    assert count_tests.count(entry("OK", "1..2\nok 1 - a\nnot ok 2 # SKIP b\n")) == (1, 0, 1)


def cmocka_s_own_output_is_counted_too():
    text = ("[==========] Running 3 test(s).\n[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n"
            "[  FAILED  ] b\n[ RUN      ] c\n[  SKIPPED ] c\n[==========] 3 test(s) run.\n"
            "[  PASSED  ] 1 test(s).\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] b\n")
    assert count_tests.count(entry("FAIL", text)) == (1, 1, 1)


def a_crash_after_good_cases_is_a_failure():
    assert count_tests.count(entry("ERROR", "1..2\nok 1 - a\nok 2 - b\n")) == (2, 1, 0)


def a_program_killed_before_its_first_case_is_a_failure():
    assert count_tests.count(entry("ERROR", "1..2\n")) == (0, 1, 0)


def a_run_without_results_is_a_failure():
    assert [count_tests.count(e) for e in count_tests.entries("/no/such/file")] == [(0, 1, 0)]


def a_crash_is_shown_with_its_last_words():
    crash = "noise\n==7==ERROR: AddressSanitizer: heap-use-after-free\n    #0 in f\n" + "more\n" * 40
    shown = count_tests.failures(dict(entry("ERROR", "1..2\nok 1 - a\n", crash), returncode=1))
    assert shown[:4] == ["FAILED t (error)", "    exit code 1", "    stdout: 1..2",
                         "    stdout: ok 1 - a"]
    assert shown[4] == "    stderr: ==7==ERROR: AddressSanitizer: heap-use-after-free"
    assert len(shown) == 4 + 2 * count_tests.LAST_WORDS
    assert count_tests.failures(entry("TIMEOUT", "", "a\n" * 40)) == (
        ["FAILED t (timeout)"] + ["    stderr: a"] * count_tests.LAST_WORDS)


if __name__ == "__main__":
    sys.exit(tap.run([a_program_without_cases_counts_as_one, tap_cases_are_counted_one_by_one,
                      cmocka_s_skip_line_is_a_skip, cmocka_s_own_output_is_counted_too,
                      a_crash_after_good_cases_is_a_failure,
                      a_program_killed_before_its_first_case_is_a_failure,
                      a_run_without_results_is_a_failure,
                      a_crash_is_shown_with_its_last_words]))
