#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the presets asan (address and undefined behaviour) and tsan (threads) and runs the C++ test programs under them; the end-to-end tests are
# left out (they kill and time the command). Takes about an hour on two cores, most of it compiling.
# Usage: tools/checks/sanitizers.sh [asan|tsan] [PROGRAM ...]    both presets and all programs unless given; a program is named as in ctest: core
set -euo pipefail
cd "$(dirname "$0")/../.."
presets="asan tsan"
case "${1:-}" in asan | tsan) presets=$1; shift ;; esac

# No leak check: libraries keep memory until the process ends. A detected fault is an exit code, so ctest sees it.
export ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
for preset in $presets; do
  began=$SECONDS
  cmake --preset "$preset" >/dev/null
  if [ $# -gt 0 ]; then
    cmake --build "build/$preset" --target "${@/#/test_}"
    selected="^($(IFS='|'; echo "$*"))\$"
  else
    cmake --build "build/$preset"
    selected=.
  fi
  built=$((SECONDS - began))
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --timeout 1800 -R "$selected" -E '^(end_to_end_.*|consumer|layers|golden_files)$'
  echo "$preset: built in $built s, ran in $((SECONDS - began - built)) s"
done
