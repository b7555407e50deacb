// SPDX-License-Identifier: Apache-2.0
// y = LayerNorm(x) W' + b on the reference device, composed of the plain kernels.
#include "framework/kernels/norm_linear.h"

#include "framework/kernels/layer_norm.h"
#include "framework/kernels/linear.h"
#include "framework/kernels/reference/normalized.h"

namespace tapeformer::kernels {

template <class T>
void NormLinearForward<T>::reference(const Execution& on, View<const T> x, const T* gain, const T* shift, T epsilon, View<const T> w,
                                     const T* bias, View<T> y, T* mean, T* rstd) {
  reference::Temporary<T> normal(x.rows, x.columns);
  LayerNormForward<T>::reference(on, x, gain, shift, epsilon, normal.view(), mean, rstd);
  LinearForward<T>::reference(on, normal.view(), w, bias, y);
}

template <class T>
void NormLinearBackward<T>::reference(const Execution& on, View<const T> dy, View<const T> x, const T* gain, const T* shift, const T* mean,
                                      const T* rstd, View<const T> w, View<T> dx, Write write, NormLinearGradients<T> gradients) {
  reference::Temporary<T> normal(x.rows, x.columns);
  reference::normalized(x, gain, shift, mean, rstd, normal.view());
  LinearBackwardWeight<T>::reference(on, dy, normal.view(), gradients.dw, gradients.dbias);
  LinearBackwardInput<T>::reference(on, dy, w, normal.view(), Write::overwrite);
  LayerNormBackward<T>::reference(on, normal.view(), x, gain, mean, rstd, dx, write, gradients.dgain, gradients.dshift);
}

template decltype(NormLinearForward<float>::reference) NormLinearForward<float>::reference;
template decltype(NormLinearForward<double>::reference) NormLinearForward<double>::reference;
template decltype(NormLinearBackward<float>::reference) NormLinearBackward<float>::reference;
template decltype(NormLinearBackward<double>::reference) NormLinearBackward<double>::reference;

}  // namespace tapeformer::kernels
