#!/usr/bin/env bash
# Builds the book, docs/ with docs/SUMMARY.md, as pages for a browser: target/book/index.html. If mdBook is missing, cargo compiles the version
# below into target/mdbook, without its server, in a few minutes. Nothing is installed elsewhere.
#
#   xtask/book/build.sh             the book
#   xtask/book/build.sh --setup     only mdBook
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# The book is small, so an unoptimised mdBook is enough and compiles sooner.
mdbook=$(CARGO_PROFILE_RELEASE_OPT_LEVEL=0 xtask/tool.sh mdbook 0.5.4 --no-default-features)
[ "${1-}" != --setup ] || exit 0
said=$("$mdbook" build --dest-dir "$target/book" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
if grep -E 'WARN|ERROR' <<<"$said" >&2; then
  exit 1
fi
echo "$target/book/index.html"
