#!/usr/bin/env bash
# Installs Chromium for the tests in a browser, as Debian's package, if the machine has none. It takes about 400 MB on disk.
#
#   xtask/browser/setup.sh      then EBM_REQUIRE=browser cargo test --workspace --test commands demo::
#
# It needs apt-get and root, or sudo without a password, and fails with a message otherwise.
set -euo pipefail

found() {
  local name path
  for name in chromium chromium-browser google-chrome; do
    if path=$(command -v "$name"); then
      echo "$path"
      return
    fi
  done
  return 1
}

if ! found; then
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    as_root=(sudo -n)
  fi
  if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
    echo "browser-setup: there is no apt-get that may install Chromium; install it with the system's packages" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
  found
fi
