#!/usr/bin/env bash
# pin.sh VERSION: writes vVERSION.mod and vVERSION.sum, which pin that version of Kubernetes and all that it is built from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export GOWORK=off
version=${1:?usage: hack/versions/pin.sh VERSION}
version=v${version#v}
file=$version.mod
dir=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')

cat >"$file" <<EOF
// Pins Kubernetes $version and all that it is built from. Written by pin.sh.
module huolala.cn/app-operator/hack/versions

$(grep -E '^go ' "$dir/go.mod")

require k8s.io/kubernetes $version

// Kubernetes' own replacements point into a folder that its module does not contain.
replace (
$(sed -nE "s/^\t(k8s\.io\/[^ ]+) v0\.0\.0( .*)?$/\t\1 => \1 v0.${version#v1.}/p" "$dir/go.mod" | sort -u)
)
EOF
go mod tidy -modfile="$file"
