#!/bin/sh
# Builds libp2pdiloco_cuda.so: build.sh [--emulate] [FOLDER], by default beside this script.
#
# It needs nvcc (CUDA 11.8 or newer), of $NVCC, the PATH or /usr/local/cuda; without one the status is 77: skipped.
# CUDA_ARCHS names the GPUs to build for, such as "80 90"; by default those of this machine.
#
#   --emulate  builds libp2pdiloco_cuda_emulated.so with g++ for the CPU: slow, for tests alone (emulate/cuda_runtime.h)
#   NVCCFLAGS, CXXFLAGS, LDFLAGS are added to the compilers'
set -eu
here=$(cd "$(dirname "$0")" && pwd)
emulate=''
if [ "${1-}" = --emulate ]; then
	emulate=1
	shift
fi
out=${1:-$here}
mkdir -p "$out"

if [ "$emulate" ]; then
	objects=$(mktemp -d)
	trap 'rm -rf "$objects"' EXIT
	compile() { # FOLDER FILE, beside the others
		# shellcheck disable=SC2086 # flags are several words
		"${CXX:-g++}" -std=c++17 -O1 -Wall -Wextra -fPIC -fvisibility=hidden "-I$here/emulate" "-I$here/../../include" \
			${CXXFLAGS:-} -x c++ -c "$1/$2" -o "$objects/$2.o" &
		jobs="${jobs-} $!"
	}
	compile "$here" train.cu
	compile "$here/emulate" all.cpp
	for job in $jobs; do wait "$job"; done
	# shellcheck disable=SC2086
	"${CXX:-g++}" -shared ${CXXFLAGS:-} -o "$out/libp2pdiloco_cuda_emulated.so" "$objects"/*.o ${LDFLAGS:-}
	echo "$out/libp2pdiloco_cuda_emulated.so"
	exit 0
fi

nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! command -v "$nvcc" >/dev/null; then
	echo 'skipped: no nvcc here (install the CUDA toolkit, or set NVCC), so the CUDA trainer is not built' >&2
	exit 77
fi
codes=''
for arch in ${CUDA_ARCHS:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -u)}; do
	codes="$codes -gencode=arch=compute_$arch,code=sm_$arch -gencode=arch=compute_$arch,code=compute_$arch"
done
if [ -z "$codes" ]; then
	echo 'no GPU is to be seen here: name those to build for, such as CUDA_ARCHS="80 90"' >&2
	exit 2
fi
lib=$(dirname "$(dirname "$(readlink -f "$(command -v "$nvcc")")")")/lib64 # cuBLAS need not be where the system looks
# shellcheck disable=SC2086
"$nvcc" -std=c++17 -O3 -shared -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra $codes ${NVCCFLAGS:-} \
	"-I$here/../../include" -o "$out/libp2pdiloco_cuda.so" "$here/train.cu" -lcublas -Xlinker "-rpath,$lib" ${LDFLAGS:-}
echo "$out/libp2pdiloco_cuda.so"
