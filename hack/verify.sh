#!/usr/bin/env bash
# Says whether what is generated matches its sources, and whether the code is in order.
# Works on a tree with uncommitted changes: it compares the generated files before and after
# generating them again, not with what git has. (The bundle's time of creation is that of its last
# change; hack/bundle.sh keeps it where nothing else differs.) Runs all checks before it fails.
set -uo pipefail
cd "$(dirname "$0")/.."
# The Makefile's own values: with an exported OUT, IMG or VERSION of the user, other files would be generated than those that are compared. The
# variables of a make that runs this script have the values of its command line.
# shellcheck disable=SC2046 # one argument a variable
unset $(sed -nE 's/^([a-z -]+: )?([A-Z_0-9]+) \?=.*/\2/p' Makefile) USE_IMAGE_DIGESTS CATALOG_FROM MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
failed=()

# check NAME COMMAND...: runs it, and remembers a failure.
check() {
  local name=$1
  shift
  echo "verify: $name"
  "$@" || failed+=("$name")
}

# checksums prints the checksums of the generated files.
checksums() {
  local sum=(sha256sum)
  command -v sha256sum >/dev/null || sum=(shasum -a 256)
  {
    find config/crd/bases config/manifests/bases docs/api.md docs/observability.md config/components/dashboards config/rbac/role.yaml config/webhook -type f 2>/dev/null
    find bundle bundle.Dockerfile -type f 2>/dev/null
    find api resource -name 'zz_generated.*' 2>/dev/null
    find api/client -type f 2>/dev/null || true
  } | LC_ALL=C sort | xargs "${sum[@]}"
}

regenerate() {
  local before after
  before=$(checksums) || return
  # --no-print-directory: this runs under make already.
  make --no-print-directory generate manifests docs bundle || return
  after=$(checksums) || return
  [ "$before" = "$after" ] && return
  echo 'These were not up to date; now they are. Commit them:'
  diff <(echo "$before") <(echo "$after") | awk '/^[<>]/ {print "  " $3}' | sort -u
  return 1
}

# The validators of operator-sdk have no error and no warning about the bundle in the tree.
validators() {
  local said
  said=$(bin/operator-sdk bundle validate --output=json-alpha1 --select-optional suite=operatorframework bundle) &&
    grep -q '"outputs": null' <<<"$said" && return
  echo "$said"
  return 1
}

formatted() {
  local files
  files=$(gofmt -l .)
  [ -z "$files" ] && return
  printf 'gofmt would change:\n%s\n' "$files"
  return 1
}

# Each alone and all together, on top of config/default.
components() {
  local all
  all=$(ls config/components)
  for component in $all "$all"; do
    # shellcheck disable=SC2086 # one argument a component
    hack/render.sh controller:latest $component >/dev/null || return
  done
}

# The image's builder sees what the Dockerfile copies and .dockerignore lets through: each room that its programs are made of.
image() {
  local rooms room missing=0
  rooms=$(go list -buildvcs=false -deps . ./cmd/kubectl-happ | sed -n 's|^huolala.cn/app-operator/\([^/]*\).*|\1|p' | sort -u) || return
  for room in $rooms; do
    grep -q "^COPY $room/ " Dockerfile || { echo "Dockerfile does not copy $room/"; missing=1; }
    grep -qx "!$room/" .dockerignore || { echo ".dockerignore leaves $room/ out"; missing=1; }
  done
  # A module of its own is needed before its code is: go mod download reads the go.mod of each.
  for file in Dockerfile test/scorecard/Dockerfile; do
    sed '/go mod download/q' "$file" | grep -qx 'COPY api/go.mod api/go.sum api/' ||
      { echo "$file does not copy the go.mod of api/ before it downloads modules"; missing=1; }
  done
  return $missing
}

# tidy FOLDER [FLAG...]: flags of go mod tidy.
tidy() { (cd "$1" && shift && go mod tidy -diff "$@"); }

check 'generated files and CRD sizes' regenerate
check 'config/components' components
check 'the validators of operator-sdk' validators
check 'the catalog' make --no-print-directory catalog
check formatting formatted
check 'go.mod' tidy .
check 'api/go.mod' tidy api
check 'test/consumer/go.mod' tidy test/consumer
check 'test/networkpolicy/go.mod' tidy test/networkpolicy
check 'test/ui/go.mod' tidy test/ui
check 'hack/cluster/go.mod' tidy hack/cluster
check 'hack/chart/go.mod' tidy hack/chart
for client in stage flux argocd; do
  check "test/gitops/$client/go.mod" tidy "test/gitops/$client"
done
for file in hack/versions/v*.mod; do
  check "$file" tidy hack/versions -modfile="$(basename "$file")"
done
check 'the rooms in the image' image
check 'go vet' make --no-print-directory vet

if [ ${#failed[@]} -gt 0 ]; then
  printf 'verify: FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo 'verify: all in order'
