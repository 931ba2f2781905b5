#!/usr/bin/env bash
# Reports words that the product's texts do not use, with the place and the replacement; hack/words.txt has the list.
# Usage: hack/words.sh [FILE...]; without files, all texts of the tree: documentation, scripts, manifests, definitions, and the
# comments, messages and names of Go code. The bundle repeats the definitions. Words that a hyphen, a dot or a
# slash joins, such as file names, are one word.
set -euo pipefail
cd "$(dirname "$0")/.."
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.md' '*.sh' '*.yml' '*.yaml' \
  '*.go' Makefile '*Dockerfile' .ci ':!bundle' ':!*/testdata/*')
[ ${#files[@]} -gt 0 ] || { echo 'words: git lists no files; name them' >&2; exit 1; } # awk would read from the terminal.

exec awk '
BEGIN {
	while ((getline line < "hack/words.txt") > 0) {
		if (line ~ /^#/ || line == "") continue
		if (split(line, row, "\t") != 2) { print "hack/words.txt: no tab in: " line; bad = 1; continue }
		phrase = tolower(row[1]); instead[phrase] = row[2]
		count = split(phrase, unused, " "); if (count > longest) longest = count
	}
}
FNR == 1 { delete word; at = 0 }
{
	text = tolower($0); gsub(/[^a-z0-9\047.\/_-]/, " ", text)
	n = split(text, tokens, " ")
	for (i = 1; i <= n; i++) {
		token = tokens[i]; gsub(/^[.\047\/_-]+|[.\047\/_-]+$/, "", token)
		if (token == "") continue
		word[++at] = token; phrase = ""
		for (k = 1; k <= longest && k <= at; k++) {
			phrase = word[at - k + 1] (k > 1 ? " " : "") phrase
			if (phrase in instead) { printf "%s:%d: \"%s\": write %s\n", FILENAME, FNR, phrase, instead[phrase]; bad = 1 }
		}
	}
}
END { exit bad }
' "${files[@]}"
