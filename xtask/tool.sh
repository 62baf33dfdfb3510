#!/usr/bin/env bash
# Prints the path of a program from crates.io in this version. If it is missing, compiles it into target/NAME in a few minutes. Nothing is installed
# elsewhere.
#
#   xtask/tool.sh NAME VERSION [OPTIONS of cargo install]
set -euo pipefail
name=$1 version=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home=$(realpath -m "${CARGO_TARGET_DIR:-target}")/$name
if [[ $(cargo install --list --root "$home") != "$name v$version:"* ]]; then
  cargo install "$name" --version "$version" --locked --force "$@" --root "$home" --target-dir "$home/build" >&2
  rm -rf "$home/build"
fi
echo "$home/bin/$name"
