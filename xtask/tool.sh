#!/usr/bin/env bash
# Says where a program of crates.io is in this version, and where there is none yet, compiles it into target/NAME, which takes minutes; nothing is
# installed elsewhere.
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
