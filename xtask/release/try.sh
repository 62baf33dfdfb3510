#!/usr/bin/env bash
# Tries a release as the container of Containerfile would hold it: only the files of its COPY lines are the root of a process with its user and ENV.
# The process prints its version and detects objects in a photograph. The script needs root, for chroot, but no builder of containers.
#
#   xtask/release/try.sh [FOLDER]        the folder that build.sh filled
set -euo pipefail
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
repository=$(realpath "$here/../..")
out=$(realpath "${1:-${CARGO_TARGET_DIR:-$repository/target}/release-files}")
(cd "$out" && sha256sum --check --quiet SHA256SUMS)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
tar -xzf "$out"/ebm-*.tar.gz -C "$place" --strip-components 1
root=$place/root
mkdir -p "$root/work"
while read -r _ first rest; do
  words=("$first" $rest)
  to=$root${words[-1]}
  case $to in */) mkdir -p "$to" ;; esac
  for from in "${words[@]:0:${#words[@]}-1}"; do
    # A folder's contents are copied.
    if [ -d "$place/$from" ]; then from+=/.; fi
    cp -r "$place/$from" "$to"
  done
done < <(grep '^COPY ' "$here/Containerfile")
user=$(sed -n 's/^USER //p' "$here/Containerfile")
read -ra environment < <(sed -n 's/^ENV //p' "$here/Containerfile")
cp "$repository/crates/ebm-testing/fixtures/coco/val2017/000000343937.jpg" "$root/work/photo.jpg"
chown -R "$user" "$root/work"
chmod 755 "$place" "$root"
chroot=$(command -v chroot)
run() { env -i "${environment[@]}" "$chroot" --userspec="$user" "$root" /ebm "$@"; }
run --version
run --help >/dev/null
found=$(run predict detection /work/photo.jpg --out /work/pictures)
echo "$found"
grep -q '"label_name": *"person"' <<<"$found"
test -s "$root/work/pictures/photo.png"
(cd "$root" && find . -type f -not -path './work/*' -printf '%s %P\n' | sort -k 2)
