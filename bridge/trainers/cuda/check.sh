#!/usr/bin/env bash
# Checks and times the CUDA trainer on a machine with an NVIDIA GPU, nvcc and a C compiler; neither Go nor a network is needed.
#
#     check.sh PACK OUT
#
# PACK is a folder that pack.sh made elsewhere, OUT one for the results: report.json, report.md (for docs/gpu.md) and logs/. It takes under 9
# minutes: every part has a limit of its own, and what is over is reported as such. It ends only what it started, and leaves the GPU's settings alone.
#
#     build     the CUDA trainer by nvcc, the C trainer and the programs that compare
#     agree     the ABI's promises; every tensor's gradient and some training against the C trainer, in f32, tf32 and bf16
#     memory    the same small training under compute-sanitizer
#     bench     steps and copies
#     swarm     4 nodes share the GPU in a real run: equal state roots; how long the GPU waits for the outer step
#     pytorch   2 PyTorch processes on the GPU with bfloat16 parameters: equal state roots
#
# It returns 1 if a part failed or was late, and 77 where there is no nvcc. PARTS="build bench" does these alone. CHECK_EMULATED=1 goes through all of it with the emulation, to test this script without a GPU.
# shellcheck disable=SC2317 # parts are called by a name that is put together
set -euo pipefail
[ $# -eq 2 ] || { echo 'usage: check.sh PACK OUT' >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pack=$(cd "$1" && pwd)
mkdir -p "$2/logs"
results=$(cd "$2" && pwd)
out=$results/logs
trainers=$here/..
work=${CHECK_WORK:-$(mktemp -d)}
part=${CHECK_PART:-} # the script calls itself for each part, so that timeout can end it
parts=${PARTS:-build agree memory bench swarm pytorch}
emulated=${CHECK_EMULATED:-}
library=libp2pdiloco_cuda.so
bench=cuda_bench
[ -z "$emulated" ] || { library=libp2pdiloco_cuda_emulated.so; bench=cuda_bench_emulated; }
cuda=$work/$library
cpu=$work/libp2pdiloco_cpu.so
python=${PYTHON:-python3}
export HOME=$work/home
mkdir -p "$HOME"

started=() # processes of this part that may be left
finish() {
	local pid
	for pid in "${started[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
	[ "$part" ] || rm -rf "$work"
}
trap finish EXIT

# --- the report: one line a part ---

failed=0
skipped=''
say() { printf '%s\n' "$*" | tee -a "$out/check.log"; }

# note PART RESULT SECONDS: RESULT is ok, failed, late or skipped: WHY.
note() {
	printf '{"part": "%s", "result": "%s", "seconds": %d}\n' "$1" "$2" "$3" >>"$out/parts.jsonl"
	printf '| %s | %s | %d |\n' "$1" "$2" "$3" >>"$out/parts.md"
	say "== $1: $2 ($3 s)"
	case $2 in failed* | late*) failed=1 ;; esac
}

# run_part NAME SECONDS: within the limit. Its output goes to NAME.log; status 77 is skipped, and the last line says why.
run_part() {
	local name=$1 limit=$2 began=$SECONDS status=0
	[[ " $parts " == *" $name "* ]] || return 0
	say "-- $name"
	CHECK_PART=part_$name CHECK_WORK=$work timeout -k 5 "$limit" "$here/check.sh" "$pack" "$results" >"$out/$name.log" 2>&1 || status=$?
	case $status in
	0) note "$name" ok $((SECONDS - began)) ;;
	77)
		skipped="$skipped $name"
		note "$name" "skipped: $(tail -n 1 "$out/$name.log" | sed 's/^skipped: //' | tr -d '"\\|')" $((SECONDS - began))
		;;
	124 | 137) note "$name" "late: over $limit s" $((SECONDS - began)) ;;
	*)
		tail -n 15 "$out/$name.log"
		note "$name" failed $((SECONDS - began))
		;;
	esac
}

# --- build ---

part_build() {
	if [ "$emulated" ]; then
		"$here/build.sh" --emulate --bench "$work"
	else
		"$here/build.sh" --bench "$work"
	fi
	"$trainers/cpu/build.sh" "$work"
	cc -std=c11 -D_GNU_SOURCE -O2 "-I$trainers/../include" -o "$work/test" "$trainers"/cpu/test*.c -ldl -lm -lpthread
	cc -std=c11 -D_GNU_SOURCE -O2 "-I$trainers/../include" -o "$work/compare" "$trainers/compare/compare.c" -ldl -lm
	gunzip -c "$pack/p2pdiloco.gz" >"$work/p2pdiloco"
	chmod +x "$work/p2pdiloco"
	"$work/p2pdiloco" version
}

