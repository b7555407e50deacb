// SPDX-License-Identifier: Apache-2.0
// Plain types shared by the files of this folder and their callers. The .cpp files here are compiled once for each instruction set
// (Highway's foreach_target) and include nothing but Highway and the headers of this folder: a template of the standard library compiled
// for AVX-512 here could be picked by the linker for the whole program.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace tapeformer::simd {

// Rows of contiguous floats, `stride` elements apart; no alignment is assumed.
struct Rows {
  float* data = nullptr;
  ptrdiff_t stride = 0;
  [[gnu::always_inline]] float* row(ptrdiff_t r) const { return data + r * stride; }
  [[gnu::always_inline]] explicit operator bool() const { return data != nullptr; }
};
struct ConstRows {
  const float* data = nullptr;
  ptrdiff_t stride = 0;
  [[gnu::always_inline]] const float* row(ptrdiff_t r) const { return data + r * stride; }
  [[gnu::always_inline]] explicit operator bool() const { return data != nullptr; }
};

// One place that drops: an element (row, column) is kept iff its Philox word >= threshold, and is then multiplied by scale.
struct DropoutRows {
  uint64_t key = 0;
  uint64_t threshold = 0;  // 0: nothing is dropped
  float scale = 1;
  uint32_t step = 0;
  const int32_t* positions = nullptr;
  const uint32_t* samples = nullptr;
  uint32_t* room = nullptr;  // row_words a row: bit c % 32 of word c / 32 is 1 where an element is dropped; null: drawn at each use
  ptrdiff_t row_words = 0;   // a multiple of 2
  bool drawn = false;        // the room is filled
};

// The activations of framework/kernels/activation.h, in the same order.
enum class Nonlinearity : uint8_t { none, relu, gelu, gelu_tanh };

// Row strides of scratch memory get this many floats more than the row's width: strides that are powers of two fall on the same cache sets.
constexpr int row_padding = 16;

}  // namespace tapeformer::simd
