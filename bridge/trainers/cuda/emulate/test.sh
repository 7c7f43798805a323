#!/usr/bin/env bash
# The CUDA trainer, emulated and with sanitizers, through its whole life with several orders of blocks, threads and
# streams: undefined behaviour, leaks of host memory, and what was not given back to CUDA end the program. What it
# computes is compared with the built-in trainer by go test ./bridge/cgo -run CUDA.
#
#     emulate/test.sh [SEED...]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CXXFLAGS='-Werror -g -fsanitize=undefined -fno-sanitize-recover=undefined' "$here/../build.sh" --emulate "$work"
cc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -fsanitize=leak "-I$here/../../../include" -o "$work/leaks" \
	"$here/../../leaks/leaks.c" -ldl -lpthread
for ((i = 0; i < 200; i++)); do echo "peer $((i * i)) trains a model"; done >"$work/text"
model=$'layers 2\nwidth 15\nheads 5\ncontext 11\nbatch 3\nheld_out 7\n'
for seed in "${@:-1}"; do
	for settings in 'dtype f32' 'dtype bf16' $'dtype bf16\noptimizer muon'; do
		P2PDILOCO_EMULATE_STRICT=1 P2PDILOCO_EMULATE_SEED=$seed "$work/leaks" "$work/libp2pdiloco_cuda_emulated.so" \
			"$model$settings"$'\n'"data $work/text" 'layers 0' "$work/state"
	done
	echo "ok: seed $seed"
done
