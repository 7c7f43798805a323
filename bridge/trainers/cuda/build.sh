#!/bin/sh
# Builds libp2pdiloco_cuda.so: build.sh [--emulate] [--bench] [FOLDER], by default this one.
#
# It needs nvcc (CUDA 11.8 or newer), of $NVCC, the PATH or /usr/local/cuda. Without one it says so and exits with status 77: skipped.
# CUDA_ARCHS names the GPUs to build for, such as "80 90"; by default those of this machine, and without one those of 70 75 80 90 that
# nvcc knows.
#
#   --emulate  builds libp2pdiloco_cuda_emulated.so with g++ for the CPU instead: slow, for tests alone (emulate/cuda_runtime.h)
#   --bench    builds cuda_bench too, which times what check.sh reports; emulated, cuda_bench_emulated, whose times mean nothing
#   NVCCFLAGS, CXXFLAGS, LDFLAGS are added to the compiler's
set -eu
here=$(cd "$(dirname "$0")" && pwd)
emulate='' bench=''
while [ $# -gt 0 ]; do
	case $1 in
	--emulate) emulate=1 ;;
	--bench) bench=1 ;;
	-*) echo "build.sh: unknown flag $1: see the head of the script" >&2; exit 2 ;;
	*) break ;;
	esac
	shift
done
out=${1:-$here}
mkdir -p "$out"
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
includes="-I$here/../../include -I$here/../common"
sources='trainer gpu model optimizer products feed transfer device'

build_common() {
	for source in "$here/../common/"*.c; do
		# shellcheck disable=SC2086 # includes are several words
		"${CC:-cc}" -std=c11 -D_DEFAULT_SOURCE -O2 -Wall -Wextra ${WERROR:-} -fPIC -fvisibility=hidden $includes \
			-c "$source" -o "$objects/common-$(basename "$source" .c).o"
	done
}

if [ "$emulate" ]; then
	build_common
	emulated_flags="-std=c++17 -O2 -g -Wall -Wextra ${WERROR:-} -fPIC -fvisibility=hidden -I$here/emulate"
	for source in $sources; do
		# shellcheck disable=SC2086
		"${CXX:-g++}" $emulated_flags ${CXXFLAGS:-} $includes -x c++ -c "$here/$source.cu" -o "$objects/$source.o"
	done
	for source in grid streams memory blas; do
		# shellcheck disable=SC2086
		"${CXX:-g++}" $emulated_flags -O3 ${CXXFLAGS:-} -c "$here/emulate/$source.cpp" -o "$objects/$source.o"
	done
	# shellcheck disable=SC2086
	"${CXX:-g++}" -shared ${CXXFLAGS:-} -o "$out/libp2pdiloco_cuda_emulated.so" "$objects"/*.o ${LDFLAGS:-} -lpthread
	echo "$out/libp2pdiloco_cuda_emulated.so"
	if [ "$bench" ]; then
		# shellcheck disable=SC2086
		"${CXX:-g++}" $emulated_flags ${CXXFLAGS:-} $includes -o "$out/cuda_bench_emulated" -x c++ "$here/bench.cu" -x none \
			"$objects"/device.o "$objects"/grid.o "$objects"/streams.o "$objects"/memory.o "$objects"/blas.o -ldl -lpthread
		echo "$out/cuda_bench_emulated"
	fi
	exit 0
fi

nvcc=${NVCC:-$(command -v nvcc || true)}
if [ -z "$nvcc" ] && [ -x /usr/local/cuda/bin/nvcc ]; then
	nvcc=/usr/local/cuda/bin/nvcc
fi
if [ -z "$nvcc" ]; then
	echo 'skipped: no nvcc here (install the CUDA toolkit, or set NVCC), so the CUDA trainer is not built; everything else works without it' >&2
	exit 77
fi

# The GPUs of this machine, like "90".
local_archs() {
	command -v nvidia-smi >/dev/null || return 0
	nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | grep -E '^[0-9]+$' | sort -u | tr '\n' ' '
}

# Those of three generations that this nvcc still knows.
usual_archs() {
	for arch in 70 75 80 90; do
		"$nvcc" --list-gpu-arch | grep -q "^compute_$arch\$" && printf '%s ' "$arch"
	done
}

archs=${CUDA_ARCHS:-$(local_archs)}
[ "$archs" ] || archs=$(usual_archs)
codes='' newest=''
for arch in $archs; do
	codes="$codes -gencode=arch=compute_$arch,code=sm_$arch"
	newest=$arch
done
# GPUs to come compile the newest one's intermediate code when they load it.
codes="$codes -gencode=arch=compute_$newest,code=compute_$newest"
build_common
flags="-std=c++17 -O3 -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra ${WERROR:+-Werror all-warnings}"
for source in $sources; do
	# shellcheck disable=SC2086
	"$nvcc" $flags $codes ${NVCCFLAGS:-} $includes -c "$here/$source.cu" -o "$objects/$source.o"
done
# Where nvcc is, cuBLAS is, and it need not be where the system looks.
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
paths=''
for folder in "$toolkit/lib64" "$toolkit/targets/$(uname -m)-linux/lib"; do
	[ ! -d "$folder" ] || paths="$paths -L$folder -Xlinker -rpath -Xlinker $folder"
done
# shellcheck disable=SC2086
"$nvcc" -shared $codes ${NVCCFLAGS:-} -o "$out/libp2pdiloco_cuda.so" "$objects"/*.o $paths ${LDFLAGS:-} -lcublas
echo "$out/libp2pdiloco_cuda.so"
if [ "$bench" ]; then
	# shellcheck disable=SC2086
	"$nvcc" -std=c++17 -O2 $codes ${NVCCFLAGS:-} $includes -o "$out/cuda_bench" "$here/bench.cu" "$objects/device.o" $paths ${LDFLAGS:-} -lcublas -ldl
	echo "$out/cuda_bench"
fi
