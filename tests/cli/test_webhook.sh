#!/bin/sh
# test_webhook.sh - howdah webhook: whom the gateways tell of events.  What is sent: tests/gateway.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

a_secret_is_told_once() {
    run 0 webhook set shop --url https://shop.example/hook --pattern 'order.*'
    secret=$(field secret)
    equals "${#secret}" 50
    run 0 webhook set shop --url https://shop.example/other --pattern 'order.*'
    has_not out secret
    equals "$(field url)" https://shop.example/other
    run 0 webhook set shop --url https://shop.example/other --pattern 'order.*' --new-secret
    has out '"secret":"whsec_'
    has_not out "$secret"
    run 0 webhook show shop
    has_not out secret
    run 0 webhook ls
    has_not out secret
}

what_was_set_is_shown_but_no_value_of_a_header() {
    run 0 webhook set shop --url http://x/ --header 'Authorization=Bearer abc' --header X-A= --timeout 2s \
        --max-retries 3 --retry-delay 1s --max-retry-delay 1m --start start --stream s --subscription mine
    run 0 webhook show shop
    has out '"headers":{"Authorization":"***","X-A":"***"}'
    has_not out abc
    has out '"subscriber_id":"mine","pattern":null,"stream":"s"'
    has out '"start":"start","timeout_ms":2000,"max_retries":3,"retry_delay_ms":1000,"max_retry_delay_ms":60000'
    run 0 sub show mine
}

it_is_disabled_enabled_and_removed() {
    run 0 webhook set shop --url http://x/
    run 0 webhook disable shop --reason 'not now'
    has out '"enabled":false,"reason":"not now"'
    run 0 webhook enable shop
    has out '"enabled":true,"reason":null'
    run 0 webhook rm shop
    equals "$(cat out)" '{"name":"shop","removed":true}'
    run 4 webhook show shop
    has err "howdah webhook ls lists them"
    run 0 webhook ls
    empty out
    run 0 sub show webhook.shop
}

another_filter_is_a_conflict() {
    run 0 webhook set shop --url http://x/ --pattern 'order.*'
    run 3 webhook set shop --url http://y/ --pattern 'mail.*'
    run 0 webhook show shop
    equals "$(field url)" http://x/
}

what_is_wrong_is_refused() {
    run 2 webhook
    run 2 webhook set shop
    has err "needs --url"
    run 6 webhook set shop --url http://user:secret@x/
    has err "user and password"
    has_not err secret
    run 6 webhook set shop --url ftp://x/
    run 6 webhook set shop --url http://x/ --header Host=y
    run 2 webhook set shop --url http://x/ --header a
    run 2 webhook show shop --url http://x/
    has err "webhook show does not take --url"
    run 0 webhook ls
    empty out
}

a_terminal_shows_sentences_and_a_table() {
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' webhook ls"
    has out "no webhooks"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' webhook set shop --url http://x/"
    has out "shop is set"
    has out "secret: whsec_"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' webhook ls"
    equals "$(sed -n 1p out | tr -s ' ' | cut -d' ' -f1-4)" "name url pattern enabled"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' webhook show shop"
    grep -q '^subscription  *webhook.shop$' out || fail "no subscription"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' webhook disable shop"
    has out "shop is disabled"
    in_terminal 100 "NO_COLOR=1 '$HOWDAH' webhook rm shop"
    has out "shop is removed"
}

run_tests "$@"