# config FILE MEMBERS: a configuration file with the pack's text.
config() { printf '{%s,"data":"%s/text"}\n' "$2" "$pack" >"$1"; }

# --- agree ---

small='"layers":2,"width":24,"heads":3,"context":20,"batch":6,"held_out":9'
usual='"layers":2,"width":128,"heads":4,"context":64,"batch":16,"held_out":32'
[ -z "$emulated" ] || usual='"layers":1,"width":16,"heads":2,"context":16,"batch":4,"held_out":4'

part_agree() {
	mkdir "$work/folder"
	"$work/test" "$cuda" "$work/folder" ${emulated:+slow}
	local sizes
	for sizes in "$small" "$usual"; do
		"$work/compare" "$cuda" "$cpu" 1e-4 "$sizes,\"data\":\"$pack/text\"" '"dtype":"f32"'
		"$work/compare" "$cuda" "$cpu" 5e-3 "$sizes,\"data\":\"$pack/text\"" '"dtype":"tf32"'
		"$work/compare" "$cuda" "$cpu" 4e-2 "$sizes,\"data\":\"$pack/text\"" '"dtype":"bf16"'
	done
	# With this epsilon AdamW makes no steps of full size from gradients that are rounding errors (the bias of the attention's keys).
	config "$work/check.json" "$usual,\"epsilon\":1e-3"
	"$work/p2pdiloco" trainer-check "$cuda" --trainer-config "$work/check.json" --against "$cpu" --steps 4
}

part_memory() {
	if ! command -v compute-sanitizer >/dev/null; then
		echo 'compute-sanitizer is not here'
		return 77
	fi
	local tool
	for tool in memcheck racecheck; do
		compute-sanitizer --tool "$tool" --error-exitcode 9 --report-api-errors no "$work/compare" "$cuda" "$cpu" 1e-4 "$small,\"data\":\"$pack/text\""
	done
}

# --- bench ---

large='"layers":12,"width":768,"heads":12,"context":256,"batch":16,"held_out":16'
rounds=3 steps=40
[ -z "$emulated" ] || { large=$usual; rounds=2; steps=2; }

bench_one() {
	config "$work/$1.json" "$2"
	"$work/$bench" "$cuda" "$(cat "$work/$1.json")" "$rounds" "$steps" >"$out/bench-$1.json"
	cat "$out/bench-$1.json"
}

part_bench() {
	bench_one default-f32 '"dtype":"f32"'
	bench_one large-f32 "$large,\"dtype\":\"f32\""
	bench_one large-tf32 "$large,\"dtype\":\"tf32\""
	bench_one large-bf16 "$large,\"dtype\":\"bf16\""
}

# --- swarm ---

nodes=4
swarm_model='"layers":8,"width":512,"heads":8,"context":256,"batch":16,"held_out":16,"dtype":"bf16","warm_up":50,"learning_rate":1e-3'
swarm_rounds=6 inner_steps=100
[ -z "$emulated" ] || { swarm_model=$usual; swarm_rounds=3; inner_steps=3; }

# roots FILE...: the state roots in them, one a line.
roots() { grep -hoE '"state_root": ?"[0-9a-f]+"' "$@" | grep -oE '[0-9a-f]{16,}'; }

# Starts a node to begin from, and sets address.
start_bootstrap() {
	local i
	"$work/p2pdiloco" bootstrap --listen /ip4/127.0.0.1/tcp/0 --addr-file "$work/$1.addr" >"$out/$1-bootstrap.log" 2>&1 &
	started+=($!)
	for ((i = 0; i < 100; i++)); do
		[ ! -s "$work/$1.addr" ] || break
		sleep 0.2
	done
	address=$(head -n 1 "$work/$1.addr")
}

