#!/usr/bin/env bash
# Installs the compiler for `--features cuda` on x86-64 Linux through pip: nvcc and its headers of CUDA 13.0, about 110 MB to download
# and 280 MB on disk. It needs neither a GPU nor NVIDIA's driver. `cargo xtask cuda-setup` does the same.
#
#   xtask/cuda/setup.sh [DIRECTORY]      by default target/cuda-13.0
#   source DIRECTORY/env                 in each shell, before cargo
#
# It needs g++ (up to 15) and python3 with pip. To compute on a GPU later, install the driver (580 or newer), cuBLAS, cuRAND
# and, for fast convolutions, cuDNN; `ebm doctor` says which are found.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
directory=$(realpath -m "${1:-$root/target/cuda-13.0}")
# Drivers from 580 on accept its PTX; later toolkits need later drivers.
toolkit=13.0.2

for tool in g++ python3; do
  command -v "$tool" >/dev/null || { echo "cuda-setup: $tool is missing; install it with the system's packages" >&2; exit 1; }
done
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "cuda-setup: python3 has no pip; install it with the system's packages" >&2
  exit 1
fi

home=$directory/nvidia/cu13
if [ ! -x "$home/bin/nvcc" ] || ! "$home/bin/nvcc" --version 2>/dev/null | grep -q 'release 13\.0'; then
  mkdir -p "$directory"
  python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-compile --upgrade --target "$directory" \
    "cuda-toolkit[nvcc,crt,nvvm,cudart,cccl]==$toolkit"
  chmod +x "$home"/bin/* "$home"/nvvm/bin/*
fi
install -m 755 "$root/xtask/cuda/nvcc-lite" "$home/bin/"
cat >"$directory/env" <<END
export CUDA_HOME=$home
export PATH=\$CUDA_HOME/bin:\$PATH
# The PTX is for compute capability 8.0, which the driver compiles for every device from Ampere on. 75 is the least, without bf16; 90 would
# be only for Hopper.
export CUDA_COMPUTE_CAP=\${CUDA_COMPUTE_CAP:-80}
# nvcc-lite leaves out candle's kernels for quantised language models.
export NVCC=\$CUDA_HOME/bin/nvcc-lite
END
"$home/bin/nvcc" --version | tail -1
echo "now: source $directory/env && cargo build --release -p ebm-cli --features cuda"
