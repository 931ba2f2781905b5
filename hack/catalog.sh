#!/usr/bin/env bash
# Renders the template CATALOG_TEMPLATE into $OUT/app-operator/catalog.yaml, validates it, and puts catalog.Dockerfile next to it.
# CATALOG_FROM=registry renders all versions of the template, from the bundles that are pushed to BUNDLE_REPOSITORY: so does a
# release. The catalog then names the bundles by digest, so that its own digest fixes what is installed. Otherwise the catalog has
# the version in bundle/ alone, by tag, and nothing need be pushed: opm takes the bundles of such a template from a registry only,
# so crane serves one for the time of the rendering.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${BUNDLE_REPOSITORY:?}" "${CATALOG_TEMPLATE:?}" "${OUT:?}"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/app-operator-catalog.XXXXXX")
mkdir "$tmp/rendered"
registry=
clean_up() {
  [ -z "$registry" ] || kill "$registry" 2>/dev/null || true
  rm -rf "$tmp"
}
trap clean_up EXIT

# template REPOSITORY: the template, with the bundles in REPOSITORY.
template() {
  sed "s|^\( *- image: \).*:|\1$1:|" "$CATALOG_TEMPLATE"
}

# template_by_digest: the template, with the digest of each bundle in BUNDLE_REPOSITORY in place of its tag.
template_by_digest() {
  local image digest edits=()
  while read -r image; do
    digest=$(bin/crane digest "$image")
    edits+=(-e "s|: $image\$|: ${image%:*}@$digest|")
  done < <(template "$BUNDLE_REPOSITORY" | sed -n 's/^ *- image: //p' | sort -u)
  template "$BUNDLE_REPOSITORY" | sed "${edits[@]}"
}

# render [FLAG...]
render() {
  bin/opm alpha render-template semver "$tmp/semver.yaml" "$@" --migrate-level=bundle-object-to-csv-metadata -o yaml
}

# serve: starts the registry, and sets address. It fails if the log does not name the port within 30 s.
serve() {
  local deadline=$((SECONDS + 30))
  bin/crane registry serve --address 127.0.0.1:0 >"$tmp/registry.log" 2>&1 &
  registry=$!
  until address=$(sed -n 's/.*serving on port \([0-9]*\).*/127.0.0.1:\1/p' "$tmp/registry.log") && [ -n "$address" ]; do
    if ! kill -0 "$registry" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
      echo 'catalog: bin/crane has not named the port of its registry; its log is:' >&2
      cat "$tmp/registry.log" >&2
      return 1
    fi
    sleep 0.1
  done
}

# image NAME: makes and pushes the image of bundle/, as bundle.Dockerfile describes it.
image() {
  local labels=() line
  while read -r line; do
    labels+=(--label "${line/: /=}")
  done < <(sed -n 's/^  \(operators\..*\)/\1/p' bundle/metadata/annotations.yaml)
  tar -C bundle --owner=0 --group=0 -cf "$tmp/bundle.tar" manifests metadata
  bin/crane append --insecure --platform=linux/amd64 -f "$tmp/bundle.tar" -t "$1" >/dev/null
  bin/crane mutate --insecure "${labels[@]}" -t "$1" "$1" >/dev/null
}

# own_policy: opm pulls nothing without a policy for signatures, which a machine without container tools lacks. The image in
# the registry of this script was made a moment before.
own_policy() {
  [ -f "$HOME/.config/containers/policy.json" ] || [ -f /etc/containers/policy.json ] && return
  mkdir -p "$tmp/home/.config/containers"
  echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$tmp/home/.config/containers/policy.json"
  export HOME=$tmp/home
}

if [ "${CATALOG_FROM:-}" = registry ]; then
  template_by_digest >"$tmp/semver.yaml"
  render >"$tmp/rendered/catalog.yaml"
else
  version=$(sed -n 's/^  name: app-operator\.//p' bundle/manifests/app-operator.clusterserviceversion.yaml)
  serve
  image "$address/bundle:$version" 2>"$tmp/crane.log" || { cat "$tmp/crane.log" >&2; exit 1; }
  own_policy
  template "$address/bundle" | sed "/image: /{/:$version\$/!d}" >"$tmp/semver.yaml"
  render --use-http | sed "s|$address/bundle:|$BUNDLE_REPOSITORY:|" >"$tmp/rendered/catalog.yaml"
fi
bin/opm validate "$tmp/rendered"
mkdir -p "$OUT/app-operator"
mv "$tmp/rendered/catalog.yaml" "$OUT/app-operator/catalog.yaml"
cp catalog.Dockerfile "$OUT/"
echo "catalog: $OUT/app-operator/catalog.yaml has $(sed -n 's/^name: \(app-operator\.v.*\)/\1/p' "$OUT/app-operator/catalog.yaml" | xargs)"
