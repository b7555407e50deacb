// SPDX-License-Identifier: Apache-2.0
// Mixed blocks on the reference device, slot by slot.
#include "framework/kernels/sorted_blocks.h"

#include <algorithm>
#include <vector>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

// One head of one sequence.
template <class T>
struct Head {
  const SortedBlocksCall& call;
  View<const T> p, x;
  int b, h;
  int32_t m, n;
  int64_t first, first_block, first_result;

  T p_at(int32_t u, int32_t v) const { return p.row(first_block + u)[h * call.width + v]; }
  const T* row(int32_t v, int32_t t) const { return x.row(first + v * call.block + t) + int64_t{h} * call.head_dim; }
  int64_t result_row(int32_t u, int32_t t) const { return first_result + u * call.block + t; }
  // How many blocks have a slot t.
  int32_t blocks_with(int32_t t) const { return t < call.full_slots(b) ? m : m - 1; }
  double weight(int32_t u, int32_t t) const {
    double sum = 0;
    for (int32_t v = 0; v < blocks_with(t); ++v) sum += p_at(u, v);
    return sum;
  }
};

template <class T, class Body>
void for_each_head(const SortedBlocksCall& call, View<const T> p, View<const T> x, const Body& body) {
  int64_t result = 0;
  for (int b = 0; b < call.sequences->sequences(); ++b) {
    for (int h = 0; h < call.heads; ++h)
      body(Head<T>{call, p, x, b, h, call.blocks->length(b), call.sequences->length(b), call.sequences->offsets()[static_cast<size_t>(b)],
                   call.blocks->offsets()[static_cast<size_t>(b)], result});
    result += call.result_rows(b);
  }
}

}  // namespace

template <class T>
void SortedBlocksForward<T>::reference(const Execution&, const SortedBlocksCall& call, View<const T> p, View<const T> x, View<T> out,
                                       View<T> weights) {
  for (int64_t r = 0; r < weights.rows; ++r) std::fill_n(weights.row(r), weights.columns, T{0});
  for_each_head(call, p, x, [&](const Head<T>& head) {
    const int64_t column = int64_t{head.h} * call.head_dim;
    for (int32_t u = 0; u < call.made(head.b); ++u) {
      weights.row(head.first_block + u)[head.h] = static_cast<T>(head.weight(u, 0));
      weights.row(head.first_block + u)[call.heads + head.h] = static_cast<T>(head.weight(u, std::min(call.full_slots(head.b), call.block - 1)));
      for (int32_t t = 0; t < call.block; ++t) {
        const double w = head.weight(u, t);
        for (int d = 0; d < call.head_dim; ++d) {
          double sum = 0;
          for (int32_t v = 0; v < head.blocks_with(t) && w != 0; ++v) sum += static_cast<double>(head.p_at(u, v)) * head.row(v, t)[d];
          out.row(head.result_row(u, t))[column + d] = static_cast<T>(w != 0 ? sum / w : 0);
        }
      }
    }
    for (int32_t i = 0; i < head.n && call.own; ++i)
      std::copy_n(x.row(head.first + i) + column, call.head_dim, out.row(head.result_row(call.made(head.b), i)) + column);
  });
}

template <class T>
void SortedBlocksBackward<T>::reference(const Execution&, const SortedBlocksCall& call, View<const T> p, View<const T> x, View<const T> dout,
                                        View<T> dp, Write write, View<T> dx) {
  if (dp.data && write == Write::overwrite)
    for (int64_t r = 0; r < dp.rows; ++r) std::fill_n(dp.row(r), dp.columns, T{0});
  for_each_head(call, p, x, [&](const Head<T>& head) {
    const int64_t column = int64_t{head.h} * call.head_dim;
    const int32_t made = call.made(head.b);
    std::vector<double> d_p(static_cast<size_t>(made) * static_cast<size_t>(head.m)), d_x(static_cast<size_t>(head.n * call.head_dim));
    for (int32_t u = 0; u < made; ++u)
      for (int32_t t = 0; t < call.block; ++t) {
        const double w = head.weight(u, t);
        const int32_t with = head.blocks_with(t);
        for (int d = 0; d < call.head_dim && w != 0; ++d) {
          const double g = dout.row(head.result_row(u, t))[column + d] / w;
          double mixed = 0;
          for (int32_t v = 0; v < with; ++v) mixed += head.p_at(u, v) / w * head.row(v, t)[d];
          for (int32_t v = 0; v < with; ++v) {
            d_p[static_cast<size_t>(u * head.m + v)] += g * (head.row(v, t)[d] - mixed);
            d_x[static_cast<size_t>((v * call.block + t) * call.head_dim + d)] += g * head.p_at(u, v);
          }
        }
      }
    for (int32_t u = 0; u < made && dp.data; ++u)
      for (int32_t v = 0; v < head.m; ++v)
        reference::store(dp.row(head.first_block + u)[head.h * call.width + v], d_p[static_cast<size_t>(u * head.m + v)], Write::add);
    for (int32_t i = 0; i < head.n && dx.data; ++i)
      for (int d = 0; d < call.head_dim; ++d) {
        const double own = call.own ? static_cast<double>(dout.row(head.result_row(made, i))[column + d]) : 0;
        reference::store(dx.row(head.first + i)[column + d], d_x[static_cast<size_t>(i * call.head_dim + d)] + own, Write::add);
      }
  });
}

template decltype(SortedBlocksForward<float>::reference) SortedBlocksForward<float>::reference;
template decltype(SortedBlocksForward<double>::reference) SortedBlocksForward<double>::reference;
template decltype(SortedBlocksBackward<float>::reference) SortedBlocksBackward<float>::reference;
template decltype(SortedBlocksBackward<double>::reference) SortedBlocksBackward<double>::reference;

}  // namespace tapeformer::kernels
