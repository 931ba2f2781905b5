#!/usr/bin/env bash
# Removes a folder that a target of the Makefile has written, so that the target can write it again. A folder that is absent or empty is no error. Any
# other folder stays, and the script fails, unless a file in it has a line that only the target writes: OUT and CHART may name a folder of the user.
# Usage: hack/remove-generated.sh [--check] FOLDER FILE LINE; LINE is a regular expression, --check removes nothing.
set -euo pipefail
remove=true
if [ "${1:-}" = --check ]; then remove=false; shift; fi
folder=${1:?usage: hack/remove-generated.sh [--check] FOLDER FILE LINE} file=${2:?} line=${3:?}

if [ -e "$folder" ] || [ -L "$folder" ]; then
  content=$(ls -A -- "$folder/" 2>/dev/null) || content=unknown # It is a file.
  if [ -n "$content" ] && ! grep -qsxE -- "$line" "$folder/$file"; then
    echo "remove-generated: $folder stays and nothing is written: it is not empty, and has no $file of this project. Name another folder, or remove it" >&2
    exit 1
  fi
fi
if $remove; then rm -rf -- "$folder"; fi
