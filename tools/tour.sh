#!/bin/sh
# tour.sh - a guided tour: appends, reads, follows and handles events, shares work through a queue, and
# shows each command it runs.
#
#   tools/tour.sh PATH/TO/howdah FILE.db
#
# It can be taken again on the same file: each tour is about an order of its own.
set -eu

program=$1
file=$2

PATH=$(dirname "$program"):$PATH
cd "$(dirname "$file")"
HOWDAH_STORE=sqlite:$(basename "$file")
export PATH HOWDAH_STORE

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m')
    dim=$(printf '\033[2m')
    plain=$(printf '\033[0m')
else
    bold='' dim='' plain=''
fi

tell() {
    printf '\n%s%s%s\n' "$dim" "$*" "$plain"
}

# Prints a command as one would type it.
prompt() {
    printf '%s$' "$bold"
    for word in "$@"; do
        case $word in
        '&') printf ' &' ;;
        *[!A-Za-z0-9_./:=@%+,-]* | '') printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '%s\n' "$plain"
}

show() {
    prompt "$@"
    "$@"
}

# The id of a stream's last event, to name it as a cause.
last_id() {
    howdah read --stream "$1" --last --json | sed -n 's/.*"id":"\([^"]*\)".*/\1/p'
}

# The first order without events.
number=1
if [ -f "$(basename "$file")" ]; then
    while [ -n "$(howdah read --stream "order-$number" --limit 1 --json 2>/dev/null)" ]; do
        number=$((number + 1))
    done
fi
order=order-$number
invoice=invoice-$number
purchase=purchase-$number

tell "A bus is a file here (a schema on PostgreSQL).  Creating it again does no harm."
show howdah init

tell "An event has a stream, a type and a payload.  This one must be the first of its stream."
show howdah append "$order" order.created '{"customer":"ada","total":12.50}' --expect none \
    --header source=tour --correlation "$purchase"
cause=$(last_id "$order")

tell "The same expectation again: refused, and nothing is stored.  That is exit code 3."
prompt howdah append "$order" order.created '{"customer":"bob"}' --expect none
code=0
howdah append "$order" order.created '{"customer":"bob"}' --expect none 2>&1 || code=$?
[ $code -eq 3 ] || exit 1

tell "The stream is at version 1, so this one becomes version 2.  Its cause is the event before."
show howdah append "$order" order.paid '{"method":"card"}' --expect 1 --correlation "$purchase" \
    --causation "$cause" --actor payments
cause=$(last_id "$order")

tell "A batch is stored whole or not at all, also over several streams."
batch='{"stream":"'$invoice'","type":"invoice.issued","data":{"order":"'$order'"},"correlation_id":"'$purchase'","causation_id":"'$cause'"}
{"stream":"'$order'","type":"order.shipped","data":{"parcels":2},"correlation_id":"'$purchase'","causation_id":"'$cause'"}'
printf '%s$ howdah append --batch <<END%s\n%s\nEND\n' "$bold" "$plain" "$batch"
printf '%s\n' "$batch" | howdah append --batch

tell "One stream, in order of its versions:"
show howdah read --stream "$order"

tell "Every type that matches a pattern, newest first:"
show howdah read --pattern 'invoice.*' --backward --limit 3

tell "What caused what, seen from the payment:"
show howdah trace "$cause"

tell "Follow the log: what another process appends appears at once."
prompt howdah follow --pattern 'order.>' --max 1 --timeout 10s '&'
howdah follow --pattern 'order.>' --max 1 --timeout 10s </dev/null &
follower=$!
sleep 1
show howdah append "$order" order.delivered '{"parcels":2}' --correlation "$purchase"
wait $follower

tell "Handle each event durably: a command runs once for each, and the place is kept."
# shellcheck disable=SC2016
show howdah subscribe tour --pattern 'order.*' --until-caught-up \
    --exec 'echo "$HOWDAH_STREAM: $HOWDAH_EVENT_TYPE"'
tell "Run again, it goes on where it was; there is nothing new."
show howdah subscribe tour --until-caught-up
show howdah sub ls

tell "Share work between processes: each job of a queue is for one worker at a time."
show howdah push mail '{"to":"ada"}' --key ada
show howdah push mail '{"to":"nobody"}'
tell "A worker runs a command for each.  An attempt counts before it begins; what fails is kept."
show howdah work mail --until-empty --quiet \
    --exec 'if grep -q nobody; then echo "no such address" >&2; exit 1; fi; echo sent'
show howdah log mail --backward --limit 2
show howdah queue show mail

tell "The state of the bus:"
show howdah status

cat <<END

${bold}That was the tour.${plain}  The events are in $(basename "$file").  To go on:

  export PATH="$(dirname "$program"):\$PATH"
  howdah help                                every command, with examples
  howdah read --correlation $purchase       all that belongs to this purchase
  howdah follow                              and append from another terminal
  howdah subscribe mail --exec ./send-mail   a command for every event
  howdah bind mail 'order.*'                 a job for every event, for as many workers as you like
  howdah doctor                              is the store set up well?
  howdah init --store sqlite:copy.db         then copy a log:
  howdah read | howdah append --batch --store sqlite:copy.db
  howdah init --store postgres://HOST/DB     the same on PostgreSQL
END
