// SPDX-License-Identifier: Apache-2.0
// Cuts the parameters of a model into pieces of bounded size, so that one pass over all of them keeps every thread busy whether the
// parameters are many and small or few and large. The cuts depend on shapes alone, never on the number of threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/autograd/tape.h"
#include "framework/core/parallel.h"

namespace tapeformer::optim {

constexpr int64_t piece_elements = 16384;  // at most a block of the kernels, which then have no reason to cut further

struct Piece {
  size_t parameter = 0;  // its place in the list
  int64_t first = 0, count = 0;
};

inline std::vector<Piece> pieces_of(const std::vector<Parameter*>& parameters) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t n = parameters[i]->value.count();
    for (int64_t first = 0; first < n; first += piece_elements) pieces.push_back({i, first, std::min(piece_elements, n - first)});
  }
  return pieces;
}

// body(index of the piece) for each; on the threads of the device where it has some.
template <class F>
void for_each_piece(const Execution& on, const std::vector<Piece>& pieces, const F& body) {
  const auto count = static_cast<int64_t>(pieces.size());
  const auto task = [&](int64_t i) { body(static_cast<size_t>(i)); };
  if (on.device != Device::reference && on.threads) on.threads->run(count, task);
  else
    for (int64_t i = 0; i < count; ++i) task(i);
}

}  // namespace tapeformer::optim
