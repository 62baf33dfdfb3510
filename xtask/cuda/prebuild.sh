#!/usr/bin/env bash
# Builds the programs that xtask/cuda/measure.sh needs on a machine with a GPU but without Rust or a network: `ebm` and `ebm-bench` with the feature
# `cuda`, and the tests of devices, stripped, in DIRECTORY (by default target/cuda-prebuilt).
#
#   xtask/cuda/prebuild.sh [DIRECTORY]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$(realpath -m "${1:-$target/cuda-prebuilt}")
if [ -z "${CUDA_HOME:-}" ]; then
  bash xtask/cuda/setup.sh "$target/cuda-13.0"
  # shellcheck disable=SC1091
  source "$target/cuda-13.0/env"
fi
# All packages are built in one call: another set of packages would build their dependencies again.
packages=(-p ebm-base -p ebm-train -p ebm-ops -p ebm-nn -p ebm-cli -p ebm-bench --features ebm-cli/cuda --release --locked)
cargo build "${packages[@]}"
rm -rf "$out"
mkdir -p "$out/tests"
strip -o "$out/ebm" "$target/release/ebm"
strip -o "$out/ebm-bench" "$target/release/ebm-bench"
# The package's name is the part of its id after the last / or before the #. Its tests run in its folder, as under cargo.
cargo test "${packages[@]}" --lib --test devices --no-run --message-format=json |
  python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        print(message["manifest_path"].split("/")[-2], message["target"]["name"], message["executable"])' |
  while read -r package name executable; do
    strip -o "$out/tests/$package.$name" "$executable"
  done
du -sh "$out"
