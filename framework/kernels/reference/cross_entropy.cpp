// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on the reference device.
#include "framework/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

namespace tapeformer::kernels {

template <class T>
void CrossEntropy<T>::reference(const Execution&, View<const T> logits, const int32_t* targets, const T* class_weights,
                                const T* row_weights, double smoothing, T* loss, T* weight, View<T> dlogits) {
  const int64_t classes = logits.columns;
  for (int64_t r = 0; r < logits.rows; ++r) {
    const T* x = logits.row(r);
    const int32_t target = targets[r];
    if (target == ignored_target) {
      loss[r] = weight[r] = 0;
      std::fill_n(dlogits.row(r), classes, T{0});
      continue;
    }
    const double w =
        (class_weights ? static_cast<double>(class_weights[target]) : 1) * (row_weights ? static_cast<double>(row_weights[r]) : 1);
    const double largest = *std::max_element(x, x + classes), share = smoothing / static_cast<double>(classes);
    double sum = 0, sum_logits = 0;
    for (int64_t c = 0; c < classes; ++c) {
      sum += std::exp(x[c] - largest);
      sum_logits += x[c] - largest;
    }
    // -log p_c = log(sum) - (x_c - largest)
    loss[r] = static_cast<T>(w * (std::log(sum) - (1 - smoothing) * (x[target] - largest) - share * sum_logits));
    weight[r] = static_cast<T>(w);
    for (int64_t c = 0; c < classes; ++c)
      dlogits.row(r)[c] = static_cast<T>(w * (std::exp(x[c] - largest) / sum - share - (c == target ? 1 - smoothing : 0)));
  }
}

template decltype(CrossEntropy<float>::reference) CrossEntropy<float>::reference;
template decltype(CrossEntropy<double>::reference) CrossEntropy<double>::reference;

}  // namespace tapeformer::kernels
