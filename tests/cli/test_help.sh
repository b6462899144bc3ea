#!/bin/sh
# test_help.sh - help, completion, version, and the manual against the tables.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

setup() {
    :
}

_commands() {
    "$HOWDAH" | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' | grep -v '^howdah$'
}

_options() {
    "$HOWDAH" "$1" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'
}

the_overview_lists_the_commands_and_three_examples() {
    run 0
    for command in init migrate append read follow trace import status doctor bench completion help; do
        grep -q "^  $command " out || fail "$command is missing"
    done
    equals "$(grep -c '^  howdah ' out)" 3
    run 0 --help
    has out "Usage: howdah COMMAND"
    run 0 help
    has out "Usage: howdah COMMAND"
}

every_command_has_help_with_an_example() {
    for command in $(_commands); do
        run 0 "$command" --help
        has out "Usage"
        grep -q "^  .*howdah $command" out || fail "no usage of $command"
        sed '1,/^Examples$/d' out | grep -q "howdah" || fail "no example of $command"
        cp out by_option
        run 0 help "$command"
        cmp out by_option
        run 0 "$command" -h
        empty err
    done
}

no_line_of_help_is_wider_than_80() {
    for command in $(_commands); do
        "$HOWDAH" help "$command" >out
        if sed '/^Examples$/,$d' out | grep -n '.\{81\}'; then
            fail "too wide: help of $command"
        fi
    done
}

the_version_is_told() {
    run 0 --version
    grep -q '^howdah [0-9]*\.[0-9]*\.[0-9]*$' out
    run 0 -V
    run 0 read --version
}

help_for_what_does_not_exist_is_wrong_usage() {
    run 2 help reed
    has err "did you mean read?"
    run 2 help append read
}

completion_scripts_parse_and_know_every_option() {
    for shell in bash zsh fish; do
        run 0 completion $shell
        cp out "script.$shell"
        for command in $(_commands); do
            has "script.$shell" "$command"
            for option in $(_options "$command"); do
                grep -q -e "${option#--}" "script.$shell" || fail "$shell does not know $option"
            done
        done
    done
    bash -n script.bash
    if command -v zsh >/dev/null; then
        zsh -n script.zsh
    fi
    if command -v fish >/dev/null; then
        fish -n script.fish
    fi
    run 2 completion csh
    run 2 completion
}

bash_completes_commands_options_and_values() {
    "$HOWDAH" completion bash >script.bash
    cat >ask.bash <<'END'
source ./script.bash
_ask() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _howdah
    echo "${COMPREPLY[*]}"
}
_ask howdah ap
_ask howdah append --correl
_ask howdah snapshot st
_ask howdah read --order va
_ask howdah append --expect no
_ask howdah --store sqlite:x.db mig
_ask howdah migrate st
_ask howdah help fol
_ask howdah read --since 3 --bac
END
    equals "$(bash ask.bash | tr '\n' ' ')" "append --correlation state valid none migrate status follow --backward "
}

the_manual_names_every_command_and_option() {
    page=$ROOT/man/howdah.1
    for command in $(_commands); do
        grep -q "Cm $command" "$page" || fail "the manual lacks $command"
        # bench refers to its own help.
        if [ "$command" != bench ]; then
            for option in $(_options "$command"); do
                grep -q -e "Fl Fl ${option#--}\\b" "$page" || fail "the manual lacks $option"
            done
        fi
    done
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning "$page"
    fi
}

help_needs_neither_a_store_nor_sound_settings() {
    HOWDAH_STORE=nonsense: HOWDAH_READ_BATCH=nonsense run 0 help append
    HOWDAH_READ_BATCH=nonsense run 0 completion bash
}

run_tests "$@"
