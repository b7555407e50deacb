// SPDX-License-Identifier: Apache-2.0
// y = residual + dropout(x W' + b) on the reference device, composed of the plain kernels.
#include "framework/kernels/linear_residual.h"

#include "framework/kernels/elementwise.h"
#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void LinearResidualForward<T>::reference(const Execution& on, View<const T> x, View<const T> w, const T* bias, const DropoutDraw& draw,
                                         View<const T> residual, View<T> y) {
  reference::Temporary<T> product(y.rows, y.columns);
  LinearForward<T>::reference(on, x, w, bias, product.view());
  Dropout<T>::reference(on, draw, product.view(), product.view(), Write::overwrite);
  Sum<T>::reference(on, residual, product.view(), y);
}

template <class T>
void LinearResidualBackward<T>::reference(const Execution& on, View<const T> dy, View<const T> x, View<const T> w, const DropoutDraw& draw,
                                          View<T> dx, Write write, View<T> dw, T* dbias) {
  reference::Temporary<T> kept(dy.rows, dy.columns);
  Dropout<T>::reference(on, draw, dy, kept.view(), Write::overwrite);
  LinearBackwardWeight<T>::reference(on, kept.view(), x, dw, dbias);
  LinearBackwardInput<T>::reference(on, kept.view(), w, dx, write);
}

template decltype(LinearResidualForward<float>::reference) LinearResidualForward<float>::reference;
template decltype(LinearResidualForward<double>::reference) LinearResidualForward<double>::reference;
template decltype(LinearResidualBackward<float>::reference) LinearResidualBackward<float>::reference;
template decltype(LinearResidualBackward<double>::reference) LinearResidualBackward<double>::reference;

}  // namespace tapeformer::kernels
