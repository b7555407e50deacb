// SPDX-License-Identifier: Apache-2.0
// What attentions that sort rows by their content share: lists of rows as one tensor (to be kept as structure), rows in the order of their
// classes, maps of rows made head by head, and work cut by sequences and heads.
#pragma once
#include <span>
#include <vector>

#include "framework/core/packing.h"
#include "framework/core/parallel.h"
#include "framework/core/tensor.h"
#include "framework/kernels/sparse_rows.h"

namespace tapeformer::models {

// Lists of numbers in one int32 tensor: how many lists there are, the place in the tensor where each begins and the end, then the numbers.
class IndexLists {
 public:
  static Tensor packed(std::span<const std::vector<int32_t>> lists);
  explicit IndexLists(Tensor packed) : packed_(std::move(packed)), all_(packed_.span<int32_t>()) {}

  std::span<const int32_t> operator[](size_t list) const {
    return all_.subspan(static_cast<size_t>(all_[list + 1]), static_cast<size_t>(all_[list + 2] - all_[list + 1]));
  }

 private:
  Tensor packed_;
  std::span<const int32_t> all_;
};

// The rows 0 .. n - 1 sorted by class, rows of one class in their order; those of class c are rows[begin[c]] ... rows[begin[c + 1] - 1].
struct ClassOrder {
  std::vector<int32_t> rows, begin;
};
ClassOrder order_by_class(std::span<const int32_t> classes, int32_t count);

// For each row of the result the one row of x that it is.
RowMap gather_map(int64_t rows, std::vector<int32_t> source);

// Calls body(sequence, head) for each pair, on the threads where there are some.
template <class Body>
void for_each_head(const Execution& on, const Packing& packing, int heads, const Body& body) {
  const int64_t count = int64_t{packing.sequences()} * heads;
  const auto task = [&](int64_t i) { body(static_cast<int>(i / heads), static_cast<int>(i % heads)); };
  if (on.device == Device::reference)
    for (int64_t i = 0; i < count; ++i) task(i);
  else on.threads->run(count, task);
}

}  // namespace tapeformer::models
