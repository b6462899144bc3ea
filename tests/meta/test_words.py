#!/usr/bin/env python3
"""The check of retired words finds what it is there to find."""
import sys

import tap
import check_words as words


def problems(path, text):
    return words.check_text(path, text)


def a_retired_word_in_a_name_is_found_with_its_line_and_what_to_say_instead():
    assert problems("src/bus/x.c", "int a;\nint hw_queue_glance(void);\n") == [
        'src/bus/x.c:2: hw_queue_glance: "glance" is retired, say summary']


def so_is_one_in_the_name_of_a_file_and_in_sql():
    assert len(problems("src/store/pg/letters.c", "")) == 1
    assert len(problems("sql/pg/functions/x.sql", "SELECT owed FROM t")) == 1


def the_word_that_took_its_place_is_fine():
    assert problems("src/store/pg/dead_letters.c", "hw_dead_letter *dead_letters;") == []


def prose_and_text_are_free():
    assert problems("src/bus/x.c", '/* it is owed */\nputs("in turn"); // settled\n') == []
    assert problems("sql/x.sql", "-- whoever settles\nSELECT 'turn'") == []


def a_part_of_another_word_is_not_that_word():
    assert problems("src/bus/x.c", "int returned, allowed, hw_followed;") == []


def the_name_of_a_test_is_a_sentence_and_free():
    assert problems("tests/x.c", "void two_workers_take_their_turn_in_one_queue(void);") == []


sys.exit(tap.run([
    a_retired_word_in_a_name_is_found_with_its_line_and_what_to_say_instead,
    so_is_one_in_the_name_of_a_file_and_in_sql,
    the_word_that_took_its_place_is_fine,
    prose_and_text_are_free,
    a_part_of_another_word_is_not_that_word,
    the_name_of_a_test_is_a_sentence_and_free,
]))
