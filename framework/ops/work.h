// SPDX-License-Identifier: Apache-2.0
// The arithmetic and traffic of ops by their formulas, for `Context::profile`: what must be done, not how a kernel does it.
#pragma once
#include "framework/autograd/context.h"
#include "framework/kernels/activation.h"
#include "framework/kernels/dropout.h"

namespace tapeformer::ops {

// Of an undefined tensor and a null parameter: 0.
inline double bytes_of(const Tensor& t) { return t.defined() ? static_cast<double>(t.bytes()) : 0; }
inline double bytes_of(const Parameter* p) { return p ? bytes_of(p->value) : 0; }
template <class... Arrays>
double bytes_of(const Arrays&... arrays) requires(sizeof...(Arrays) > 1) {
  return (bytes_of(arrays) + ...);
}

// A pass over x: FLOPs for each of its elements, and how many arrays of its size are read or written.
struct PassWork {
  double flops = 0, arrays = 0;
};
OpWork pass_work(const Tensor& x, const PassWork& forward, const PassWork& backward);
// y[M,N] = x[M,K] W' + b: 2 M K N FLOPs forward, and as many for each of dx and dW that is wanted; M N for the bias.
OpWork linear_work(const Variable& x, const Parameter& weight, const Parameter* bias);
// LayerNorm of x before a linear layer in the same pass, so that x is read and dx written by the other's count.
OpWork fused_norm_work(const Tensor& x);
// residual + dropout(y) behind a product in the same pass.
OpWork fused_residual_work(const Tensor& residual, const DropoutDraw& draw);
// f(x), and f'(x) dy.
OpWork activation_work(const Tensor& x, Activation f);
// x Up', f, times Down': 4 M C F FLOPs forward, twice that backward; `keeps`: what enters f is kept for the backward.
OpWork feed_forward_work(const Tensor& x, const Parameter& up, const Parameter& down, Activation f, bool keeps);
// Softmax attention over `pairs` (query, key) pairs, summed over the heads: 4 D and 10 D FLOPs a pair, 5 and 6 for its softmax.
OpWork attention_work(const Tensor& q, const Tensor& k, double pairs, int64_t head_dim);
// Attention through a state: two products of T rows forward, four backward.
OpWork linear_attention_work(const Tensor& q, int64_t head_dim);
// The same on M features a head, of which a matrix of `matrix_rows` a head makes them: a product for each of them, too, once more in the
// backward and twice for dq and dk; 20 FLOPs a feature for its function.
OpWork feature_attention_work(const Tensor& q, const Tensor& v, int heads, int features, int matrix_rows);
// A row of y from each entry of a map over rows of x: a multiply-add for each of its columns.
OpWork sparse_rows_work(const Tensor& x, const Tensor& y, double entries);
// `products`: rows times columns times depth, summed over the groups; as many FLOPs again for each gradient that is wanted.
OpWork batched_product_work(const Tensor& a, const Tensor& b, const Tensor& c, double products, int gradients);
// `rows` rows of a table.
OpWork look_up_work(const Tensor& table, int64_t rows);

inline OpWork operator+(const OpWork& a, const OpWork& b) {
  return {{a.forward.flops + b.forward.flops, a.forward.bytes + b.forward.bytes},
          {a.backward.flops + b.backward.flops, a.backward.bytes + b.backward.bytes}};
}

}  // namespace tapeformer::ops
