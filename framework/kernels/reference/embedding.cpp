// SPDX-License-Identifier: Apache-2.0
// Embeddings on the reference device.
#include "framework/kernels/embedding.h"

#include <vector>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void EmbeddingForward<T>::reference(const Execution&, const int32_t* index, View<const T> table, View<T> y, Write write) {
  for (int64_t r = 0; r < y.rows; ++r)
    for (int64_t c = 0; c < table.columns; ++c) reference::store(y.row(r)[c], table.row(index[r])[c], write);
}

template <class T>
void EmbeddingBackward<T>::reference(const Execution&, const int32_t* index, View<const T> dy, View<T> dtable) {
  for (int64_t c = 0; c < dtable.columns; ++c) {
    std::vector<double> sums(static_cast<size_t>(dtable.rows));
    for (int64_t r = 0; r < dy.rows; ++r) sums[static_cast<size_t>(index[r])] += dy.row(r)[c];
    for (int64_t v = 0; v < dtable.rows; ++v) reference::store(dtable.row(v)[c], sums[static_cast<size_t>(v)], Write::add);
  }
}

template decltype(EmbeddingForward<float>::reference) EmbeddingForward<float>::reference;
template decltype(EmbeddingForward<double>::reference) EmbeddingForward<double>::reference;
template decltype(EmbeddingBackward<float>::reference) EmbeddingBackward<float>::reference;
template decltype(EmbeddingBackward<double>::reference) EmbeddingBackward<double>::reference;

}  // namespace tapeformer::kernels
