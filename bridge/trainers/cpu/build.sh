#!/bin/sh
# Builds libp2pdiloco_cpu.so with any C11 compiler: build.sh [FOLDER], by default this one.
#
#   CC=clang CFLAGS='-O1 -g -fsanitize=address,undefined' bridge/trainers/cpu/build.sh /tmp/checked
#
# With -DANY_PROCESSOR in CFLAGS it looks for no vector unit that not all processors have.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
mkdir -p "$out"
# -ffp-contract=fast lets a multiplication and an addition be one operation, as in GNU C.
# shellcheck disable=SC2086 # CFLAGS and LDFLAGS are several words
"${CC:-cc}" -std=c11 -D_DEFAULT_SOURCE -ffp-contract=fast ${CFLAGS:--O3} -Wall -Wextra ${WERROR:-} \
	-fPIC -fvisibility=hidden -shared -I"$here/../../include" -I"$here/../common" \
	-o "$out/libp2pdiloco_cpu.so" "$here/../common/"*.c \
	"$here/adamw.c" "$here/attention.c" "$here/layers.c" "$here/matmul.c" "$here/model.c" "$here/team.c" "$here/trainer.c" \
	${LDFLAGS:-} -lm -lpthread
echo "$out/libp2pdiloco_cpu.so"
