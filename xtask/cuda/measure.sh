#!/usr/bin/env bash
# Runs all tests and measurements that need a GPU. The output goes to DIRECTORY (by default runs/cuda).
#
#   xtask/cuda/measure.sh [DIRECTORY] [PYTHON]     PYTHON has torch with CUDA; by default python3
#
# PARTS names the parts to run, by default all: "doctor tests memcheck racecheck bench precision nccl detection". PREBUILT is a folder that
# xtask/cuda/prebuild.sh filled, for a machine without Rust; by default everything is built here. ROUNDS (15) is for bench, to which BENCH adds
# options (--no-compile, --only …), STEPS (500) for precision. It needs the driver, cuBLAS, cuRAND and cuDNN. The libraries in torch's wheels are found through PYTHON.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$(realpath -m "${1:-runs/cuda}")
python=${2:-python3}
parts=${PARTS:-doctor tests memcheck racecheck bench precision nccl detection}
mkdir -p "$out"
prebuilt=$(realpath -m "${PREBUILT:-target/cuda-prebuilt}")
[ -n "${PREBUILT:-}" ] || xtask/cuda/prebuild.sh "$prebuilt"
ebm=$prebuilt/ebm
# torch's libraries are used unless the system has its own.
wheels=$("$python" -c 'import nvidia, os; print(":".join(os.path.join(p, d, "lib") for p in nvidia.__path__ for d in os.listdir(p) if os.path.isdir(os.path.join(p, d, "lib"))))' 2>/dev/null || true)
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels

failed=()
record() { # record <name> <command...>: output to a file, failures counted at the end
  local name=$1 start=$SECONDS code=0
  shift
  "$@" >"$out/$name.txt" 2>&1 || code=$?
  printf '%s: exit code %d in %d s: %s\n' "$name" "$code" "$((SECONDS - start))" "$*" | tee -a "$out/summary.txt"
  if ((code != 0)); then
    failed+=("$name")
    tail -15 "$out/$name.txt"
  fi
}

# Runs the CPU's tests on the GPU, each executable in its package's folder, as cargo does. A tool's command may be given to run them under.
tests() {
  local executable package code=0
  for executable in "$prebuilt"/tests/*; do
    package=$(basename "$executable")
    (cd "crates/${package%%.*}" && EBM_REQUIRE=cuda "$@" "$executable") || code=$?
  done
  return "$code"
}

# Trains a detector in each precision on the same scenes, and prints the losses side by side, and the time.
precision() {
  local precision start
  "$ebm" data scenes --count 256 --out "$out/scenes"
  for precision in full tf32 bf16; do
    rm -rf "$out/train-$precision"
    start=$(date +%s%3N)
    "$ebm" train detector --annotations "$out/scenes/annotations.json" --images "$out/scenes/images" --steps "${STEPS:-500}" \
      --device cuda --precision "$precision" --run "$out/train-$precision"
    echo "$precision: $(($(date +%s%3N) - start)) ms, $(tail -1 "$out/train-$precision/metrics.jsonl")"
  done
}

sanitize() { # sanitize <tool>: it comes with the toolkit
  local api=(); [ "$1" = racecheck ] || api=(--report-api-errors no)
  tests compute-sanitizer --tool "$1" "${api[@]}" --error-exitcode 9
}

for part in $parts; do
  case $part in
    doctor)
      record doctor "$ebm" doctor
      cat "$out/doctor.txt"
      if ! "$ebm" doctor --json | grep -q '"device":"cuda'; then
        echo "measure: there is no GPU that this build can use; see above" >&2
        exit 1
      fi
      ;;
    tests) record tests tests ;;
    memcheck | racecheck) record "$part" sanitize "$part" ;;
    bench)
      # shellcheck disable=SC2086
      record bench python3 bench/compare.py ${BENCH:-} --program "$prebuilt/ebm-bench" --device cuda --rounds "${ROUNDS:-15}" --python "$python" --out "$out/performance.md"
      ;;
    precision) record precision precision ;;
    nccl)
      if [ "$(nvidia-smi -L 2>/dev/null | wc -l)" -gt 1 ]; then
        record nccl "$python" -m torch.distributed.run --nproc-per-node 2 --no-python -- "$ebm" train detector --device cuda \
          --annotations "$out/scenes/annotations.json" --images "$out/scenes/images" --steps 100 --run "$out/train-nccl"
      fi
      ;;
    detection)
      for device in cuda cpu; do
        record "detection-$device" "$ebm" reproduce detection --scale mini --device "$device" --seeds 1 --out "$out/detection-$device"
      done
      ;;
    *)
      echo "measure: there is no part $part" >&2
      exit 2
      ;;
  esac
done

if ((${#failed[@]})); then
  echo "measure: failed: ${failed[*]}; their output is in $out" >&2
  exit 1
fi
echo "measure: everything is in $out"
