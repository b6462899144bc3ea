#!/usr/bin/env python3
"""The check of include edges finds what it is there to find."""
import sys

import tap
import check_includes as rules


def refused(path, kind, name):
    problem = rules.check_include(path, rules.folder_of(path), kind, name)
    assert problem, "%s may include %s" % (path, name)


def allowed(path, kind, name):
    problem = rules.check_include(path, rules.folder_of(path), kind, name)
    assert not problem, problem


def a_lower_layer_does_not_know_a_higher_one():
    refused("base/buf.c", '"', "engine/event.h")
    refused("engine/event.c", '"', "store/store.h")
    refused("store/pg/append.c", '"', "bus/settings.h")
    allowed("bus/log/append.c", '"', "store/store.h")


def the_two_engines_do_not_know_one_another():
    refused("store/pg/read.c", "<", "sqlite3.h")
    refused("store/sqlite/read.c", "<", "libpq-fe.h")
    refused("store/sqlite/read.c", "<", "howdah/howdah_pg.h")


def the_engine_is_pure():
    for header in ("time.h", "unistd.h", "sys/random.h", "pthread.h"):
        refused("engine/frontier.c", "<", header)
    refused("engine/frontier.c", '"', "base/random.h")
    allowed("engine/frontier.c", '"', "base/str.h")
    for call in ("hw_clock_mono_ms()", "rand()", "printf(\"x\")", "clock_gettime(a, b)"):
        assert rules.IMPURE_CALLS.search(call), call


def the_command_sees_what_a_user_sees():
    refused("cli/main.c", '"', "store/store.h")
    refused("cli/main.c", '"', "engine/pattern.h")
    allowed("cli/main.c", "<", "howdah/howdah.h")
    allowed("cli/main.c", '"', "base/buf.h")


def what_faces_share_knows_no_face():
    for name in ("cli/cli.h", "cli/out/out.h", "store/queue.h", "engine/event.h"):
        refused("face/fields.c", '"', name)
    refused("cli/cli.c", '"', "bus/bus.h")
    for path in ("cli/cmd/sub.c", "bench/run.c", "gateway/http.c"):
        allowed(path, '"', "face/fields.h")
    refused("gateway/http.c", '"', "cli/out/out.h")


def the_command_prints_in_one_place():
    for call in ('fprintf(stderr, "x")', "(void)fputs(a, stdout)", 'printf("x")', "perror(a)"):
        assert rules.PRINTING.search(call), call
    for call in ("snprintf(a, b, c)", "cli_out_puts(a, b)", "hw_buf_printf(a, b)", "isatty(STDOUT_FILENO)"):
        assert not rules.PRINTING.search(call), call


def a_file_that_does_not_exist_is_refused():
    refused("cli/main.c", '"', "base/no_such_file.h")


if __name__ == "__main__":
    sys.exit(tap.run([a_lower_layer_does_not_know_a_higher_one,
                      the_two_engines_do_not_know_one_another, the_engine_is_pure,
                      the_command_sees_what_a_user_sees, what_faces_share_knows_no_face, the_command_prints_in_one_place,
                      a_file_that_does_not_exist_is_refused]))