part_swarm() {
	local address='' i pid bad=0 members=()
	start_bootstrap swarm
	for ((i = 1; i <= nodes; i++)); do
		config "$work/swarm-$i.json" "$swarm_model,\"trace\":\"$out/trace-$i.txt\""
		rm -f "$out/trace-$i.txt"
		"$work/p2pdiloco" join --run gpu --bootstrap "$address" --listen /ip4/127.0.0.1/tcp/0 --start-peers "$nodes" --preset lan --rounds "$swarm_rounds" \
			--inner-steps "$inner_steps" --outer-lr 0.7 --momentum 0.6 --trainer "$cuda" --trainer-config "$work/swarm-$i.json" \
			--data-dir "$work/node-$i" --api off --json >"$out/node-$i.json" 2>"$out/node-$i.log" &
		members+=($!)
		started+=($!)
	done
	for pid in "${members[@]}"; do
		wait "$pid" || bad=1
	done
	roots "$out"/node-*.json
	if [ "$bad" -ne 0 ] || [ "$(roots "$out"/node-*.json | wc -l)" -ne "$nodes" ] || [ "$(roots "$out"/node-*.json | sort -u | wc -l)" -ne 1 ]; then
		tail -n 5 "$out"/node-*.log
		return 1
	fi
	idle >"$out/idle.json"
	cat "$out/idle.json"
}

# How much of the time the GPU has nothing to do because the nodes are in an outer step: from the begin and end of every node's rounds, the first
# of which is left out. A round of all nodes lasts while any of them is in its inner steps.
idle() {
	awk '$2 == "run" { if (seen[$1]++) print $3, $4, $1 }' "$out"/trace-*.txt | sort -n | awk '
		{ node[$3]++; inside[$3] += $2 - $1; if (last[$3]) outside[$3] += $1 - last[$3]; last[$3] = $2 }
		NR == 1 { begin = $1; end = $2; rounds = 1; next }
		$1 > end { busy += end - begin; gaps += $1 - end; rounds++; begin = $1; end = $2; next }
		$2 > end { end = $2 }
		END {
			busy += end - begin
			busy /= rounds
			if (rounds > 1) gaps /= rounds - 1
			for (n in node) { i = inside[n] / node[n]; o = node[n] > 1 ? outside[n] / (node[n] - 1) : 0; share += o / (i + o); peers++ }
			printf "{\"rounds_seen\": %d, \"inner_s\": %.3f, \"outer_s\": %.3f, \"gpu_idle_share\": %.4f, \"share_of_a_node_outside_its_steps\": %.4f,\n", rounds, busy, gaps, gaps / (busy + gaps), share / peers
		}'
	# What a node spends in the trainer on the outer step.
	awk '$2 == "run" { runs++; gpu += $6; wall += $4 - $3 }
		$2 ~ /^export/ { out += $4 - $3 } $2 == "load" { load += $4 - $3 } $2 == "save" { save += $4 - $3 }
		END { printf " \"of_a_round_in_s\": {\"inner_steps\": %.4f, \"of_that_on_the_gpu\": %.4f, \"export\": %.4f, \"load\": %.4f, \"save\": %.4f}}\n", wall / runs, gpu / runs, out / runs, load / runs, save / runs }' "$out"/trace-*.txt
}

# --- pytorch ---

part_pytorch() {
	local example=$pack/sources/examples/pytorch/train_gpt.py address i pid bad=0 members=() device=cuda batch=32
	if [ ! -f "$example" ]; then
		echo 'the pack holds no PyTorch example'
		return 77
	fi
	if [ "$emulated" ]; then
		device=cpu batch=2
	elif ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
		echo "$python has no PyTorch that sees a GPU (PYTHON names another one)"
		return 77
	fi
	start_bootstrap pytorch
	for i in 1 2; do
		PYTHONPATH=$pack/sources/bridge/python P2PDILOCO_BINARY=$work/p2pdiloco P2PDILOCO_LISTEN=/ip4/127.0.0.1/tcp/0 PYTHONUNBUFFERED=1 \
			"$python" "$example" --run torch --bootstrap "$address" --start-peers 2 --preset lan --sync-every 50 --rounds 4 \
			--device "$device" --dtype bfloat16 --batch "$batch" --data-dir "$work/torch-$i" >"$out/torch-$i.log" 2>&1 &
		members+=($!)
		started+=($!)
	done
	for pid in "${members[@]}"; do
		wait "$pid" || bad=1
	done
	tail -n 3 "$out"/torch-*.log
	grep -hoE 'state root [0-9a-f]+' "$out"/torch-*.log
	[ "$bad" -eq 0 ] && [ "$(grep -hoE 'state root [0-9a-f]+' "$out"/torch-*.log | wc -l)" -eq 2 ] &&
		[ "$(grep -hoE 'state root [0-9a-f]+' "$out"/torch-*.log | sort -u | wc -l)" -eq 1 ]
}

