#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a profile calls the machine's peak is the speed of a loop of multiply-adds on registers. Where the compiler keeps the chains in memory it
# is a third of that, and every share of the peak is too large. Fails unless the loop exists for AVX2 and AVX-512 and no multiply-add of it has
# an operand on the stack. x86-64 only.
# Usage: tools/checks/peak_in_registers.sh BUILD_DIRECTORY
set -eu
build=${1:?usage: peak_in_registers.sh BUILD_DIRECTORY}
object=$(find "$build" -path '*cpu/simd/peak.cpp.o' | head -1)
[ -n "$object" ] || { echo "no object of framework/kernels/cpu/simd/peak.cpp under $build: build tapeformer_kernels first" >&2; exit 2; }
for target in AVX2 AVX3; do
  code=$(objdump -dC --no-show-raw-insn "$object" | sed -n "/^[0-9a-f]* <tapeformer::simd::N_$target::multiply_add_here(long)>:/,/^\$/p" | grep fmadd || true)
  count=$(echo "$code" | grep -c fmadd || true)
  spilled=$(echo "$code" | grep -c '%rsp\|%rbp' || true)
  [ "$count" -ge 10 ] || { echo "$target: $count multiply-adds in the loop, at least 10 expected" >&2; exit 1; }
  [ "$spilled" = 0 ] || { echo "$target: $spilled of $count multiply-adds have an operand on the stack" >&2; exit 1; }
  echo "$target: $count multiply-adds, all on registers"
done
