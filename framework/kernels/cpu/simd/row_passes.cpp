// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/row_passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/row_passes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/math.h"
#include "framework/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

template <class Activate>
void forward(ConstRows x, int width, ptrdiff_t first, ptrdiff_t last, Rows y) {
  for (ptrdiff_t r = first; r < last; ++r)
    for (int c = 0; c < width; c += kLanes) store_at(Activate::value(load_at(x.row(r), c, width)), y.row(r), c, width);
}

template <class Activate>
void backward(ConstRows x, ConstRows dy, int width, ptrdiff_t first, ptrdiff_t last, Rows dx) {
  for (ptrdiff_t r = first; r < last; ++r)
    for (int c = 0; c < width; c += kLanes)
      store_at(hn::Mul(load_at(dy.row(r), c, width), Activate::both(load_at(x.row(r), c, width)).slope), dx.row(r), c, width);
}

}  // namespace

void activation_here(Nonlinearity f, ConstRows x, int width, ptrdiff_t first, ptrdiff_t last, Rows y) {
  switch (f) {
    case Nonlinearity::none:
      return forward<Identity>(x, width, first, last, y);
    case Nonlinearity::relu:
      return forward<Relu>(x, width, first, last, y);
    case Nonlinearity::gelu:
      return forward<Gelu>(x, width, first, last, y);
    case Nonlinearity::gelu_tanh:
      return forward<GeluTanh>(x, width, first, last, y);
  }
}

void activation_backward_here(Nonlinearity f, ConstRows x, ConstRows dy, int width, ptrdiff_t first, ptrdiff_t last, Rows dx) {
  switch (f) {
    case Nonlinearity::none:
      return backward<Identity>(x, dy, width, first, last, dx);
    case Nonlinearity::relu:
      return backward<Relu>(x, dy, width, first, last, dx);
    case Nonlinearity::gelu:
      return backward<Gelu>(x, dy, width, first, last, dx);
    case Nonlinearity::gelu_tanh:
      return backward<GeluTanh>(x, dy, width, first, last, dx);
  }
}

void dropout_here(const DropoutRows& p, ConstRows x, int width, bool add, ptrdiff_t first, ptrdiff_t last, Rows y) {
  const Drop drop(p);
  for (ptrdiff_t r = first; r < last; ++r) {
    const float* from = x.row(r);
    float* to = y.row(r);
    const auto write = [&](int c, V v) HWY_ATTR { store_at(add ? hn::Add(load_at(to, c, width), v) : v, to, c, width); };
    if (drop.on()) drop.each(r, 0, width, [&](int c, Dropped some) HWY_ATTR { write(c, drop.apply(load_at(from, c, width), some)); });
    else
      for (int c = 0; c < width; c += kLanes) write(c, load_at(from, c, width));
  }
}

void layer_norm_here(const LayerNormRows& p, ptrdiff_t first, ptrdiff_t last, Rows y) {
  const D d;
  for (ptrdiff_t r = first; r < last; ++r) {
    const float* x = p.x.row(r);
    norm_statistics(x, p.C, p.epsilon, p.mean[r], p.rstd[r]);
    const V m = hn::Set(d, p.mean[r]), s = hn::Set(d, p.rstd[r]);
    for (int c = 0; c < p.C; c += kLanes) {
      const V n = hn::Mul(hn::Sub(load_at(x, c, p.C), m), s);
      store_at(hn::MulAdd(n, load_at(p.gain, c, p.C), load_at(p.shift, c, p.C)), y.row(r), c, p.C);
    }
  }
}

void layer_norm_backward_here(const LayerNormRows& p, ConstRows dy, ptrdiff_t first, ptrdiff_t last, bool add, Rows dx, float* part,
                              size_t part_stride) {
  norm_gradients(static_cast<int>(last - first), p.C, {p.x.row(first), p.x.stride}, p.mean + first, p.rstd + first, dy.row(first),
                 static_cast<size_t>(dy.stride), false, part, part + part_stride);
  const Norm norm{p.C, p.gain, nullptr};
  for (ptrdiff_t r = first; dx && r < last; ++r) norm_backward_row(norm, p.x.row(r), p.mean[r], p.rstd[r], dy.row(r), add, dx.row(r));
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(activation_here);
HWY_EXPORT(activation_backward_here);
HWY_EXPORT(dropout_here);
HWY_EXPORT(layer_norm_here);
HWY_EXPORT(layer_norm_backward_here);

void activation_rows(Nonlinearity f, ConstRows x, int width, ptrdiff_t first, ptrdiff_t last, Rows y) {
  HWY_DYNAMIC_DISPATCH(activation_here)(f, x, width, first, last, y);
}
void activation_backward_rows(Nonlinearity f, ConstRows x, ConstRows dy, int width, ptrdiff_t first, ptrdiff_t last, Rows dx) {
  HWY_DYNAMIC_DISPATCH(activation_backward_here)(f, x, dy, width, first, last, dx);
}
void dropout_rows(const DropoutRows& p, ConstRows x, int width, bool add, ptrdiff_t first, ptrdiff_t last, Rows y) {
  HWY_DYNAMIC_DISPATCH(dropout_here)(p, x, width, add, first, last, y);
}
void layer_norm_rows(const LayerNormRows& p, ptrdiff_t first, ptrdiff_t last, Rows y) {
  HWY_DYNAMIC_DISPATCH(layer_norm_here)(p, first, last, y);
}
void layer_norm_backward_rows(const LayerNormRows& p, ConstRows dy, ptrdiff_t first, ptrdiff_t last, bool add, Rows dx, float* part,
                              size_t part_stride) {
  HWY_DYNAMIC_DISPATCH(layer_norm_backward_here)(p, dy, first, last, add, dx, part, part_stride);
}

}  // namespace tapeformer::simd
#endif
