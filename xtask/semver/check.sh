#!/usr/bin/env bash
# Compares the public API of published crates with the last release, the newest tag v* on an earlier commit. A breaking change without the version for it is
# an error. The script checks crates whose sources or manifests have changed since, with their default features. Without such a tag there is nothing to
# compare with. If cargo-semver-checks is missing, cargo compiles the version below in a few minutes.
#
#   xtask/semver/check.sh                 all changed crates
#   xtask/semver/check.sh -p ebm-core     one crate
#   xtask/semver/check.sh --setup         only cargo-semver-checks
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
    # Crates that are new since then have broken nothing.
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
