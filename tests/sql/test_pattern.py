#!/usr/bin/env python3
"""pattern_regex() means what the matcher in C means: the table of tests/patterns.h."""
import os
import re
import sys

import bus as harness
from bus import Bus, literal, run

bus = Bus("pattern")


def table():
    """(pattern, types that match, types that do not), read from the C source."""
    path = os.path.join(harness.ROOT, "tests", "patterns.h")
    with open(path, encoding="utf-8") as f:
        source = f.read()
    source = source[source.index("static const pattern_case"):]
    rows = re.findall(r'\{\s*"([^"]*)",\s*((?:"[^"]*"\s*)+),\s*((?:"[^"]*"\s*)+)\}', source)
    return [(pattern, "".join(re.findall('"([^"]*)"', matches)).split(),
             "".join(re.findall('"([^"]*)"', misses)).split()) for pattern, matches, misses in rows]


TABLE = table()
TYPE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,31}\Z")


def matches(pattern, event_type):
    """Segment by segment, as src/engine/pattern.c walks."""
    wanted, given = pattern.split("."), event_type.split(".")
    if wanted[-1] == ">":
        return len(given) >= len(wanted) and matches(
            ".".join(wanted[:-1] + ["*"]), ".".join(given[:len(wanted)]))
    return len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given))


def the_table_is_read_whole():
    assert len(TABLE) == 106, len(TABLE)


def every_pattern_agrees_with_every_type_of_the_table():
    patterns = sorted({row[0] for row in TABLE})
    types = sorted({t for row in TABLE for t in row[1] + row[2] if TYPE.match(t)})
    for pattern, good, bad in TABLE:
        assert all(matches(pattern, t) for t in good), pattern
        assert not any(matches(pattern, t) for t in bad if TYPE.match(t)), pattern
    rows = bus.sql("SELECT p, t FROM unnest(ARRAY[%s]) AS p, unnest(ARRAY[%s]) AS t"
                   " WHERE t ~ {}.pattern_regex(p)" % (", ".join(map(literal, patterns)),
                                                       ", ".join(map(literal, types))))
    wanted = {(p, t) for p in patterns for t in types if matches(p, t)}
    assert set(rows) == wanted, set(rows) ^ wanted
    assert len(patterns) * len(types) > 20000 and len(wanted) > 300


def the_text_of_the_regular_expression_is_that_of_the_library():
    for pattern, regex in (("order.created", "^order[.]created$"), ("order.*", "^order[.][^.]+$"),
                           ("*.created", "^[^.]+[.]created$"), ("order.>", "^order[.].+$"), (">", "^.+$")):
        assert bus.one("SELECT {}.pattern_regex('%s')" % pattern) == regex, pattern


def a_pattern_without_a_wildcard_is_a_type():
    patterns = sorted({row[0] for row in TABLE})
    rows = bus.sql("SELECT p, {}.pattern_type(p) FROM unnest(ARRAY[%s]) AS p" % ", ".join(map(literal, patterns)))
    assert rows == [(p, None if "*" in p or ">" in p else p) for p in patterns], rows
    assert any(t for _, t in rows) and not all(t for _, t in rows)


def read_all_uses_the_same_patterns():
    types = sorted({t for row in TABLE for t in row[1] + row[2] if TYPE.match(t)})
    bus.sql("SELECT FROM {}.append_arrays(NULL, array_fill('s'::text, ARRAY[%d]), ARRAY[%s],"
            " array_fill('{}'::json, ARRAY[%d]), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)" %
            (len(types), ", ".join(map(literal, types)), len(types)))
    patterns = sorted({row[0] for row in TABLE})
    rows = bus.sql("SELECT p, e.type FROM unnest(ARRAY[%s]) AS p, LATERAL {}.read_all(pattern => p) AS e" %
                   ", ".join(map(literal, patterns)))
    wanted = {(p, t) for p in patterns for t in types if matches(p, t)}
    assert set(rows) == wanted and len(rows) == len(wanted), set(rows) ^ wanted


def what_is_no_pattern_in_c_is_none_in_sql():
    wrong = ["", ".", "a.", ".a", "a..b", "a.>.b", ">.a", "a*", "*a", "a.b*", "a.**", ">>", "a >", "a b",
             "\u00e9", "a\n", "\n", "a/b", "a.", "*.", ".*", ".>", "a" * 256, ".".join(["a"] * 33),
             ".".join(["*"] * 33), ".".join(["a"] * 32) + ".>", "a,b", "a%", "a_.b?", "[a]", "a\\.b", "^a$"]
    bus.refuses_all(*(("SELECT {}.pattern_regex(%s)" % literal(p), "UH006",
                       r"^pattern: must be .* in %d bytes$" % len(p.encode())) for p in wrong))


def the_longest_patterns_are_patterns():
    good = ["a" * 255, ".".join(["a"] * 32), ".".join(["*"] * 32), ".".join(["*"] * 31) + ".>", "-", "_", "0",
            "*", ">", "A-Z.a_z.0-9"]
    assert bus.one("SELECT count({}.pattern_regex(p)) FROM unnest(ARRAY[%s]) AS p" %
                   ", ".join(map(literal, good))) == str(len(good))


if __name__ == "__main__":
    sys.exit(run([the_table_is_read_whole, every_pattern_agrees_with_every_type_of_the_table,
                  the_text_of_the_regular_expression_is_that_of_the_library,
                  a_pattern_without_a_wildcard_is_a_type, read_all_uses_the_same_patterns, what_is_no_pattern_in_c_is_none_in_sql,
                  the_longest_patterns_are_patterns]))
