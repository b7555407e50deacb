// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, their names and sizes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tapeformer {

enum class Dtype : uint8_t { f32, f64, i32, i64, u8, u32, u64 };

constexpr size_t size_of(Dtype t) {
  switch (t) {
    case Dtype::u8: return 1;
    case Dtype::f32:
    case Dtype::i32:
    case Dtype::u32: return 4;
    case Dtype::f64:
    case Dtype::i64:
    case Dtype::u64: return 8;
  }
  return 0;
}

constexpr std::string_view name_of(Dtype t) {
  constexpr std::string_view names[] = {"float32", "float64", "int32", "int64", "uint8", "uint32", "uint64"};
  return names[static_cast<size_t>(t)];
}

template <class T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) return Dtype::f32;
  else if constexpr (std::is_same_v<T, double>) return Dtype::f64;
  else if constexpr (std::is_same_v<T, int32_t>) return Dtype::i32;
  else if constexpr (std::is_same_v<T, int64_t>) return Dtype::i64;
  else if constexpr (std::is_same_v<T, uint8_t>) return Dtype::u8;
  else if constexpr (std::is_same_v<T, uint32_t>) return Dtype::u32;
  else if constexpr (std::is_same_v<T, uint64_t>) return Dtype::u64;
  else static_assert(sizeof(T) == 0, "not a tensor element type");
}

constexpr bool is_floating(Dtype t) { return t == Dtype::f32 || t == Dtype::f64; }

}  // namespace tapeformer
