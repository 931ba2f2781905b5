#!/usr/bin/env bash
# Prints the objects on standard input, as hack/render.sh writes them, except for some of them.
# Usage: hack/without.sh kinds KIND...      without the objects of these kinds
#        hack/without.sh objects FILE       without the objects that FILE has, too: by API group, kind, namespace and name
set -euo pipefail
usage() { sed -n 's/^# \(Usage: \)\{0,1\} *\(hack.*\)/\2/p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
what=$1
shift

# Of an object, the lines of the first level and the names in its metadata are enough; all other lines are copied.
filter='
function end_object(    id) {
  if (text == "") return
  sub(/\/.*/, "", group)
  id = group " " kind " " namespace " " name
  if (reading) listed[id] = 1
  else if (kind != "" && !(id in listed) && !(kind in excluded)) { printf "%s%s", printed ? "---\n" : "", text; printed = 1 }
  text = ""; group = ""; kind = ""; namespace = ""; name = ""; metadata = 0
}
BEGIN { n = split(kinds, list, " "); for (i = 1; i <= n; i++) excluded[list[i]] = 1 }
FNR == 1 { end_object(); reading = NR == FNR && listing }
/^---$/ { end_object(); next }
/^[^ ]/ { metadata = /^metadata:/ }
/^apiVersion: / { group = $2 ~ /\// ? $2 : "" }
/^kind: / { kind = $2 }
metadata && /^  name: / { name = $2 }
metadata && /^  namespace: / { namespace = $2 }
{ text = text $0 "\n" }
END { end_object() }
'
case $what in
  kinds) exec awk -v kinds="$*" -v listing=0 "$filter" - ;;
  objects) exec awk -v kinds='' -v listing=1 "$filter" "$1" - ;;
  *) usage ;;
esac
