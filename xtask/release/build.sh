#!/usr/bin/env bash
# A release for x86-64 Linux, in a folder (target/release-files unless one is named): an archive of `ebm`, linked statically, with licences, its manual
# and what shells need; a list of what it is made of, in CycloneDX's JSON; and the checksums of both. The same program gives the same archive.
# It needs the C library to link statically (libc6-dev on Debian and Ubuntu), and compiles cargo-cyclonedx into target/ where it is not there.
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
# The commit's time is that of every file.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C

# With --target, build scripts and macros of cargo stay as they are.
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

# Terms of what is compiled in: networks, crates, the compiler's library and that of C.
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
# Where the crates lay is nothing of the program's.
sed "s|file://$PWD|file:///ebm|g" "crates/ebm-cli/$name.cdx.json" >"$folder.cdx.json"
find crates xtask -name "$name.cdx.json" -delete

(cd "$out" && sha256sum "$name.tar.gz" "$name.cdx.json" >SHA256SUMS)
ls -l "$out"
