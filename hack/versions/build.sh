#!/usr/bin/env bash
# build.sh VERSION: builds etcd, kube-apiserver and kubectl of a version that is pinned here into a cache outside the tree, and prints the folder
# that has them, for KUBEBUILDER_ASSETS. All other output goes to standard error. What is built already is not built again.
# The cache: ${APP_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/app-operator}/versions
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export LC_ALL=C GOWORK=off CGO_ENABLED=0 # as hack/cluster/build.sh has it

version=${1:?usage: hack/versions/build.sh VERSION}
version=v${version#v}
pins=$version.mod
if [[ ! -f $pins ]]; then
  echo "versions: Kubernetes $version is not pinned. Pinned are: $(echo v*.mod | sed 's/\.mod//g'). To add it: hack/versions/pin.sh ${version#v}" >&2
  exit 1
fi
IFS=. read -r major minor _ <<<"${version#v}"
hash=$({ go env GOOS GOARCH GOVERSION && cat build.sh main.go "$pins" "$version.sum"; } | git hash-object --stdin | cut -c 1-12)
folder=${APP_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/app-operator}/versions/$version-$hash
if [[ ! -x $folder/kube-apiserver ]]; then
  echo "versions: building the API server of Kubernetes $version from Go modules. This takes some minutes, once." >&2
  began=$SECONDS
  mkdir -p "$folder"
  # Two builds at once do no harm: each makes its own file, and the last step puts it into place as a whole.
  binary=$(mktemp "$folder/.apiserver.XXXXXX")
  trap 'rm -f "$binary"' EXIT
  package=k8s.io/component-base/version
  go build -modfile="$pins" -trimpath -buildvcs=false -o "$binary" -ldflags "-s -w
    -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor -X $package.gitTreeState=clean" . >&2
  chmod 755 "$binary"
  for name in etcd kubectl; do
    ln -sf kube-apiserver "$folder/$name"
  done
  mv -f "$binary" "$folder/kube-apiserver"
  echo "versions: built in $((SECONDS - began))s" >&2
fi
echo "$folder"
