#!/usr/bin/env bash
# Builds the manager for Linux twice, with the flags that are given, and prints the checksum if the two are the same. The two
# have a folder, of another length, and a build cache each: nothing that the first has compiled is in the second.
set -euo pipefail
cd "$(dirname "$0")/.."
sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in one another-one; do
  mkdir "$folder/$name"
  git ls-files -z --cached --others --exclude-standard -- '*.go' go.mod go.sum api/go.mod api/go.sum | tar --null --files-from=- -cf - | tar -xf - -C "$folder/$name"
  (
    cd "$folder/$name"
    GOFLAGS='' GOWORK=off CGO_ENABLED=0 GOOS=linux GOCACHE=$folder/cache-$name go build "$@" -o manager .
  )
  sum=$(sha256 <"$folder/$name/manager" | cut -d ' ' -f 1)
  rm -rf "$folder/cache-$name"
  if [ "$sum" != "${first:=$sum}" ]; then
    printf 'reproducible: two builds of one source differ:\n%s\n%s\n' "$first" "$sum" >&2
    exit 1
  fi
done
echo "$sum  manager ($(go env GOVERSION) linux/$(go env GOARCH))"
