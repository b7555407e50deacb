// SPDX-License-Identifier: Apache-2.0
// Where backward closures put gradients, and how they pass the ones that nobody asked for.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {

// The gradient of a trainable parameter, allocated as zeros at the first need; undefined for null and frozen ones. Kernels add to it.
Tensor parameter_gradient(Parameter* parameter);
// The same, but an array to be thrown away where nobody asked: for kernels that write it in any case.
Tensor parameter_gradient_or_scratch(Parameter& parameter);
// The tape's target for a recorded variable, else an array to be thrown away.
GradientTarget target_or_scratch(Tape& tape, const Variable& x);
// The tape's target, zeros where nothing has been put there yet: for kernels that only add. Undefined for no_node.
Tensor cleared_target(Tape& tape, int node, Dtype dtype, Shape shape);
// x = 0, by all threads.
void clear(const Execution& on, const Tensor& x);

// An undefined tensor becomes null and the empty view.
template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}
template <class T>
View<T> matrix_or_empty(const Tensor& t) {
  return t.defined() ? t.matrix<T>() : View<T>{};
}
// The values of an optional vector parameter.
template <class T>
const T* values_or_null(const Parameter* parameter) {
  return parameter ? parameter->value.data<T>() : nullptr;
}

}  // namespace tapeformer::ops
