#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The files of framework/kernels/cpu/simd are compiled for several instruction sets. A weak symbol of such an object (an inline function, a
# template of the standard library) may be picked by the linker for the whole program and then fail on an older processor. This lists every
# weak symbol that doesn't belong to one instruction set, and fails if there is one.
# Usage: tools/checks/weak_symbols.sh BUILD_DIRECTORY
set -eu
build=${1:?usage: weak_symbols.sh BUILD_DIRECTORY}
objects=$(find "$build" -path '*kernels/cpu/simd/*' -o -path '*/cpu/simd/*' | grep '\.o$' | sort -u)
[ -n "$objects" ] || { echo "no objects of framework/kernels/cpu/simd under $build: build tapeformer_kernels first" >&2; exit 2; }
found=0
for object in $objects; do
  leaked=$(nm -C "$object" | grep -E '^[0-9a-f]* *[WVu] ' | grep -vE '::N_[A-Z0-9_]+::|DW\.ref\.' || true)
  if [ -n "$leaked" ]; then
    echo "$object has weak symbols outside the namespaces of instruction sets:" >&2
    echo "$leaked" >&2
    found=1
  fi
done
[ "$found" = 0 ] && echo "no weak symbols leak from $(echo "$objects" | wc -l) objects"
exit "$found"
