#!/usr/bin/env bash
# Renders catalog/semver.yaml into catalog/app-operator/catalog.yaml, and validates that.
# opm takes the bundles of a semver template from a registry alone. By default that is one of its own,
# for the time of the rendering, with the bundles of the tree: so nothing need have been pushed before.
# CATALOG_FROM=registry renders what was pushed; the two must come to the same.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${BUNDLE_REPOSITORY:?}"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/app-operator-catalog.XXXXXX")
mkdir "$tmp/rendered"
registry=
clean_up() {
  [ -z "$registry" ] || kill "$registry" 2>/dev/null || true
  rm -rf "$tmp"
}
trap clean_up EXIT

# image FOLDER: makes and pushes the image of the bundle there, as bundle.Dockerfile describes it.
image() {
  local name labels=() line
  name=$address/bundle:$(sed -n 's/^  name: app-operator\.//p' "$1/manifests/app-operator.clusterserviceversion.yaml")
  while read -r line; do
    labels+=(--label "${line/: /=}")
  done < <(sed -n 's/^  \(operators\..*\)/\1/p' "$1/metadata/annotations.yaml")
  tar -C "$1" --owner=0 --group=0 -cf "$tmp/bundle.tar" manifests metadata
  bin/crane append --insecure --platform=linux/amd64 -f "$tmp/bundle.tar" -t "$name" >/dev/null
  bin/crane mutate --insecure "${labels[@]}" -t "$name" "$name" >/dev/null
} 2>"$tmp/crane.log"

# render TEMPLATE [FLAG...]
render() {
  bin/opm alpha render-template semver "$@" --migrate-level=bundle-object-to-csv-metadata -o yaml
}

# opm pulls nothing without a policy for signatures, which a machine without container tools lacks. What is pulled from the
# registry of its own was made a moment before.
own_policy() {
  [ -f "$HOME/.config/containers/policy.json" ] || [ -f /etc/containers/policy.json ] && return
  mkdir -p "$tmp/home/.config/containers"
  echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$tmp/home/.config/containers/policy.json"
  export HOME=$tmp/home
}

if [ "${CATALOG_FROM:-}" = registry ]; then
  render catalog/semver.yaml >"$tmp/rendered/catalog.yaml"
else
  bin/crane registry serve --address 127.0.0.1:0 >"$tmp/registry.log" 2>&1 &
  registry=$!
  until address=$(sed -n 's/.*serving on port \([0-9]*\).*/127.0.0.1:\1/p' "$tmp/registry.log") && [ -n "$address" ]; do
    kill -0 "$registry" || { cat "$tmp/registry.log" >&2; exit 1; }
    sleep 0.1
  done
  own_policy
  for folder in catalog/bundles/*/bundle bundle; do
    image "$folder" || { cat "$tmp/crane.log" >&2; exit 1; }
  done
  sed "s|$BUNDLE_REPOSITORY:|$address/bundle:|" catalog/semver.yaml >"$tmp/semver.yaml"
  render "$tmp/semver.yaml" --use-http | sed "s|$address/bundle:|$BUNDLE_REPOSITORY:|" >"$tmp/rendered/catalog.yaml"
fi
bin/opm validate "$tmp/rendered"
mkdir -p catalog/app-operator
mv "$tmp/rendered/catalog.yaml" catalog/app-operator/catalog.yaml
