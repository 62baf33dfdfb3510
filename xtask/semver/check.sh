#!/usr/bin/env bash
# Compares what published crates offer with what they offered at the last release, the newest tag v* on a commit before this one: a break without the version
# that says so is an error. Looked at are the crates whose sources or manifests have changed since, with their default features. Without such a tag there is nothing
# to compare with. Where there is no cargo-semver-checks yet, cargo compiles the one named here, which takes minutes.
#
#   xtask/semver/check.sh                 what has changed
#   xtask/semver/check.sh -p ebm-core     one crate
#   xtask/semver/check.sh --setup         cargo-semver-checks alone
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
setup() { xtask/tool.sh cargo-semver-checks 0.51.0; }
if [ "${1-}" = --setup ]; then
  setup
  exit 0
fi
if ! tag=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null); then
  echo 'semver: no release is tagged yet: there is nothing to compare with'
  exit 0
fi
if (($# == 0)); then
  for folder in crates/*; do
    name=${folder#crates/}
    if [ ! -f "$folder/src/lib.rs" ] || grep -q '^publish = false' "$folder/Cargo.toml"; then continue; fi
    # What is new since has broken nothing.
    if ! git cat-file -e "$tag:$folder/src/lib.rs" 2>/dev/null || git diff --quiet "$tag" -- "$folder/src" "$folder/Cargo.toml"; then continue; fi
    set -- "$@" --package "$name"
  done
  if (($# == 0)); then
    echo "semver: no crate has changed since $tag"
    exit 0
  fi
fi
program=$(setup)
"$program" semver-checks --baseline-rev "$tag" --default-features "$@"
