#!/usr/bin/env bash
# Counts phrases in the comments of Go code that have no subject of their own: clauses without a noun ("what is wrong"), verbs of
# persons for things ("the struct tells"), and pronouns without a noun ("one that", "those of"). It fails if there are more of them
# for 10,000 words of comments than the limit. Each change may lower the limit and none raises it.
# Usage: hack/phrases.sh [--list] [FILE...]; --list prints each phrase with its place. Without files: all Go code but tests and generated code.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=21 # for 10,000 words of comments

list=
if [ "${1:-}" = --list ]; then list=1; shift; fi
files=("$@")
if [ $# -eq 0 ]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.go' ':!test' ':!*_test.go' ':!*/testdata/*' | while read -r file; do
    [ -f "$file" ] && ! grep -qm1 '^// Code generated' "$file" && echo "$file"
  done)
  [ ${#files[@]} -gt 0 ] || { echo 'phrases: git lists no files; name them' >&2; exit 1; } # awk would read from the terminal.
fi

exec awk -v limit="$limit" -v list="$list" '
BEGIN {
	split("is was are were it they", noun); for (i in noun) nounless[noun[i]] = 1
	split("stands lives goes comes tells says wants asks believed", verb); for (i in verb) person[verb[i]] = 1
}
function report(phrase) { count++; if (list) printf "%s:%d: %s\n", FILENAME, FNR, phrase }
FNR == 1 { before = "" }
{
	at = 0
	if ($0 ~ /^[ \t]*\/\//) at = index($0, "//")
	else if (match($0, /[ \t]\/\/ /)) at = RSTART + 1
	if (!at) { before = ""; next }
	text = substr($0, at + 2)
	if (text ~ /^(\+|nolint|go:)/) next
	text = tolower(text); gsub(/[.,;:!?()]( |$)/, " | ", text); gsub(/[^a-z0-9\047_|\/-]/, " ", text)
	n = split(text, tokens, " ")
	for (i = 1; i <= n; i++) {
		word = tokens[i]
		if (word != "|") words++
		if (before == "what" && word in nounless) report(before " " word)
		if (word in person) report(word)
		if (word == "that" && (before == "one" || before == "those")) report(before " " word)
		if (word == "of" && (before == "that" || before == "those")) report(before " " word)
		before = word
	}
}
END {
	if (!words) { print "no comments"; exit 1 }
	rate = count * 10000 / words
	printf "%d phrases in %d words of comments: %.1f for 10,000 words, the limit is %s\n", count, words, rate, limit
	if (rate > limit) { print "hack/phrases.sh --list prints them: write the noun"; exit 1 }
	if (rate < limit - 1) printf "lower the limit in hack/phrases.sh to %d\n", rate + 1
}
' "${files[@]}"
