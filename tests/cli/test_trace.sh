#!/bin/sh
# test_trace.sh - howdah trace.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_id() {
    echo "0198a1b2-0000-7000-8000-00000000000$1"
}

# 1 caused 2 and 5; 2 caused 3 and 4.
setup() {
    fresh_store
    "$HOWDAH" init --quiet >/dev/null
    "$HOWDAH" append a a.root --id "$(_id 1)" >/dev/null
    "$HOWDAH" append a a.two --id "$(_id 2)" --causation "$(_id 1)" >/dev/null
    "$HOWDAH" append b a.three --id "$(_id 3)" --causation "$(_id 2)" >/dev/null
    "$HOWDAH" append b a.four --id "$(_id 4)" --causation "$(_id 2)" >/dev/null
    "$HOWDAH" append b a.five --id "$(_id 5)" --causation "$(_id 1)" >/dev/null
}

_walk() {
    sed -n 's/^{"depth":\(-\{0,1\}[0-9]*\),.*"type":"a\.\([a-z]*\)".*/\1:\2/p' out | tr '\n' ' '
}

the_root_shows_all_that_it_caused() {
    run 0 trace "$(_id 1)"
    equals "$(_walk)" "0:root 1:two 2:three 2:four 1:five "
}

an_event_in_the_middle_shows_its_causes_and_its_effects() {
    run 0 trace "$(_id 2)"
    equals "$(_walk)" "-1:root 0:two 1:three 1:four "
}

a_leaf_shows_its_causes() {
    run 0 trace "$(_id 4)"
    equals "$(_walk)" "-2:root -1:two 0:four "
}

every_line_is_json_with_the_depth_first() {
    run 0 trace "$(_id 1)"
    equals "$(lines out)" 5
    python3 -c 'import json; [json.loads(l)["depth"] for l in open("out")]'
    equals "$(grep -c '^{"depth":' out)" 5
}

what_is_not_there_exits_4_and_what_is_no_id_6() {
    run 4 trace "$(_id 9)"
    run 6 trace nonsense
    run 2 trace
}

a_terminal_gets_a_tree() {
    in_terminal 100 "'$HOWDAH' trace $(_id 1)"
    has out "├─ "
    has out "└─ "
    has out "│  └─ "
    equals "$(sed 's/.*a\.//; s/ .*//' out | tr '\n' ' ')" "root two three four five "
}

run_tests "$@"
