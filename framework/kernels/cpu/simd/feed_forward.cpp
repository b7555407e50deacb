// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/feed_forward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/feed_forward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/math.h"
#include "framework/kernels/cpu/simd/products.h"
#include "framework/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kChunk = 256;       // inner columns of a pass
static_assert(kChunk % 64 == 0);  // whole vectors, and whole words of what is dropped

// The buffers of a block: rows of width C, and of a chunk of F.
struct Buffers {
  size_t ldc, ldf;
  Buffers(int C, int F)
      : ldc(static_cast<size_t>(round_up(C, kCols) + row_padding)),
        ldf(static_cast<size_t>(round_up(smaller(kChunk, F), kCols) + row_padding)) {}
};

// a[rows x width] holds what enters f for columns f0 ...: kept in u, then replaced by dropout(f(a)). A pass of its own over rows in cache:
// inside the product's register block the exponential would spill the accumulators.
template <class Activate>
void activate(const FeedForwardRows& p, const Drop& drop, ptrdiff_t first, int rows, int f0, int width, float* a, size_t ld) {
  const D d;
  for (int r = 0; r < rows; ++r) {
    float* row = a + r * ld;
    float* u = p.u ? p.u.row(first + r) + f0 : nullptr;
    const auto value = [&](int c) HWY_ATTR {
      const V v = hn::Load(d, row + c);
      if (u) store_at(v, u, c, width);
      return Activate::value(v);
    };
    if (drop.on()) {
      drop.each(first + r, f0, width, [&](int c, Dropped some) HWY_ATTR { hn::Store(drop.apply(value(c), some), d, row + c); });
    } else {
#pragma GCC unroll 2
      for (int c = 0; c < width; c += kLanes) hn::Store(value(c), d, row + c);
    }
  }
}

// From u: a = dropout(f(u)), and du, which holds the gradient of a, becomes the gradient of u.
template <class Activate>
void activate_backward(const FeedForwardRows& p, const Drop& drop, ptrdiff_t first, int rows, int f0, int width, float* a, float* du,
                       size_t ld) {
  const D d;
  const int end = round_up(width, kCols);
  for (int r = 0; r < rows; ++r) {
    const float* u = p.u.row(first + r) + f0;
    float *ar = a + r * ld, *dr = du + r * ld;
    const auto both = [&](int c) HWY_ATTR {
      const ValueSlope f = Activate::both(load_at(u, c, width));
      return ValueSlope{f.value, first_only(hn::Mul(hn::Load(d, dr + c), f.slope), width - c)};
    };
    if (drop.on()) {
      drop.each(first + r, f0, end, [&](int c, Dropped some) HWY_ATTR {
        const ValueSlope x = both(c);
        hn::Store(drop.apply(x.value, some), d, ar + c);
        hn::Store(drop.apply(x.slope, some), d, dr + c);
      });
    } else {
#pragma GCC unroll 2
      for (int c = 0; c < end; c += kLanes) {
        const ValueSlope x = both(c);
        hn::Store(x.value, d, ar + c);
        hn::Store(x.slope, d, dr + c);
      }
    }
  }
}

void activate_any(const FeedForwardRows& p, const Drop& drop, ptrdiff_t first, int rows, int f0, int width, float* a, size_t ld) {
  switch (p.activation) {
    case Nonlinearity::none:
      return activate<Identity>(p, drop, first, rows, f0, width, a, ld);
    case Nonlinearity::relu:
      return activate<Relu>(p, drop, first, rows, f0, width, a, ld);
    case Nonlinearity::gelu:
      return activate<Gelu>(p, drop, first, rows, f0, width, a, ld);
    case Nonlinearity::gelu_tanh:
      return activate<GeluTanh>(p, drop, first, rows, f0, width, a, ld);
  }
}

void activate_backward_any(const FeedForwardRows& p, const Drop& drop, ptrdiff_t first, int rows, int f0, int width, float* a, float* du,
                           size_t ld) {
  switch (p.activation) {
    case Nonlinearity::none:
      return activate_backward<Identity>(p, drop, first, rows, f0, width, a, du, ld);
    case Nonlinearity::relu:
      return activate_backward<Relu>(p, drop, first, rows, f0, width, a, du, ld);
    case Nonlinearity::gelu:
      return activate_backward<Gelu>(p, drop, first, rows, f0, width, a, du, ld);
    case Nonlinearity::gelu_tanh:
      return activate_backward<GeluTanh>(p, drop, first, rows, f0, width, a, du, ld);
  }
}

}  // namespace

size_t feed_forward_scratch_here(const FeedForwardRows& p, int rows) {
  const Buffers b(p.C, p.F);
  return static_cast<size_t>(rows) * (p.du ? b.ldc : 3 * b.ldc + 2 * b.ldf);
}

