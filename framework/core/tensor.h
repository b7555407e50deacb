// SPDX-License-Identifier: Apache-2.0
// A tensor: dtype, shape, the stride of its outermost axis, and shared storage. Copying shares; clone() copies the elements.
#pragma once
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/core/buffer.h"
#include "framework/core/dtype.h"
#include "framework/core/shape.h"

namespace tapeformer {

// A matrix as kernels see it: `rows` rows of `columns` contiguous elements, `stride` elements apart.
template <class T>
struct View {
  T* data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;
  T* row(int64_t r) const { return data + r * stride; }
  operator View<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {data, rows, columns, stride};
  }
};

class Tensor {
 public:
  Tensor() = default;
  // Elements are not initialised.
  Tensor(Dtype dtype, Shape shape);
  static Tensor zeros(Dtype dtype, Shape shape);
  template <class T>
  static Tensor of(std::span<const T> values, Shape shape) {
    Tensor t(dtype_of<T>(), shape);
    require(static_cast<int64_t>(values.size()) == shape.count(), "{} values for the shape {}", values.size(), shape.text());
    if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size_bytes());
    return t;
  }
  template <class T>
  static Tensor of(const std::vector<T>& values) {
    return of(std::span<const T>(values), {static_cast<int64_t>(values.size())});
  }

  bool defined() const { return storage_ != nullptr; }
  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.count(); }
  size_t bytes() const { return static_cast<size_t>(count()) * size_of(dtype_); }
  // Elements between the starts of two neighbours on the outermost axis.
  int64_t row_stride() const { return row_stride_; }
  bool contiguous() const;
  // True when no other tensor shares the storage.
  bool unique() const { return storage_.use_count() == 1; }

  std::byte* raw() const { return storage_.get() + offset_; }
  // The elements; throws unless T is the dtype.
  template <class T>
  T* data() const {
    require(dtype_ == dtype_of<T>(), "a tensor of {} read as {}", name_of(dtype_), name_of(dtype_of<T>()));
    return reinterpret_cast<T*>(raw());
  }
  // All elements as one span; the tensor must be contiguous.
  template <class T>
  std::span<T> span() const {
    require(contiguous(), "span() of a strided tensor {}", shape_.text());
    return {data<T>(), static_cast<size_t>(count())};
  }
  // [d0, d1*d2*...]: a vector [n] is n rows of one element unless it is asked for as one row.
  template <class T>
  View<T> matrix() const {
    const int64_t rows = shape_.rank() ? shape_[0] : 1;
    return {data<std::remove_const_t<T>>(), rows, rows ? count() / rows : 0, row_stride_};
  }

  // Shares storage. The tensor must be contiguous and the counts equal.
  Tensor reshaped(Shape shape) const;
  // Rows [first, first + count) of the outermost axis, shared.
  Tensor rows(int64_t first, int64_t count) const;
  // Columns [first, first + count) of a matrix [rows, columns], shared; the row stride stays.
  Tensor columns(int64_t first, int64_t count) const;
  // A contiguous copy.
  Tensor clone() const;
  void fill_zero() const;
  // Copies all elements from a tensor of the same dtype and shape.
  void copy_from(const Tensor& other) const;
  // A contiguous copy in another floating dtype.
  Tensor converted(Dtype dtype) const;

 private:
  Dtype dtype_ = Dtype::f32;
  Shape shape_;
  int64_t row_stride_ = 0;
  Storage storage_;
  size_t offset_ = 0;  // bytes
};

}  // namespace tapeformer
