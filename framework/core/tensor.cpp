// SPDX-License-Identifier: Apache-2.0
#include "framework/core/tensor.h"

#include <fmt/format.h>

#include <algorithm>

namespace tapeformer {
namespace {

int64_t inner_count(const Shape& s) {
  int64_t n = 1;
  for (int i = 1; i < s.rank(); ++i) n *= s[i];
  return n;
}

template <class From, class To>
void convert(const Tensor& from, const Tensor& to) {
  const auto in = from.matrix<From>();
  const auto out = to.matrix<To>();
  for (int64_t r = 0; r < in.rows; ++r) std::copy_n(in.row(r), in.columns, out.row(r));
}

}  // namespace

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(sizes_.begin(), sizes_.begin() + rank_, ", ")); }

Tensor::Tensor(Dtype dtype, Shape shape)
    : dtype_(dtype),
      shape_(shape),
      row_stride_(inner_count(shape)),
      storage_(allocate(static_cast<size_t>(shape.count()) * size_of(dtype))) {}

Tensor Tensor::zeros(Dtype dtype, Shape shape) {
  Tensor t(dtype, shape);
  t.fill_zero();
  return t;
}

bool Tensor::contiguous() const { return shape_.rank() == 0 || shape_[0] <= 1 || row_stride_ == inner_count(shape_); }

Tensor Tensor::reshaped(Shape shape) const {
  require(contiguous() && shape.count() == count(), "cannot view {} as {}", shape_.text(), shape.text());
  Tensor t = *this;
  t.shape_ = shape;
  t.row_stride_ = inner_count(shape);
  return t;
}

Tensor Tensor::rows(int64_t first, int64_t count) const {
  require(shape_.rank() >= 1 && first >= 0 && count >= 0 && first + count <= shape_[0], "rows {} to {} of {}", first, first + count,
          shape_.text());
  Tensor t = *this;
  t.shape_ = {count};
  for (int i = 1; i < shape_.rank(); ++i) t.shape_.append(shape_[i]);
  t.offset_ += static_cast<size_t>(first * row_stride_) * size_of(dtype_);
  return t;
}

Tensor Tensor::columns(int64_t first, int64_t count) const {
  require(shape_.rank() == 2 && first >= 0 && count >= 0 && first + count <= shape_[1], "columns {} to {} of {}", first, first + count,
          shape_.text());
  Tensor t = *this;
  t.shape_ = {shape_[0], count};
  t.offset_ += static_cast<size_t>(first) * size_of(dtype_);
  return t;
}

Tensor Tensor::clone() const {
  Tensor t(dtype_, shape_);
  t.copy_from(*this);
  return t;
}

void Tensor::fill_zero() const {
  if (count() == 0) return;
  const size_t row_bytes = bytes() / static_cast<size_t>(shape_.rank() ? shape_[0] : 1);
  if (contiguous()) std::memset(raw(), 0, bytes());
  else
    for (int64_t r = 0; r < shape_[0]; ++r) std::memset(raw() + static_cast<size_t>(r * row_stride_) * size_of(dtype_), 0, row_bytes);
}

void Tensor::copy_from(const Tensor& other) const {
  require(dtype_ == other.dtype_ && shape_ == other.shape_, "copying {} {} into {} {}", name_of(other.dtype_), other.shape_.text(),
          name_of(dtype_), shape_.text());
  if (count() == 0) return;
  const int64_t rows = shape_.rank() ? shape_[0] : 1;
  const size_t size = size_of(dtype_), row_bytes = bytes() / static_cast<size_t>(rows);
  if (contiguous() && other.contiguous()) std::memcpy(raw(), other.raw(), bytes());
  else
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(raw() + static_cast<size_t>(r * row_stride_) * size, other.raw() + static_cast<size_t>(r * other.row_stride_) * size,
                  row_bytes);
}

Tensor Tensor::converted(Dtype dtype) const {
  require(is_floating(dtype_) && is_floating(dtype), "conversion from {} to {}", name_of(dtype_), name_of(dtype));
  if (dtype == dtype_) return clone();
  Tensor t(dtype, shape_);
  if (dtype_ == Dtype::f32) convert<float, double>(*this, t);
  else convert<double, float>(*this, t);
  return t;
}

}  // namespace tapeformer
