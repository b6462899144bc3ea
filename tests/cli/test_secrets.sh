#!/bin/sh
# test_secrets.sh - passwords and files are seen by those who are meant to see them.
# The commands of --exec expand for themselves.
# shellcheck disable=SC2016,SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# The store with a password, which this server does not ask for; a file has none.
_with_password() {
    if on_sqlite; then
        echo "$HOWDAH_STORE"
    else
        echo "$HOWDAH_STORE&password=sesame"
    fi
}

_shows_no_password() {
    tr '\0' ' ' <"/proc/$1/cmdline" >cmdline
    has cmdline "$2"
    has_not cmdline sesame
}

a_password_on_the_command_line_is_overwritten() {
    url=$(_with_password)
    events 1
    for form in "--store $url" "--store=$url"; do
        : >follow.out # not the line of the time before
        # shellcheck disable=SC2086
        "$HOWDAH" follow $form --since 0 --timeout 1m >follow.out 2>follow.err &
        wait_lines follow.out 1
        _shows_no_password $! 'follow --store'
        kill $!
        wait $! || :
    done
}

a_url_that_stands_in_the_wrong_place_is_told_of_without_its_password() {
    run 2 postgres://u:sesame@h/db
    has err "unknown command postgres://u:***@h/db"
    run 2 status postgres://u:sesame@h/db
    has err "one argument too many: postgres://u:***@h/db"
}

a_command_gets_the_store_without_its_password() {
    HOWDAH_STORE=$(_with_password)
    events 1
    run 0 subscribe s --until-caught-up --exec 'echo "$HOWDAH_STORE" >of_event; "$HOWDAH" push q >/dev/null'
    run 0 work q --until-empty --exec 'echo "$HOWDAH_STORE" >of_job'
    has_not of_event sesame
    has_not of_job sesame
    if on_sqlite; then
        equals "$(cat of_job)" "$HOWDAH_STORE"
    else
        equals "$(cat of_job)" "${HOWDAH_STORE%password=sesame}"
    fi
}

a_command_gets_the_password_where_it_is_asked_for() {
    HOWDAH_STORE=$(_with_password)
    events 1
    run 0 subscribe s --until-caught-up --pass-store --exec 'echo "$HOWDAH_STORE" >of_event'
    equals "$(cat of_event)" "$HOWDAH_STORE"
    run 0 push q
    run 0 work q --until-empty --pass-store --exec 'echo "$HOWDAH_STORE" >of_job'
    equals "$(cat of_job)" "$HOWDAH_STORE"
}

a_password_of_the_environment_is_the_commands_too() {
    events 1
    PGPASSWORD=theirs run 0 subscribe s --until-caught-up --exec 'echo "$PGPASSWORD" >seen'
    equals "$(cat seen)" theirs
}

a_file_is_made_for_its_owner_alone() {
    on_sqlite || return 0
    umask 000
    HOWDAH_STORE=sqlite:$PWD/private.db
    run 0 init
    "$HOWDAH" follow --since 0 --timeout 1m >follow.out 2>&1 &
    run 0 append s t
    wait_lines follow.out 1
    equals "$(stat -c %a private.db)" 600
    equals "$(stat -c %a private.db-wal private.db-shm | sort -u)" 600
    kill $!
    wait $! || :
}

a_file_that_is_there_keeps_its_rights() {
    on_sqlite || return 0
    HOWDAH_STORE=sqlite:$PWD/mine.db
    : >mine.db
    chmod 664 mine.db
    run 0 init
    equals "$(stat -c %a mine.db)" 664
}

a_schema_that_would_end_our_quotes_is_refused() {
    for command in init "migrate print" status; do
        # shellcheck disable=SC2086
        run 6 $command --store postgres://nowhere.invalid/x --schema 'a$howdah$b'
        has err 'schema: must not contain $howdah$, in a name of 10 bytes'
    done
}

run_tests "$@"
