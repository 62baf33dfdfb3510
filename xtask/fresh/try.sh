#!/usr/bin/env bash
# Runs README's first two commands like a user who has Rust and nothing else: in a new clone of the commit that is checked out, in a folder with a space in
# its name. The environment is empty, PATH holds only the compiler, a linker, coreutils, sh, bash and git, HOME is not writable, there is no terminal, and,
# if root can remove it, no network. The script prints the times of both commands, and the tests that lacked something.
#
#   xtask/fresh/try.sh [--quick] [--tests] [--here] [--user NAME] [FOLDER]
#
#   --quick      run the first command with --smoke
#   --tests      run only the second command
#   --here       run in this checkout instead of a clone, and keep what is built in its target folder
#   --user NAME  run as this user, if called by root: NAME must be able to read PATH's cargo and CARGO_HOME, and to write to CARGO_TARGET_DIR
#   FOLDER       folder for the clone, which stays; by default a temporary folder
#
# CARGO_TARGET_DIR, CARGO_PROFILE_DEV_DEBUG, CARGO_INCREMENTAL and clippy as the compiler (RUSTC_WORKSPACE_WRAPPER, CLIPPY_ARGS) are passed on. With
# CARGO_TARGET_DIR a clone uses the dependencies that are built there, and adds to them. The crates of the workspace are built again for each folder; use
# --here to continue with them in this checkout.
set -euo pipefail
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
quick='' tests='' here='' user='' folder=''
while (($# > 0)); do
  case $1 in
  --quick) quick=' --smoke' ;;
  --tests) tests=1 ;;
  --here) here=1 ;;
  --user) user=$2 && shift ;;
  -*) echo "fresh: there is no option $1; the head of xtask/fresh/try.sh has them" >&2 && exit 2 ;;
  *) folder=$1 ;;
  esac
  shift
done

# Makes the clone and downloads its packages while there still is a network.
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
if [ -n "$here" ]; then
  clone=$root
else
  clone=${folder:-$place}/"a clone"
  git clone --quiet --no-hardlinks "$root" "$clone"
fi
cd "$clone"
cargo fetch --locked --quiet

# README's first two commands.
commands=() block=''
while IFS= read -r line && ((${#commands[@]} < 2)); do
  case $line in
  '```sh') block=1 ;;
  '```'*) block='' ;;
  '#'* | '') ;;
  *) if [ -n "$block" ]; then commands+=("${line%%  *}") && block=''; fi ;;
  esac
done <README.md
case "${commands[*]}" in
'cargo xtask reproduce '*' cargo test '*) ;;
*) printf 'fresh: the first two blocks of README.md begin with other commands: %s\n' "${commands[*]}" >&2 && exit 1 ;;
esac
commands[0]+=$quick
if [ -n "$tests" ]; then commands=("${commands[1]}"); fi

# Makes the folder of programs that is all of PATH.
programs=$place/programs
mkdir "$programs"
for program in \
  sh bash git cc gcc c++ g++ as ld ld.bfd ar ranlib \
  '[' b2sum base32 base64 basename basenc cat chgrp chmod chown cksum comm cp csplit cut date dd df dirname du echo env expand expr factor false fmt fold head id install join link \
  ln ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pr printf pwd readlink realpath rm rmdir seq sha1sum sha256sum \
  sha512sum shred shuf sleep sort split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink \
  wc who whoami yes; do
  if path=$(type -P "$program"); then ln -s "$path" "$programs/$program"; fi
done
for program in "$(rustc --print sysroot)"/bin/*; do ln -s "$program" "$programs"; done

# Nobody can write into /proc, not even root.
environment=(PATH="$programs" HOME=/proc CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" CARGO_NET_OFFLINE=true)
for name in CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG CARGO_INCREMENTAL RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS; do
  if [ -n "${!name:-}" ]; then environment+=("$name=${!name}"); fi
done
start=()
# shellcheck disable=SC2016
if [ "$(id -u)" = 0 ] && type -P ip >/dev/null && unshare -n true 2>/dev/null; then
  start=(unshare -n bash -c 'ip link set lo up && exec "$@"' bash)
else
  echo 'fresh: the network cannot be taken away here' >&2
fi
if [ -n "$user" ]; then
  start+=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
  if [ -z "$here" ]; then chown -R "$user" "$clone"; fi
fi

code=0
rm -rf "${CARGO_TARGET_DIR:-target}/skipped-tests"
for command in "${commands[@]}"; do
  printf '\nfresh: in %s: %s\n' "$clone" "$command"
  begin=$SECONDS said=ok
  # Neither stream is a terminal.
  "${start[@]}" env -i "${environment[@]}" bash -c "$command" </dev/null 2>&1 | cat || { code=${PIPESTATUS[0]} && said="FAILED with exit code $code"; }
  printf 'fresh: %s: %s after %d s\n' "$command" "$said" "$((SECONDS - begin))"
done
echo
xtask/fresh/skipped.sh
exit "$code"
