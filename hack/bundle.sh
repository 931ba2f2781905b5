#!/usr/bin/env bash
# Makes the OLM bundle: $OUT/bundle and $OUT/bundle.Dockerfile, from config/manifests and the markers in
# api/. `make bundle` says which version and channels (VERSION, CHANNELS, DEFAULT_CHANNEL), and where to (OUT).
#
# IMG by digest, or USE_IMAGE_DIGESTS=true, which asks the registry for the digests, gives a bundle for a
# release: each image by digest, and all of them in relatedImages. Otherwise IMG is named by its tag, as
# the digest of an image that nobody has pushed yet is not known.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
: "${VERSION:?}" "${IMG:?}" "${CHANNELS:?}" "${DEFAULT_CHANNEL:?}"
out=${OUT:-.}
csv=bundle/manifests/app-operator.clusterserviceversion.yaml
# remove_old [--check]: removes the bundle of before.
remove_old() { hack/remove-generated.sh "$@" "$out/bundle" "${csv#bundle/}" '  name: app-operator\.v.*'; }
remove_old --check
dockerfile=$out/bundle.Dockerfile
if [ -e "$dockerfile" ] && ! grep -qxF 'LABEL operators.operatorframework.io.bundle.package.v1=app-operator' "$dockerfile"; then
  echo "bundle: $dockerfile stays and nothing is written: it is of another project. Name another folder by OUT=" >&2
  exit 1
fi
pinned=${USE_IMAGE_DIGESTS:-}
case $IMG in *@sha256:*) pinned=true ;; esac
[ "$pinned" = true ] || pinned=

mkdir -p dist
work=$(mktemp -d dist/bundle.XXXXXX)
trap 'rm -rf "$work"' EXIT

bin/operator-sdk generate kustomize manifests --quiet --interactive=false --apis-dir=api

mkdir "$work/overlay" "$work/new"
cat >"$work/overlay/kustomization.yaml" <<END
resources:
- ../../../config/manifests
images: []
replacements:
- source:
    kind: Deployment
    fieldPath: spec.template.spec.containers.[name=manager].image
  targets:
  - select:
      kind: ClusterServiceVersion
    fieldPaths:
    - metadata.annotations.containerImage
END
if [ -n "$pinned" ]; then
  # Only with images by digest can it be installed from a mirror.
  cat >>"$work/overlay/kustomization.yaml" <<END
patches:
- target:
    kind: ClusterServiceVersion
  patch: |
    - op: replace
      path: /metadata/annotations/features.operators.openshift.io~1disconnected
      value: "true"
END
fi
(cd "$work/overlay" && "$root/bin/kustomize" edit set image "controller=$IMG")

# In a folder of its own, as operator-sdk writes bundle.Dockerfile to where it is called.
cp PROJECT "$work/new/"
bin/kustomize build "$work/overlay" | (
  cd "$work/new"
  "$root/bin/operator-sdk" generate bundle --quiet --version "$VERSION" --channels "$CHANNELS" \
    --default-channel "$DEFAULT_CHANNEL" ${pinned:+--use-image-digests} 2> >(grep -v level=info >&2)
)

# By the Service operator-sdk has found the Deployment of the webhooks; OLM makes one of its own.
rm "$work/new/bundle/manifests/app-operator-webhook-service_v1_service.yaml"

# The time of creation is that of the last change: generating the same again changes nothing.
same() { diff -r -q -I '^    createdAt: ' "$out/bundle" "$work/new/bundle"; }
if [ -f "$out/$csv" ] && same >/dev/null; then
  cp "$out/$csv" "$work/new/$csv"
fi
mkdir -p "$out"
remove_old
mv "$work/new/bundle" "$work/new/bundle.Dockerfile" "$out/"
