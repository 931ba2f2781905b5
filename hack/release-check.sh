#!/usr/bin/env bash
# Reports whether HEAD can be released as VERSION, and what is missing otherwise.
set -uo pipefail
cd "$(dirname "$0")/.."
: "${VERSION:?}"
missing=0

# require MESSAGE COMMAND...: runs the command and prints the message if it fails.
require() {
  local message=$1
  shift
  "$@" >/dev/null 2>&1 && return
  echo "release-check: $message" >&2
  missing=1
}

tagged() { [ "$(git rev-parse --verify --quiet "$1^{commit}")" = "$(git rev-parse HEAD)" ]; }
unchanged() { [ -z "$(git status --porcelain)" ]; }

# The API is a module of its own: Go finds its version by the tag with the folder's name.
require "tag v$VERSION is not on HEAD: git tag v$VERSION" tagged "v$VERSION"
require "tag api/v$VERSION is not on HEAD: git tag api/v$VERSION" tagged "api/v$VERSION"
require "CHANGELOG.md has no section [$VERSION] with a date" grep -qE "^## \[${VERSION//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md
require "catalog/semver.yaml does not have v$VERSION" grep -qE -- "-bundle:v${VERSION//./\\.}$" catalog/semver.yaml
require "bundle/ is not of $VERSION: make bundle" \
  grep -q "^  version: ${VERSION//./\\.}$" bundle/manifests/app-operator.clusterserviceversion.yaml
require 'the tree has changes that are not committed' unchanged
[ $missing = 0 ] && echo "release-check: HEAD can be released as v$VERSION"
exit $missing
