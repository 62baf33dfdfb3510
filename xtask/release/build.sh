#!/usr/bin/env bash
# A release for x86-64 Linux, in a folder (target/release-files unless one is named): an archive of `ebm`, linked statically, with its licences, its
# manual and what shells need; a list of what it is made of, in CycloneDX's JSON; and the checksums of both. The same program gives the same archive.
# It needs the C library to link statically (libc6-dev on Debian and Ubuntu), and compiles cargo-cyclonedx into target/ where it is not there.
#
#   xtask/release/build.sh [FOLDER]
set -euo pipefail
cyclonedx=0.5.9
triple=x86_64-unknown-linux-gnu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$(realpath -m "${1:-$target/release-files}")
version=$(cargo pkgid --package ebm-cli)
version=${version##*[#@]}
# The commit's time is that of every file.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# With --target, build scripts and macros of cargo stay as they are.
RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" \
  cargo build --package ebm-cli --profile dist --locked --target $triple
program=$target/$triple/dist/ebm
if readelf --program-headers "$program" | grep -q INTERP; then
  echo "release: $program asks for a loader: it is not static" >&2
  exit 1
fi

rm -rf "$out"
name=ebm-$version-$triple
folder=$out/$name
mkdir -p "$folder/completions"
cp "$program" LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$folder"
"$program" man --out "$folder/man1"
for shell in bash fish zsh; do
  "$program" completions $shell >"$folder/completions/ebm.$shell"
done
tar --create --directory "$out" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r-w,a+X "$name" |
  gzip --no-name --best >"$out/$name.tar.gz"

if [ "$("$target/cyclonedx/bin/cargo-cyclonedx" cyclonedx --version 2>/dev/null)" != "cargo-cyclonedx-cyclonedx $cyclonedx" ]; then
  cargo install cargo-cyclonedx --version $cyclonedx --locked --root "$target/cyclonedx" --target-dir "$target/cyclonedx/build"
  rm -rf "$target/cyclonedx/build"
fi
"$target/cyclonedx/bin/cargo-cyclonedx" cyclonedx --manifest-path crates/ebm-cli/Cargo.toml --format json --target $triple --override-filename "$name.cdx"
mv "crates/ebm-cli/$name.cdx.json" "$out"
find crates -name "$name.cdx.json" -delete

(cd "$out" && sha256sum "$name.tar.gz" "$name.cdx.json" >SHA256SUMS)
ls -l "$out"
