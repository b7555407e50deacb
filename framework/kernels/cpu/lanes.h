// SPDX-License-Identifier: Apache-2.0
// Sums over rows of a few vectors: eight lanes in a fixed order, which the compiler makes vectors of.
#pragma once
#include <cstdint>

namespace tapeformer::kernels::cpu {

// The sum of term(c) over 0 .. n - 1.
template <class Term>
inline float sum_of(int64_t n, Term term) {
  constexpr int lanes = 8;
  float part[lanes] = {};
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes)
    for (int l = 0; l < lanes; ++l) part[l] += term(c + l);
  for (int l = 0; c < n; ++c, ++l) part[l] += term(c);
  return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
}

}  // namespace tapeformer::kernels::cpu
