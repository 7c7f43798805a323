#!/usr/bin/env bash
# Tests the CUDA trainer without a GPU: built for the emulation in this folder, it must do what the trainer ABI says, compute what the C
# trainer computes, and say clearly what went wrong. It shows nothing about speed, nor that nvcc takes the code: check.sh does, on a GPU.
#
#     emulate/test.sh [SEED...]
#
# Seeds pick the order of blocks, threads and streams.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
trainers=$here/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seeds=("$@")
[ ${#seeds[@]} -gt 0 ] || seeds=(1 2 3)
export P2PDILOCO_EMULATE_STRICT=1
cuda=$work/libp2pdiloco_cuda_emulated.so
cpu=$work/libp2pdiloco_cpu.so

# Undefined behaviour ends the program, and so do leaks of host memory where trainers are destroyed as they should.
CXXFLAGS='-fsanitize=undefined -fno-sanitize-recover=undefined' WERROR=-Werror "$here/../build.sh" --emulate --bench "$work"
WERROR=-Werror "$trainers/cpu/build.sh" "$work"
cc=(cc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror "-I$trainers/../include")
"${cc[@]}" -fsanitize=leak -o "$work/test" "$trainers"/cpu/test*.c -ldl -lm -lpthread
"${cc[@]}" -o "$work/compare" "$trainers/compare/compare.c" -ldl -lm

# Prints a command's output only when it fails, or when it should have.
quietly() {
	if ! "$@" >"$work/log" 2>&1; then
		cat "$work/log"
		return 1
	fi
}

mkdir "$work/folder"
for seed in "${seeds[@]}"; do
	export P2PDILOCO_EMULATE_SEED=$seed
	quietly "$work/test" "$cuda" "$work/folder" slow
	config="\"layers\":2,\"width\":24,\"heads\":3,\"context\":20,\"batch\":6,\"held_out\":9,\"data\":\"$work/folder/text\""
	quietly "$work/compare" "$cuda" "$cpu" 1e-5 "$config" '"dtype":"f32"'
	quietly "$work/compare" "$cuda" "$cpu" 3e-3 "$config" '"dtype":"tf32"'
	quietly "$work/compare" "$cuda" "$cpu" 3e-2 "$config" '"dtype":"bf16"'
	# Rows that fill no warp, columns that fill several, heads of one element.
	quietly "$work/compare" "$cuda" "$cpu" 1e-5 "\"width\":70,\"heads\":70,\"context\":3,\"batch\":1,\"held_out\":2,\"data\":\"$work/folder/text\""
	echo "ok: the ABI's promises and the C trainer's numbers, seed $seed"
done
unset P2PDILOCO_EMULATE_SEED

# fails_with SETTING WORDS [ONLY]: with this environment, or these keys of its own, the trainer must fail, in one line that has these words.
fails_with() {
	if env "$1" "$work/compare" "$cuda" "$cpu" 1e-5 "$config" "${3:-}" >"$work/log" 2>&1 || ! grep -qE "error 1: .*$2" "$work/log"; then
		cat "$work/log"
		echo "with $1 ${3:-} an error was expected that says: $2"
		return 1
	fi
	grep -oE 'error 1: .*' "$work/log"
}

unset P2PDILOCO_EMULATE_STRICT # compare ends where the trainer fails, without destroy
fails_with P2PDILOCO_EMULATE_MEMORY=300000 'out of GPU memory: .* MiB asked for .*, and .* are free: take a smaller batch'
fails_with P2PDILOCO_EMULATE_FAIL=cudaGetDeviceCount:1 'device.cu:[0-9]+: .*nvidia-smi'
fails_with P2PDILOCO_EMULATE_FAIL=cudaHostAlloc:1 'page-locked host memory'
fails_with P2PDILOCO_EMULATE_FAIL=cudaStreamCreate:2 'device.h:[0-9]+: cudaStreamCreate'
fails_with P2PDILOCO_EMULATE_FAIL=launch:40 'model.cu:[0-9]+: '
fails_with P2PDILOCO_EMULATE_FAIL=cublasGemm:5 'products.cu:[0-9]+: .*EXECUTION_FAILED'
fails_with P2PDILOCO_EMULATE_FAIL=cublasCreate:1 'products.cu:[0-9]+: .*out of GPU memory'
fails_with P2PDILOCO_EMULATE_FAIL=cudaMemcpyAsync:60 '.*cu:[0-9]+: cudaMemcpyAsync.*compute-sanitizer'
fails_with P2PDILOCO_EMULATE_FAIL=cudaEventSynchronize:9 'device.h:[0-9]+: cudaEventSynchronize'
fails_with P2PDILOCO_EMULATE_SEED=1 'column [0-9]+: dtype is "f32", "tf32" or "bf16"' '"dtype":"f16"'
fails_with P2PDILOCO_EMULATE_SEED=1 'no GPU of this number: set "device"' '"device":5'

# Memory that cannot be page-locked is no error.
P2PDILOCO_EMULATE_FAIL=cudaHostRegister:1 quietly "$work/compare" "$cuda" "$cpu" 1e-5 "$config"
grep -q 'cannot be page-locked' "$work/log"
echo 'ok: errors'

P2PDILOCO_EMULATE_STRICT=1 "$work/cuda_bench_emulated" "$cuda" "{$config}" 2 2 >"$work/bench.json" 2>"$work/log"
/usr/bin/python3 - "$work/bench.json" <<'END'
import json, sys
bench = json.load(open(sys.argv[1]))
assert bench["parameters"] == 21120 and bench["copies"]["bytes"] == 4 * 21120 and bench["step_ms"] > 0, bench
END
echo 'ok: the bench runs (its times mean nothing here)'
