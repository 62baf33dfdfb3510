#!/usr/bin/env bash
# Builds a release for x86-64 Linux in a folder (by default target/release-files): an archive of `ebm`, linked statically, with licences, its manual
# and its completions; a list of its components in CycloneDX's JSON; and the checksums of both. The same program gives the same archive.
# It needs the static C library (libc6-dev on Debian and Ubuntu), and compiles cargo-cyclonedx into target/ if it is missing.
#
#   xtask/release/build.sh [FOLDER]
set -euo pipefail
triple=x86_64-unknown-linux-gnu
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$(cd "$here" && realpath -m "${1:-$target/release-files}")
home=${CARGO_HOME:-$HOME/.cargo}
version=$(cargo pkgid --package ebm-cli)
version=${version##*[#@]}
name=ebm-$version-$triple
folder=$out/$name
# Every file gets the commit's time.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C

# With --target, these flags do not apply to build scripts and procedural macros.
RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=. --remap-path-prefix=$home=cargo" \
  cargo build --package ebm-cli --profile dist --locked --target $triple
program=$target/$triple/dist/ebm
if readelf --program-headers "$program" | grep -q INTERP; then
  echo "release: $program asks for a loader: it is not static" >&2
  exit 1
fi

rm -rf "$folder" "$folder".*
mkdir -p "$folder/completions" "$folder/licenses"
cp "$program" LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$folder"
"$program" man --out "$folder/man1"
for shell in bash fish zsh; do
  "$program" completions $shell >"$folder/completions/ebm.$shell"
done

# Adds the licences of the networks, the crates, the compiler's library and the C library.
cp crates/*/embedded/*.LICENSE.md "$folder/licenses"
{
  printf 'Crates that ebm is made of, and the terms that come with each.\n'
  printf 'Beside them: the standard library of %s (MIT OR Apache-2.0),\nand the GNU C Library (LGPL-2.1-or-later).\n' "$(rustc --version)"
  cargo tree --package ebm-cli --locked --target $triple --edges normal --prefix none --no-dedupe --format '{p}|{l}' |
    grep -v "^ebm-" | sed 's/ (proc-macro)//' | sort -u | while IFS='|' read -r crate terms; do
    printf '\n==== %s: %s\n' "$crate" "$terms"
    find "$home"/registry/src/*/"${crate/ v/-}" -maxdepth 1 -type f \
      '(' -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'unlicense*' ')' -print0 | sort -z | xargs -0 --no-run-if-empty cat
  done
} >"$folder/licenses/crates.txt"
tar --create --directory "$out" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r-w,a+X "$name" |
  gzip --no-name --best >"$folder.tar.gz"

cyclonedx=$(xtask/tool.sh cargo-cyclonedx 0.5.9)
"$cyclonedx" cyclonedx --manifest-path crates/ebm-cli/Cargo.toml --format json --spec-version 1.5 --target $triple --override-filename "$name.cdx"
# Removes the paths of the crates on this machine.
sed "s|file://$PWD|file:///ebm|g" "crates/ebm-cli/$name.cdx.json" >"$folder.cdx.json"
find crates xtask -name "$name.cdx.json" -delete

(cd "$out" && sha256sum "$name.tar.gz" "$name.cdx.json" >SHA256SUMS)
ls -l "$out"