void feed_forward_rows_here(const FeedForwardRows& p, ptrdiff_t first, int rows, float* scratch) {
  const int C = p.C, F = p.F;
  const Buffers ld(C, F);
  const size_t block = static_cast<size_t>(rows);
  float *h = scratch, *z = h + block * ld.ldc, *a = z + block * ld.ldc;
  const Norm norm{C, p.gain, p.shift};
  for (int r = 0; r < rows; ++r) {
    float mean = 0, rstd = 0;
    const float* x = p.x.row(first + r);
    if (p.gain) {
      norm_statistics(x, C, p.epsilon, mean, rstd);
      p.mean[first + r] = mean;
      p.rstd[first + r] = rstd;
    }
    norm_row(norm, x, mean, rstd, h + r * ld.ldc);
  }
  const Drop drop(p.dropout_in), drop_out(p.dropout_out);
  for (int f0 = 0; f0 < F; f0 += kChunk) {
    const int width = smaller(kChunk, F - f0);
    multiply_panels(rows, width, C, h, ld.ldc, p.up + static_cast<size_t>(f0) * C, static_cast<size_t>(C) * kCols,
                    {false, p.up_bias ? p.up_bias + f0 : nullptr}, a, ld.ldf);
    activate_any(p, drop, first, rows, f0, width, a, ld.ldf);
    multiply_panels(rows, C, width, a, ld.ldf, p.down + static_cast<size_t>(f0) * kCols, static_cast<size_t>(F) * kCols,
                    {f0 > 0, p.down_bias}, z, ld.ldc);
  }
  for (int r = 0; r < rows; ++r) residual_row(drop_out, first + r, z + r * ld.ldc, p.residual.row(first + r), C, p.y.row(first + r));
}

void feed_forward_backward_rows_here(const FeedForwardRows& p, ptrdiff_t first, int rows, float* part, bool add, float* scratch) {
  const int C = p.C, F = p.F;
  const Buffers ld(C, F);
  const size_t block = static_cast<size_t>(rows);
  const bool kept = static_cast<bool>(p.du);
  const FeedForwardPart at(C, F, kCols, !kept);
  const auto place = [&](Rows all, float* own, size_t stride) {
    return all ? Rows{all.row(first), all.stride} : Rows{own, static_cast<ptrdiff_t>(stride)};
  };
  float* const dh = scratch;
  const Rows h = place(p.h, dh + block * ld.ldc, ld.ldc), dz = place(p.dz, dh + 2 * block * ld.ldc, ld.ldc);
  const Rows a_all = place(p.a, dh + 3 * block * ld.ldc, ld.ldf), du_all = place(p.du, a_all.data + block * ld.ldf, ld.ldf);
  const size_t ldh = static_cast<size_t>(h.stride), ldz = static_cast<size_t>(dz.stride), ldf = static_cast<size_t>(du_all.stride);
  const Norm norm{C, p.gain, p.shift};
  const Drop drop(p.dropout_in), drop_out(p.dropout_out);
  for (int r = 0; r < rows; ++r) {
    norm_row(norm, p.x.row(first + r), p.gain ? p.mean[first + r] : 0, p.gain ? p.rstd[first + r] : 0, h.row(r));
    dropped_row(drop_out, first + r, p.dy.row(first + r), C, dz.row(r));
  }
  column_sums(rows, C, dz.data, ldz, add, part + at.ddown_bias);
  for (int f0 = 0; f0 < F; f0 += kChunk) {
    const int width = smaller(kChunk, F - f0);
    float *a = a_all.data + (kept ? f0 : 0), *du = du_all.data + (kept ? f0 : 0);
    multiply_panels(rows, width, C, dz.data, ldz, p.down + static_cast<size_t>(f0) * C, static_cast<size_t>(C) * kCols, {}, du, ldf);
    activate_backward_any(p, drop, first, rows, f0, width, a, du, ldf);
    column_sums(rows, width, du, ldf, add, part + at.dup_bias + f0);
    if (!kept) {
      outer_panels(C, width, rows, dz.data, ldz, a, ldf, add, part + at.ddown + static_cast<size_t>(f0) * C, 0, C);
      outer_panels(width, C, rows, du, ldf, h.data, ldh, add, part + at.dup, f0, F);
    }
    if (p.up)
      multiply_panels(rows, C, width, du, ldf, p.up + static_cast<size_t>(f0) * kCols, static_cast<size_t>(F) * kCols, {f0 > 0, nullptr},
                      dh, ld.ldc);
  }
  if (!p.up) return;
  if (p.gain)
    norm_gradients(rows, C, {p.x.row(first), p.x.stride}, p.mean + first, p.rstd + first, dh, ld.ldc, add, part + at.dgain,
                   part + at.dshift);
  for (int r = 0; p.dx && r < rows; ++r)
    norm_backward_row(norm, p.x.row(first + r), p.gain ? p.mean[first + r] : 0, p.gain ? p.rstd[first + r] : 0, dh + r * ld.ldc, p.add,
                      p.dx.row(first + r));
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(feed_forward_scratch_here);
HWY_EXPORT(feed_forward_rows_here);
HWY_EXPORT(feed_forward_backward_rows_here);

FeedForwardPart::FeedForwardPart(int C, int F, int columns, bool weights) {
  const size_t c = static_cast<size_t>((C + columns - 1) / columns * columns),
               f = static_cast<size_t>((F + columns - 1) / columns * columns);
  ddown = weights ? c * static_cast<size_t>(F) : 0;
  dup_bias = weights ? ddown + f * static_cast<size_t>(C) : 0;
  ddown_bias = dup_bias + f;
  dgain = ddown_bias + c;
  dshift = dgain + c;
  size = (dshift + c + 15) / 16 * 16;
}

size_t feed_forward_scratch(const FeedForwardRows& p, int rows) { return HWY_DYNAMIC_DISPATCH(feed_forward_scratch_here)(p, rows); }
void feed_forward_rows(const FeedForwardRows& p, ptrdiff_t first, int rows, float* scratch) {
  HWY_DYNAMIC_DISPATCH(feed_forward_rows_here)(p, first, rows, scratch);
}
void feed_forward_backward_rows(const FeedForwardRows& p, ptrdiff_t first, int rows, float* part, bool add, float* scratch) {
  HWY_DYNAMIC_DISPATCH(feed_forward_backward_rows_here)(p, first, rows, part, add, scratch);
}

}  // namespace tapeformer::simd
#endif
