#!/usr/bin/env bash
# Builds the cluster binary into a cache outside the tree and prints the folder that holds it and its symlinks
# (etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok) to standard output; everything
# else goes to standard error. What is built already is not built again.
# The cache: ${APP_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/app-operator}/cluster
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export LC_ALL=C GOWORK=off CGO_ENABLED=0 # without cgo it is the same everywhere, and needs no C compiler

sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; }

kubernetes=$(sed -n 's/^[[:space:]]*k8s\.io\/kubernetes \(v[0-9.]*\)$/\1/p' go.mod) # v1.36.3
IFS=. read -r major minor _ <<<"${kubernetes#v}"
inputs=(build.sh go.mod go.sum stages/*.yaml)
for file in *.go; do
  [[ $file == *_test.go ]] || inputs+=("$file")
done
hash=$({ go env GOOS GOARCH GOVERSION && tail -n +1 "${inputs[@]}"; } | sha256 | cut -c 1-12)
folder=${APP_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/app-operator}/cluster/$kubernetes-$hash
if [[ -x $folder/cluster ]]; then
  echo "$folder"
  exit
fi

# progress TOTAL: turns the package names that `go build -v` prints into a counter; passes everything else on.
progress() {
  local total=$1 count=0 last=0 line
  while IFS= read -r line; do
    if [[ $line == *[[:space:]]* ]]; then
      echo "$line"
      continue
    fi
    count=$((count + 1))
    if [[ -t 2 ]]; then
      printf '\r\033[K[%4d/%d] %.60s' "$count" "$total" "$line"
    elif ((SECONDS - last >= 5)); then
      printf '[%4d/%d] %s\n' "$count" "$total" "$line"
      last=$SECONDS
    fi
  done
  [[ ! -t 2 || $count == 0 ]] || printf '\r\033[K'
} >&2

version=k8s.io/component-base/version
build=(-trimpath -buildvcs=false -ldflags "-s -w
  -X $version.gitVersion=$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor -X $version.gitTreeState=clean
  -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes")

echo "cluster: building Kubernetes $kubernetes from Go modules" >&2
stale=$(go list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "${build[@]}" . | wc -l)
((stale < 100)) || echo "cluster: $((stale)) packages to compile. This takes some minutes, once." >&2
mkdir -p "$folder"
# Two builds at once do no harm: each makes its own file, and the last step puts it into place as a whole.
binary=$(mktemp "$folder/.cluster.XXXXXX")
trap 'rm -f "$binary"' EXIT
go build -v "${build[@]}" -o "$binary" . 2>&1 >/dev/null | progress "$((stale))"
for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok; do
  ln -s cluster "$folder/$name" 2>/dev/null || [[ -L $folder/$name ]]
done
chmod 755 "$binary"
mv -f "$binary" "$folder/cluster"
echo "cluster: built in ${SECONDS}s" >&2
echo "$folder"
