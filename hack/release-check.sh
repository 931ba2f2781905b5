#!/usr/bin/env bash
# Reports whether HEAD can be released as VERSION, and what is missing otherwise.
# Usage: hack/release-check.sh [tree] [images]; tree is about the tree and its tags, images about the registry.
#
# IMAGES are the images of the version. The registry must not have them: a pushed version is never replaced. RELEASE_REPAIR=VERSION allows it, for
# a release that has failed halfway. SCORECARD, which the bundle names, has a version of its own, and the registry must have it. In a workflow that
# a tag has started, GITHUB_REF_NAME is the tag, and has to be that of the version.
set -uo pipefail
cd "$(dirname "$0")/.."
: "${VERSION:?}" "${IMAGES:?}" "${FOLLOWED:?}" "${SCORECARD:?}"
crane=${CRANE:-bin/crane}
missing=0

# fail MESSAGE
fail() {
  echo "release-check: $1" >&2
  missing=1
}

# require MESSAGE COMMAND...: runs the command and prints the message if it fails.
require() {
  local message=$1
  shift
  "$@" >/dev/null 2>&1 || fail "$message"
}

tagged() { [ "$(git rev-parse --verify --quiet "$1^{commit}")" = "$(git rev-parse HEAD)" ]; }
unchanged() { [ -z "$(git status --porcelain)" ]; }

# names FILE IMAGE: the file names the image, and no other one of this project. The names of images end in front of a colon.
names() {
  local name=${2%:*} found
  found=$(sed -nE 's/^ *(- )?(image|ref): //p' "$1" | grep -F "/${name##*/}:")
  [ "$found" = "$2" ]
}

tree() {
  [ "${GITHUB_REF_NAME:-v$VERSION}" = "v$VERSION" ] || fail "the tag is $GITHUB_REF_NAME, and VERSION in the Makefile is $VERSION"
  # The API is a module of its own: Go finds its version by the tag with the folder's name.
  require "tag v$VERSION is not on HEAD: git tag v$VERSION" tagged "v$VERSION"
  require "tag api/v$VERSION is not on HEAD: git tag api/v$VERSION" tagged "api/v$VERSION"
  require "CHANGELOG.md has no section [$VERSION] with a date" grep -qE "^## \[${VERSION//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md
  require "catalog/semver.yaml does not have v$VERSION" grep -qE -- "-bundle:v${VERSION//./\\.}$" catalog/semver.yaml
  require "bundle/ is not of $VERSION: make bundle" \
    grep -q "^  version: ${VERSION//./\\.}$" bundle/manifests/app-operator.clusterserviceversion.yaml
  # These are applied or run as they are, so no variable reaches them.
  require "config/olm/catalogsource.yaml does not name $FOLLOWED: write it there" names config/olm/catalogsource.yaml "$FOLLOWED"
  require "config/olm/clusterextension.yaml does not name $FOLLOWED: write it there" names config/olm/clusterextension.yaml "$FOLLOWED"
  require "config/scorecard/config.yaml does not name $SCORECARD: write it there" names config/scorecard/config.yaml "$SCORECARD"
  require "bundle/ has another scorecard image than $SCORECARD: make bundle" names bundle/tests/scorecard/config.yaml "$SCORECARD"
  require 'the tree has changes that are not committed' unchanged
}

# absent IMAGE: fails unless the registry says that it does not have the image.
absent() {
  local said
  # The last line is the error; those before are about requests that crane repeats in another way.
  if said=$("$crane" digest "$1" 2>&1 | tail -n 1); then
    fail "$1 exists already (${said##* }), and a released image is never replaced: raise VERSION, or set RELEASE_REPAIR=$VERSION to repeat a release that has failed"
  elif ! grep -qE 'MANIFEST_UNKNOWN|NAME_UNKNOWN|404 Not Found' <<<"$said"; then
    fail "whether $1 exists is not known: $said"
  fi
}

images() {
  local image said
  said=$("$crane" digest "$SCORECARD" 2>&1 | tail -n 1) || fail "the registry has no digest of $SCORECARD, which the bundle names ($said): make scorecard-buildx"
  if [ "${RELEASE_REPAIR:-}" = "$VERSION" ]; then
    echo "release-check: RELEASE_REPAIR=$VERSION, so images of v$VERSION may exist and are replaced"
    return
  fi
  for image in $IMAGES; do absent "$image"; done
}

# Also without images: a value left of an earlier release is noticed before the checks, which take an hour.
case ${RELEASE_REPAIR:-} in
  "" | "$VERSION") ;;
  *) fail "RELEASE_REPAIR is $RELEASE_REPAIR, and VERSION is $VERSION: delete RELEASE_REPAIR" ;;
esac
[ $# -gt 0 ] || set -- tree images
for part; do
  case $part in
    tree | images) "$part" ;;
    *) fail "$part is none of: tree, images" ;;
  esac
done
[ $missing = 0 ] && echo "release-check: HEAD can be released as v$VERSION ($*)"
exit $missing
