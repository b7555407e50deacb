// SPDX-License-Identifier: Apache-2.0
// The feed-forward half-layer on the reference device, composed of the plain kernels.
#include "framework/kernels/feed_forward.h"

#include "framework/kernels/elementwise.h"
#include "framework/kernels/layer_norm.h"
#include "framework/kernels/linear.h"
#include "framework/kernels/reference/normalized.h"

namespace tapeformer::kernels {

template <class T>
void FeedForwardForward<T>::reference(const Execution& on, const FeedForwardWeights<T>& p, View<const T> x, View<const T> residual,
                                      View<T> y, FeedForwardSaved<T> saved) {
  reference::Temporary<T> normal(x.rows, x.columns), hidden(x.rows, p.up.rows), out(x.rows, p.down.rows);
  if (p.gain) LayerNormForward<T>::reference(on, x, p.gain, p.shift, p.epsilon, normal.view(), saved.mean, saved.rstd);
  const View<T> u = saved.u.data ? saved.u : hidden.view();
  LinearForward<T>::reference(on, p.gain ? normal.view() : x, p.up, p.up_bias, u);
  ActivationForward<T>::reference(on, p.activation, u, hidden.view());
  Dropout<T>::reference(on, p.dropout_in, hidden.view(), hidden.view(), Write::overwrite);
  LinearForward<T>::reference(on, hidden.view(), p.down, p.down_bias, out.view());
  Dropout<T>::reference(on, p.dropout_out, out.view(), out.view(), Write::overwrite);
  Sum<T>::reference(on, residual, out.view(), y);
}

template <class T>
void FeedForwardBackward<T>::reference(const Execution& on, const FeedForwardWeights<T>& p, View<const T> dy, View<const T> x,
                                       FeedForwardSaved<T> saved, View<T> dx, Write write, FeedForwardGradients<T> gradients) {
  reference::Temporary<T> normal(x.rows, x.columns), hidden(x.rows, p.up.rows), out(x.rows, p.down.rows);
  Dropout<T>::reference(on, p.dropout_out, dy, out.view(), Write::overwrite);
  ActivationForward<T>::reference(on, p.activation, saved.u, hidden.view());
  Dropout<T>::reference(on, p.dropout_in, hidden.view(), hidden.view(), Write::overwrite);
  LinearBackwardWeight<T>::reference(on, out.view(), hidden.view(), gradients.ddown, gradients.ddown_bias);

  LinearBackwardInput<T>::reference(on, out.view(), p.down, hidden.view(), Write::overwrite);
  Dropout<T>::reference(on, p.dropout_in, hidden.view(), hidden.view(), Write::overwrite);
  ActivationBackward<T>::reference(on, p.activation, saved.u, hidden.view(), hidden.view());

  if (p.gain) reference::normalized(x, p.gain, p.shift, saved.mean, saved.rstd, normal.view());
  LinearBackwardWeight<T>::reference(on, hidden.view(), p.gain ? normal.view() : x, gradients.dup, gradients.dup_bias);
  if (!p.gain) return LinearBackwardInput<T>::reference(on, hidden.view(), p.up, dx, write);
  LinearBackwardInput<T>::reference(on, hidden.view(), p.up, normal.view(), Write::overwrite);
  LayerNormBackward<T>::reference(on, normal.view(), x, p.gain, saved.mean, saved.rstd, dx, write, gradients.dgain, gradients.dshift);
}

template decltype(FeedForwardForward<float>::reference) FeedForwardForward<float>::reference;
template decltype(FeedForwardForward<double>::reference) FeedForwardForward<double>::reference;
template decltype(FeedForwardBackward<float>::reference) FeedForwardBackward<float>::reference;
template decltype(FeedForwardBackward<double>::reference) FeedForwardBackward<double>::reference;

}  // namespace tapeformer::kernels
