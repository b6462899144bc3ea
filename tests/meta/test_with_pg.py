#!/usr/bin/env python3
"""The throwaway server: alone, reachable both ways, and gone afterwards."""
import os
import signal
import subprocess
import sys
import time

import tap

WITH_PG = os.path.join(tap.ROOT, "tools", "with-pg")
# We may be the command of one already, and are tested as if we were not.
os.environ.pop("HOWDAH_TEST_PG_TEMPLATE", None)


def run(script, **options):
    return subprocess.run([WITH_PG, "sh", "-c", script], capture_output=True, text=True, timeout=90,
                          **options)


def gone(directory):
    """The directory disappears soon."""
    for _ in range(100):
        if not os.path.exists(directory):
            return True
        time.sleep(0.1)
    return False


def the_exit_code_and_the_input_are_the_command_s():
    done = run("cat; exit 7", input="hello")
    assert (done.returncode, done.stdout) == (7, "hello"), done


def socket_and_password_work_and_a_wrong_password_does_not():
    done = run('psql -Atc "SELECT 1" "$HOWDAH_TEST_PG" && psql -Atc "SELECT 2" "$HOWDAH_TEST_PG_TCP" && '
               'PGPASSWORD=wrong psql -Atc "SELECT 3" "$(echo "$HOWDAH_TEST_PG_TCP" | '
               'sed s/:p[0-9x]*@/@/)"')
    assert done.stdout == "1\n2\n", done
    assert "password authentication failed" in done.stderr, done.stderr


def the_server_can_be_killed_and_started_again():
    done = run('"$HOWDAH_TEST_PG_CTL" stop -m immediate && ! psql -Atc "SELECT 1" "$HOWDAH_TEST_PG" && '
               '"$HOWDAH_TEST_PG_CTL" start && "$HOWDAH_TEST_PG_CTL" restart && '
               'psql -Atc "SELECT 4" "$HOWDAH_TEST_PG"')
    assert (done.returncode, done.stdout.strip()) == (0, "4"), done


def the_caller_s_environment_does_not_leak_in():
    environment = dict(os.environ, PGHOST="nowhere.invalid", PGDATABASE="none", PGPORT="1")
    done = run('echo "${PGHOST:-unset}"; psql -Atc "SELECT 5" "$HOWDAH_TEST_PG"', env=environment)
    assert done.stdout == "unset\n5\n", done


def three_at_once_get_three_servers():
    script = 'psql -Atc "SELECT system_identifier FROM pg_control_system()" "$HOWDAH_TEST_PG"'
    started = [subprocess.Popen([WITH_PG, "sh", "-c", script], stdout=subprocess.PIPE, text=True)
               for _ in range(3)]
    answers = {process.communicate(timeout=90)[0] for process in started}
    assert len(answers) == 3 and "" not in answers, answers


def one_inside_of_another_is_a_copy_that_goes_its_own_way():
    ask = 'psql -Atc "SELECT system_identifier, to_regclass(\'t\') FROM pg_control_system()"'
    done = run('psql -qc "CREATE TABLE t ()" "$HOWDAH_TEST_PG" && outer=$HOWDAH_TEST_PG && %s "$outer" && '
               '"%s" sh -c \'[ "$HOWDAH_TEST_PG" != "$0" ] && %s "$HOWDAH_TEST_PG_TCP"\' "$outer"' %
               (ask, WITH_PG, ask.replace("'", "'\\''")))
    assert done.returncode == 0, done
    outer, inner = [line.split("|") for line in done.stdout.split()]
    assert outer[0] == inner[0] and (outer[1], inner[1]) == ("t", ""), done


def nothing_is_left_however_it_ends():
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen([WITH_PG, "sh", "-c", 'echo "$HOWDAH_TEST_PG_DATA"; exec sleep 60'],
                                   stdout=subprocess.PIPE, text=True, start_new_session=True)
        data = process.stdout.readline().strip()
        assert os.path.exists(data), data
        os.killpg(process.pid, number)
        process.wait(timeout=60)
        process.stdout.close()
        assert gone(os.path.dirname(data)), "%s is left after signal %d" % (data, number)


if __name__ == "__main__":
    sys.exit(tap.run([the_exit_code_and_the_input_are_the_command_s,
                      socket_and_password_work_and_a_wrong_password_does_not,
                      the_server_can_be_killed_and_started_again,
                      the_caller_s_environment_does_not_leak_in,
                      three_at_once_get_three_servers, one_inside_of_another_is_a_copy_that_goes_its_own_way,
                      nothing_is_left_however_it_ends]))
