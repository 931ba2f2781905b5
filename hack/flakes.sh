#!/usr/bin/env bash
# Runs the tests N times, each time in a fresh clone of the last commit with an empty bin/, while other processes keep the processors busy,
# and prints what failed how often, with the logs. It fails if a run has failed.
# Usage: hack/flakes.sh N. PKG= and RUN= choose tests as in `make test`, TESTFLAGS= are further flags of go test. LOAD= is how many busy
# processes there are, by default one for each processor. OUT= is the folder of the logs.
set -euo pipefail
runs=${1:?usage: hack/flakes.sh N}
[[ $runs =~ ^[1-9][0-9]*$ ]] || { echo "flakes: $runs is not a number of runs" >&2 && exit 2; }
# In a hook of git, these name the repository of the hook, for the tests in a clone as well.
# shellcheck disable=SC2046 # one argument a variable
unset $(git rev-parse --local-env-vars)
cd "$(dirname "$0")/.."
source=$PWD
processors=$(getconf _NPROCESSORS_ONLN)
load=${LOAD:-$processors}
out=${OUT:-$source/dist/flakes/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$out"
out=$(cd "$out" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/flakes.XXXXXX")
busy=() run=''

# end_run ends what is left of a run. Servers of a test have a process group of their own, and are in the session of the run.
end_run() {
  local left
  [ -n "$run" ] || return 0
  left=$(ps -A -o pid=,sess= | awk -v session="$run" '$2 == session {print $1}')
  # shellcheck disable=SC2086 # One argument for each process.
  [ -z "$left" ] || kill -KILL $left 2>/dev/null || true
  run=''
}

clean_up() {
  trap '' INT TERM
  end_run
  for pid in "${busy[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# failures LOG: the names of tests and packages that failed, once each.
failures() {
  sed -nE -e 's/^ *--- FAIL: ([^ ]+) .*/\1/p' -e 's/^FAIL[[:space:]]+([^ [:space:]]+)[[:space:]].*/\1/p' \
    -e 's/^panic: (test timed out after [^ ]+).*/\1/p' "$1" | sort -u
}

for ((i = 0; i < load; i++)); do
  (while :; do :; done) &
  busy+=($!)
done

failed=0
: >"$folder/failures"
for ((i = 1; i <= runs; i++)); do
  log=$out/run-$i.log began=$SECONDS result=ok
  rm -rf "$folder/clone"
  git clone --quiet --no-hardlinks "$source" "$folder/clone"
  # The variables of a make that runs this script are not those of the tests. The same folder each time, so that Go compiles once.
  (
    cd "$folder/clone"
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
    exec setsid make --no-print-directory -k test PKG="${PKG:-./...}" RUN="${RUN:-}" TESTFLAGS="-count=1 ${TESTFLAGS:-}"
  ) >"$log" 2>&1 </dev/null &
  run=$!
  if ! wait "$run"; then
    result=FAILED failed=$((failed + 1))
    found=$(failures "$log")
    while IFS= read -r what; do
      printf '%s\trun-%s.log\n' "$what" "$i"
    done <<<"${found:-make test}" >>"$folder/failures"
  fi
  end_run
  printf 'flakes: run %d of %d: %s, %ds, %s\n' "$i" "$runs" "$result" $((SECONDS - began)) "$log"
done

printf '\nflakes: %d of %d runs failed, with %d busy processes on %d processors; the logs are in %s\n' "$failed" "$runs" "$load" "$processors" "$out"
if ((failed)); then
  awk -F '\t' -v runs="$runs" '{count[$1]++; logs[$1] = logs[$1] " " $2}
    END {for (what in count) printf "%3d of %d  %-60s %s\n", count[what], runs, what, logs[what]}' "$folder/failures" | sort -rn
  exit 1
fi
