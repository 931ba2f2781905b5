#!/usr/bin/env bash
# Moves the tag of FOLLOWED to the pushed catalog NEW. OLM offers an upgrade to the versions that a channel names, replaces or skips: a cluster with
# any other version gets none, and no error. So the tag is not moved if a version in a channel of the present catalog is none of these in the
# new one. LEAVE lists the versions, such as "0.2.1", whose clusters are to wait for a later catalog.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${NEW:?}" "${FOLLOWED:?}"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/app-operator-follow.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# catalog IMAGE FILE: writes the catalog in an image to a file.
catalog() {
  bin/crane export "$1" "$2.tar" && tar -xOf "$2.tar" configs/app-operator/catalog.yaml >"$2"
}

# entries FILE [also]: a line "CHANNEL NAME" for each entry of a channel; also for what the entries replace and skip.
entries() {
  awk -v also="${2:-}" '
    /^---/ { n = 0; channel = "" }
    /^[a-z]/ { inside = ($1 == "entries:") }
    inside && /^- name: / { names[n++] = $3 }
    inside && also && /^  replaces: / { names[n++] = $2 }
    inside && also && /^  - / { names[n++] = $2 }
    /^name: / { channel = $2 }
    /^schema: olm.channel$/ { for (i = 0; i < n; i++) print channel, names[i] }
  ' "$1" | sort -u
}

if catalog "$FOLLOWED" "$tmp/old" 2>"$tmp/said"; then
  catalog "$NEW" "$tmp/new"
  entries "$tmp/new" also >"$tmp/offered"
  [ -s "$tmp/offered" ] || { echo "catalog-follow: $NEW has no channel" >&2; exit 1; }
  lost=$(entries "$tmp/old" | comm -23 - "$tmp/offered")
  for version in ${LEAVE:-}; do lost=$(grep -v " app-operator\.v${version//./\\.}\$" <<<"$lost" || true); done
  if [ -n "$lost" ]; then
    echo "catalog-follow: $FOLLOWED stays, as clusters with these versions would get no upgrade from $NEW:" >&2
    sed 's/^/  /' <<<"$lost" >&2
    echo 'Name them in catalog/semver.yaml, and publish the catalog again; or leave these clusters as they are: CATALOG_LEAVE="0.2.1"' >&2
    exit 1
  fi
elif ! tail -n 1 "$tmp/said" | grep -qE 'MANIFEST_UNKNOWN|NAME_UNKNOWN|404 Not Found'; then
  echo "catalog-follow: $FOLLOWED was not read: $(tail -n 1 "$tmp/said")" >&2
  exit 1
fi
bin/crane tag "$NEW" "${FOLLOWED##*:}"
