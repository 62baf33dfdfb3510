#!/usr/bin/env bash
# Everything that only a machine with a GPU can show, in one command; its output goes to DIRECTORY (by default runs/cuda).
#
#   xtask/cuda/measure.sh [DIRECTORY] [PYTHON]     PYTHON has torch with CUDA; by default python3
#
# **It has not been run yet**: nobody had a GPU when it was written. It needs what building needs (`cargo xtask cuda-setup`), the driver,
# cuBLAS, cuRAND and cuDNN; those of torch's wheels will do, where their folders are on LD_LIBRARY_PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$(realpath -m "${1:-runs/cuda}")
python=${2:-python3}
mkdir -p "$out"
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
if [ -z "${CUDA_HOME:-}" ]; then
  bash xtask/cuda/setup.sh "$target/cuda-13.0"
  # shellcheck disable=SC1091
  source "$target/cuda-13.0/env"
fi
# The libraries that torch brings, unless the system has its own.
wheels=$("$python" -c 'import nvidia, os; print(":".join(os.path.join(p, d, "lib") for p in nvidia.__path__ for d in os.listdir(p) if os.path.isdir(os.path.join(p, d, "lib"))))' 2>/dev/null || true)
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels

failed=()
record() { # record <name> <command...>: output to a file, failures counted at the end
  local name=$1
  shift
  printf '%s: %s\n' "$name" "$*"
  if ! "$@" >"$out/$name.txt" 2>&1; then
    failed+=("$name")
    tail -5 "$out/$name.txt"
  fi
}

# One set of packages: another would build what is below them once more.
packages=(-p ebm-libraries -p ebm-distributed -p ebm-nn -p ebm-cli --features ebm-cli/cuda --release --locked)
cargo build "${packages[@]}"
ebm=$target/release/ebm
"$ebm" doctor | tee "$out/doctor.txt"
if ! "$ebm" doctor --json | grep -q '"device":"cuda'; then
  echo "measure: there is no GPU that this build can use; see above" >&2
  exit 1
fi
# The same test bodies as on the CPU, on the GPU; then under the tool that finds races and bad addresses.
record tests cargo test "${packages[@]}" --lib --test devices
if command -v compute-sanitizer >/dev/null; then
  test=$(cargo test "${packages[@]}" --test devices --no-run --message-format=json 2>/dev/null |
    grep -o '"executable":"[^"]*devices-[^"]*"' | tail -1 | cut -d'"' -f4)
  record memcheck compute-sanitizer --tool memcheck --error-exitcode 9 "$test"
  record racecheck compute-sanitizer --tool racecheck --error-exitcode 9 "$test"
else
  echo "compute-sanitizer is not there: memcheck and racecheck are left out" | tee "$out/memcheck.txt"
fi
record bench "$ebm" bench --device cuda --python "$python" --out "$out/performance.md"
record bench-json "$ebm" bench --device cuda --python "$python" --json --out -
# A detector in each precision, on the same scenes: the losses side by side, and the time.
"$ebm" data scenes --count 256 --out "$out/scenes"
for precision in full tf32 bf16; do
  rm -rf "$out/train-$precision"
  start=$SECONDS
  record "train-$precision" "$ebm" train detector --annotations "$out/scenes/annotations.json" --images "$out/scenes/images" --steps 500 \
    --device cuda --precision "$precision" --run "$out/train-$precision"
  echo "$precision: $((SECONDS - start)) s, $(tail -1 "$out/train-$precision/metrics.jsonl" 2>/dev/null)" | tee -a "$out/precision.txt"
done
if [ "$(nvidia-smi -L 2>/dev/null | wc -l)" -gt 1 ]; then
  record nccl "$python" -m torch.distributed.run --nproc-per-node 2 --no-python -- "$ebm" train detector --device cuda \
    --annotations "$out/scenes/annotations.json" --images "$out/scenes/images" --steps 100 --run "$out/train-nccl"
fi
record detection "$ebm" reproduce detection --scale mini --device cuda --seeds 1 --out "$out"
record detection-cpu "$ebm" reproduce detection --scale mini --device cpu --seeds 1 --out "$out"

if ((${#failed[@]})); then
  echo "measure: failed: ${failed[*]}; their output is in $out" >&2
  exit 1
fi
echo "measure: everything is in $out"
