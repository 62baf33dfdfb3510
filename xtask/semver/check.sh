#!/usr/bin/env bash
# Compares what each published crate offers with what it offered at the last release, the newest tag v* behind this commit: a break without the version
# that says so is an error. Without such a tag there is nothing to compare with. Where there is no cargo-semver-checks yet, cargo compiles the one named
# here into target/semver, which takes minutes.
#
#   xtask/semver/check.sh                 every crate
#   xtask/semver/check.sh -p ebm-core     one
set -euo pipefail
version=0.51.0
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! tag=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null); then
  echo 'semver: no release is tagged yet: there is nothing to compare with'
  exit 0
fi
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
program=$target/semver/bin/cargo-semver-checks
if [ "$("$program" semver-checks --version 2>/dev/null)" != "cargo-semver-checks $version" ]; then
  cargo install cargo-semver-checks --version $version --locked --root "$target/semver" --target-dir "$target/semver/build"
  rm -rf "$target/semver/build"
fi
"$program" semver-checks --baseline-rev "$tag" "${@:---workspace}"