# --- all of it ---

if [ "$part" ]; then
	"$part"
	exit
fi
: >"$out/parts.jsonl"
: >"$out/parts.md"
: >"$out/check.log"
rm -f "$out"/bench-*.json "$out"/trace-*.txt "$out/idle.json"

gpu_name() { nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader 2>/dev/null | head -n 1 || true; }
machine="$(gpu_name)"
[ "$machine" ] || machine='no NVIDIA GPU'
[ -z "$emulated" ] || machine="$machine; EMULATED on the CPU, the figures mean nothing"
host="$(nproc) cores of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
compiler=$({ "${NVCC:-nvcc}" --version 2>/dev/null || true; } | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
say "GPU: $machine. Host: $host. nvcc ${compiler:-none}. Sources: $(cat "$pack/PACKED")"

run_part build 120
if [[ " $parts " == *' build '* ]] && [ ! -e "$cuda" ]; then
	say 'there is no CUDA trainer: nothing else was tried'
	[ -z "$skipped" ] || exit 77
	exit 1
fi
run_part agree 100
run_part memory 60
run_part bench 90
run_part swarm 110
run_part pytorch 50

# value FILE KEY: a number of a bench's JSON.
value() { grep -oE "\"$2\": [0-9.]+" "$1" 2>/dev/null | head -n 1 | grep -oE '[0-9.]+$' || echo '?'; }
copy_rate() { sed -n "s/.*\"$2\": {\"gb_per_s\": \([0-9.]*\),.*/\1/p" "$1" 2>/dev/null | grep . || echo '?'; }

report_md() {
	local name file
	printf '### %s\n\n%s, nvcc %s, sources %s.\n\n' "$machine" "$host" "${compiler:-none}" "$(cat "$pack/PACKED")"
	printf '| part | result | seconds |\n| --- | --- | --- |\n'
	cat "$out/parts.md"
	printf '\n| model, dtype | parameters | step, ms | tokens/s |\n| --- | --- | --- | --- |\n'
	for file in "$out"/bench-*.json; do
		name=$(basename "$file" .json)
		printf '| %s | %s | %s | %s |\n' "${name#bench-}" "$(value "$file" parameters)" "$(value "$file" step_ms)" "$(value "$file" tokens_per_s)"
	done
	file=$out/bench-large-f32.json
	printf '\n| copy of %s bytes | GB/s | share of the plain pinned copy (goal 0.8) |\n| --- | --- | --- |\n' "$(value "$file" bytes)"
	printf '| cudaMemcpyAsync, device to host | %s | 1 |\n' "$(copy_rate "$file" plain_device_to_host)"
	printf '| export_gradient | %s | %s |\n' "$(copy_rate "$file" export_gradient)" "$(value "$file" export_gradient_share_of_plain)"
	printf '| export_params | %s | %s |\n' "$(copy_rate "$file" export_params)" "$(value "$file" export_params_share_of_plain)"
	printf '| cudaMemcpyAsync, host to device | %s | 1 |\n' "$(copy_rate "$file" plain_host_to_device)"
	printf '| load | %s | %s |\n' "$(copy_rate "$file" load)" "$(value "$file" load_share_of_plain)"
	file=$out/idle.json
	printf '\n%s nodes on the GPU, mode sync, %s inner steps a round: %s s of inner steps and %s s of outer step a round; the GPU waits %s of the time.\n' \
		"$nodes" "$inner_steps" "$(value "$file" inner_s)" "$(value "$file" outer_s)" "$(value "$file" gpu_idle_share)"
}

report_json() {
	local file first=1
	printf '{"gpu": "%s", "host": "%s", "nvcc": "%s", "sources": "%s", "emulated": %s,\n "parts": [' "$machine" "$host" "$compiler" \
		"$(cat "$pack/PACKED")" "$([ "$emulated" ] && echo true || echo false)"
	paste -sd, "$out/parts.jsonl"
	printf ' ],\n "swarm": %s' "$(cat "$out/idle.json" 2>/dev/null || echo null)"
	printf ',\n "bench": {'
	for file in "$out"/bench-*.json; do
		[ -s "$file" ] || continue
		[ "$first" ] || printf ','
		first=''
		printf '\n"%s": %s' "$(basename "$file" .json)" "$(cat "$file")"
	done
	printf '}}\n'
}

report_md >"$results/report.md"
report_json >"$results/report.json"
cat "$results/report.md"
exit "$failed"
