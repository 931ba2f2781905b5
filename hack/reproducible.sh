#!/usr/bin/env bash
# Builds the programs of the image for Linux twice, with the flags that are given, and prints their checksums if the two builds are the same. The builds
# have a folder, of another length, and a build cache each: nothing that the first has compiled is in the second.
set -euo pipefail
cd "$(dirname "$0")/.."
sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in one another-one; do
  mkdir "$folder/$name"
  # The whole tree: a program can embed any file of it.
  git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -cf - | tar -xf - -C "$folder/$name"
  (
    cd "$folder/$name"
    GOFLAGS='' GOWORK=off CGO_ENABLED=0 GOOS=linux GOCACHE=$folder/cache-$name go build "$@" -o manager .
    GOFLAGS='' GOWORK=off CGO_ENABLED=0 GOOS=linux GOCACHE=$folder/cache-$name go build "$@" -o kubectl-happ ./cmd/kubectl-happ
  )
  sums=$(for program in manager kubectl-happ; do
    echo "$(sha256 <"$folder/$name/$program" | cut -d ' ' -f 1)  $program ($(go env GOVERSION) linux/$(go env GOARCH))"
  done)
  rm -rf "$folder/cache-$name"
  if [ "$sums" != "${first:=$sums}" ]; then
    printf 'reproducible: two builds of one source differ:\n%s\n%s\n' "$first" "$sums" >&2
    exit 1
  fi
done
echo "$sums"
