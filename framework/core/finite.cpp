// SPDX-License-Identifier: Apache-2.0
#include "framework/core/finite.h"

#include <algorithm>
#include <cmath>

namespace tapeformer {
namespace {

template <class T>
bool rows_finite(const Tensor& t) {
  const auto m = t.matrix<T>();
  for (int64_t r = 0; r < m.rows; ++r)
    if (!std::all_of(m.row(r), m.row(r) + m.columns, [](T x) { return std::isfinite(x); })) return false;
  return true;
}

}  // namespace

bool all_finite(const Tensor& t) {
  if (t.dtype() == Dtype::f32) return rows_finite<float>(t);
  return t.dtype() != Dtype::f64 || rows_finite<double>(t);
}

}  // namespace tapeformer
