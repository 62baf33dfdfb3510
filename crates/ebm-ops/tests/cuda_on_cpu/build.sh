#!/usr/bin/env bash
# Builds a stand-in for CUDA's libraries that runs kernels on the CPU, for tests where there is no GPU.
#
#   build.sh DIRECTORY       needs g++, objcopy and the toolkit's headers (CUDA_HOME)
#   LD_LIBRARY_PATH=DIRECTORY cargo test -p ebm-ops -p ebm-nn --features cuda
#
# Without cuDNN: remove DIRECTORY/libcudnn.so.9.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath -m "$1")
: "${CUDA_HOME:?run cargo xtask cuda-setup and source the file that it names}"
candle=$(cargo metadata --format-version 1 --manifest-path "$here/../../Cargo.toml" --features cuda 2>/dev/null |
    grep -o '"manifest_path":"[^"]*/candle-kernels-[^"]*"' | head -1 | cut -d'"' -f4)
mkdir -p "$out/objects"
flags=(-std=c++17 -O3 -fopenmp-simd -fno-strict-aliasing -fPIC -ffp-contract=off -w -I"$CUDA_HOME/include" -I"$CUDA_HOME/include/cccl" -I"$here" -D__CUDACC_VER_MAJOR__=13 -D__CUDACC_VER_MINOR__=0 -D__CUDA_ARCH__=800)

compile() { # compile SOURCE: the source's kernels and their table; only its registration stays visible
    local source=$1 name names barriers=false
    name=$(basename "$source" .cu)
    # The kernels' names as the preprocessor makes them.
    names=$(g++ "${flags[@]}" -E -P -include "$here/kernel.h" -U__global__ -D__global__=ENTRY_MARK -x c++ \
        <(printf '#undef __global__\n#define __global__ ENTRY_MARK\n#include "%s"\n' "$source") |
        tr '\n' ' ' | grep -oE 'ENTRY_MARK +void +[A-Za-z0-9_]+' | awk '{ print $3 }' | sort -u)
    grep -q '__syncthreads\|__shfl' "$source" && barriers=true
    {
        printf '#include "kernel.h"\n#include "%s"\n' "$source"
        printf 'static const Entry ENTRIES[] = {\n'
        printf '  ENTRY(%s),\n' $names
        printf '};\nextern "C" void register_%s() { add_module(ENTRIES, sizeof ENTRIES / sizeof *ENTRIES, %s); }\n' "$name" "$barriers"
    } >"$out/objects/$name.cpp"
    g++ "${flags[@]}" -c -o "$out/objects/$name.o" "$out/objects/$name.cpp"
    objcopy --keep-global-symbol="register_$name" "$out/objects/$name.o"
    registrations+=("$name")
}

registrations=()
while read -r source; do compile "$source"; done < <(find "$here/../../src" -name '*.cu' | xargs realpath | sort)
for name in affine binary cast fill indexing reduce ternary unary; do compile "$(dirname "$candle")/src/$name.cu"; done
{
    printf 'extern "C" void register_%s();\n' "${registrations[@]}"
    printf 'static int all = ('
    printf 'register_%s(), ' "${registrations[@]}"
    printf '0);\n'
} >"$out/objects/all.cpp"
g++ "${flags[@]}" -c -o "$out/objects/all.o" "$out/objects/all.cpp"
g++ "${flags[@]}" -shared -o "$out/libcuda.so.1" "$here/driver.cpp" "$out"/objects/*.o
for library in libcublas.so.13 libcurand.so.10 libcudnn.so.9; do ln -sf libcuda.so.1 "$out/$library"; done
