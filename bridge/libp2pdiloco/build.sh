#!/usr/bin/env bash
# Builds the embedding library: libp2pdiloco.so, and its header beside it.
#
#   bridge/libp2pdiloco/build.sh [FOLDER]     (default: the current one)
set -euo pipefail

mkdir -p "${1:-.}"
out=$(realpath "${1:-.}")
cd "$(dirname "${BASH_SOURCE[0]}")"
CGO_ENABLED=1 go build -trimpath -buildmode=c-shared -o "$out/libp2pdiloco.so" .
rm -f "$out/libp2pdiloco.h" # Go's own header: the names of p2pdiloco.h are the interface
cp ../include/p2pdiloco.h "$out/"
