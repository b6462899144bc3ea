#!/bin/sh
# test_planted.sh - the property test notices what is planted.
#
#   test_planted.sh PROPERTY
#
# Case 32 is accepted and case 80 refused by every face (with the seed that is the default).
set -u

property=$1
number=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# result SENTENCE: takes the exit code of the last command.
result() {
    code=$?
    number=$((number + 1))
    if [ $code -eq 0 ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        sed 's/^/# /' "$work/out"
    fi
}

says() {
    grep -q "$@" "$work/out"
}

echo 1..11

"$property" --cases 200 >"$work/out"
result "without anything planted all is well"

for face in rules builder sqlite pg sql lines command; do
    ! "$property" --cases 200 --plant "$face:32" >"$work/out" && says '^not ok 1' &&
        says "^# case 32 of seed 20260131: $face refuses it" && says '^# to repeat: ' &&
        says "^#   $face .*refuses" && ! says '^# case [^3]'
    result "an accepted case that only $face refuses is reported with its number"
done

! "$property" --cases 200 --plant sql:80 >"$work/out" && says '^# case 80 of .*: sql accepts it'
result "a refused case that only one face accepts is reported"

! "$property" --case 32 --plant sql:32 >"$work/out" && says '^#   stream  *7 bytes: case-32' &&
    says '^#   sqlite  *accepts' && says '^#   sql  *refuses'
result "a case alone shows what every face says"

! "$property" --cases 200 --tamper 32 >"$work/out" && says '^ok 1' && says '^not ok 2' &&
    says '^not ok 3' && says '^# case 32 of .*: comes back from pg with another data' &&
    says 'must not be there'
result "a changed event and one that nobody appended are reported"
