#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guards the register blocks of the cpu device against a trap of g++ 12, which loads the right operand again for each row of a block, as a memory
# operand of the multiply-add, and loses up to 40 %. Builds them as the library does and compares their speed with that of bare multiply-adds on
# the same core, for AVX2 and AVX-512: exit 1 below 75 %. Whether the trap snaps depends on the unrolling and on the compiler, and what it costs on how
# many loads a processor does in a cycle. Takes about ten seconds, most of it compiling; wants an idle core.
# Usage: tools/checks/register_blocks.sh [--without-cure]    --without-cure: the same without it and unrolled by 2, to compare
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
includes=(-I "$PWD")
if [ "${1:-}" = "--without-cure" ]; then
  mkdir -p "$work/framework/kernels/cpu/simd"
  sed '/^      hold(row\[j\]);$/d; s/#pragma GCC unroll 4$/#pragma GCC unroll 2/' framework/kernels/cpu/simd/tile.h > "$work/framework/kernels/cpu/simd/tile.h"
  if cmp -s "$work/framework/kernels/cpu/simd/tile.h" framework/kernels/cpu/simd/tile.h; then
    echo "tile.h has no cure to take out" >&2
    exit 2
  fi
  includes=(-I "$work" "${includes[@]}")
fi
"${CXX:-c++}" -std=c++20 -O3 -DNDEBUG -fPIC '-DHWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)' \
  "${includes[@]}" tools/checks/register_blocks.cpp -o "$work/register_blocks" -lhwy
"$work/register_blocks"
