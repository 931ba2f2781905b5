#!/usr/bin/env bash
# test.sh [VERSION...]: runs the suites of PKG against the API server of each version of Kubernetes, one version at a time, and prints a table
# of what passed. Without arguments: each version that is pinned here. It fails if a suite has failed. RUN= and TESTFLAGS= are those of
# make test. OUT= is the folder of the logs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
read -ra packages <<<"${PKG:-./test/integration ./test/examples}"
out=${OUT:-dist/versions}
mkdir -p "$out"

versions=("$@")
if ((${#versions[@]} == 0)); then
  for file in hack/versions/v*.mod; do
    version=$(basename "$file" .mod)
    versions+=("${version#v}")
  done
fi

# count RESULT LOG: how many tests, subtests not counted, have this result.
count() { grep -c "^--- $1: " "$2" || true; }

failed=0 rows=()
row() { rows+=("$(printf '%-10s %-20s %-7s %7s %7s %8s %6s' "$@")"); }
row Kubernetes suite result passed failed skipped seconds
for version in "${versions[@]}"; do
  version=${version#v}
  if ! assets=$(hack/versions/build.sh "$version"); then
    failed=1
    row "$version" - 'no build' - - - -
    continue
  fi
  [[ $("$assets/kube-apiserver" --version) == "Kubernetes v$version" ]] || { echo "versions: $assets is not Kubernetes $version" >&2 && exit 1; }
  for package in "${packages[@]}"; do
    log=$out/$version-$(basename "$package").log began=$SECONDS result=ok
    echo "versions: $package on Kubernetes $version; the log is $log" >&2
    make --no-print-directory test-operator KUBEBUILDER_ASSETS="$assets" PKG="$package" RUN="${RUN:-}" TESTFLAGS="-v -count=1 ${TESTFLAGS:-}" \
      >"$log" 2>&1 || { result=FAILED failed=1 && grep -E '^ *--- FAIL: |^panic: ' "$log" | head -50 >&2 || true; }
    row "$version" "${package#./}" "$result" "$(count PASS "$log")" "$(count FAIL "$log")" "$(count SKIP "$log")" $((SECONDS - began))
  done
done

printf '%s\n' "${rows[@]}"
exit $failed
