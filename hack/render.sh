#!/usr/bin/env bash
# Prints config/default with the manager's image set to $1, and with the components of
# config/components that are named after it.
# `kustomize edit` writes into a kustomization.yaml: here it is that of a throw-away overlay in
# dist/, which git ignores, so that no deployment leaves the tree changed.
set -euo pipefail
image=${1:?usage: render.sh IMAGE [COMPONENT...]}
shift
cd "$(dirname "$0")/.."
kustomize=$PWD/bin/kustomize

mkdir -p dist
overlay=$(mktemp -d dist/overlay.XXXXXX)
trap 'rm -rf "$overlay"' EXIT
(
  cd "$overlay"
  "$kustomize" create --resources ../../config/default
  "$kustomize" edit set image "controller=$image"
  # namespaced is the last: it limits what the others add.
  for component in $(printf '%s\n' "$@" | grep -vx namespaced) $(printf '%s\n' "$@" | grep -x namespaced); do
    "$kustomize" edit add component "../../config/components/$component"
  done
)
"$kustomize" build "$overlay"
