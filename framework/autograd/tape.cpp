// SPDX-License-Identifier: Apache-2.0
#include "framework/autograd/tape.h"

#include "framework/kernels/elementwise.h"
#include "framework/kernels/launch.h"

namespace tapeformer {
namespace {

void add_to(const Execution& on, const Tensor& from, const Tensor& to) {
  if (to.dtype() == Dtype::f32) kernels::launch<kernels::AddTo, float>(on, from.matrix<const float>(), to.matrix<float>());
  else kernels::launch<kernels::AddTo, double>(on, from.matrix<const double>(), to.matrix<double>());
}

template <class T>
void fill(const Tensor& t, double value) {
  for (T& x : t.span<T>()) x = static_cast<T>(value);
}

}  // namespace

int Tape::record(const char* op, Backward backward) {
  nodes_.push_back({op, {}, std::move(backward)});
  return static_cast<int>(nodes_.size()) - 1;
}

void Tape::add_gradient(int node, Tensor gradient) {
  if (node == no_node) return;
  Tensor& held = nodes_[static_cast<size_t>(node)].gradient;
  if (!held.defined()) {
    held = std::move(gradient);
    return;
  }
  require(held.shape() == gradient.shape(), "{}: gradients of shapes {} and {}", nodes_[static_cast<size_t>(node)].op, held.shape().text(),
          gradient.shape().text());
  if (!held.unique()) held = held.clone();
  add_to(on_, gradient, held);
}

GradientTarget Tape::gradient_target(int node, Dtype dtype, Shape shape) {
  require(node != no_node, "a gradient target for a variable that is not recorded");
  Tensor& held = nodes_[static_cast<size_t>(node)].gradient;
  if (!held.defined()) {
    held = Tensor(dtype, shape);
    return {held, kernels::Write::overwrite};
  }
  if (!held.unique()) held = held.clone();
  return {held, kernels::Write::add};
}

void Tape::note_work(std::string_view op, const Work& work) {
  const int last = static_cast<int>(nodes_.size()) - 1;
  if (works_.empty() || works_.back().node < last) works_.push_back({last, op, work});
}

void Tape::backward(const Variable& output, double seed) {
  require(output.node != no_node, "backward from a variable that is not on the tape");
  Tensor ones(output.value.dtype(), output.value.shape());
  if (ones.dtype() == Dtype::f32) fill<float>(ones, seed);
  else fill<double>(ones, seed);
  add_gradient(output.node, std::move(ones));
  for (size_t i = static_cast<size_t>(output.node) + 1; i-- > 0;) {
    if (nodes_[i].gradient.defined()) run(i);
    nodes_[i].backward = nullptr;
  }
}

void Tape::run(size_t i) {
  Node& node = nodes_[i];
  while (!works_.empty() && works_.back().node > static_cast<int>(i)) works_.pop_back();
  const bool known = !works_.empty() && works_.back().node == static_cast<int>(i);
  const ProfileScope scope(profile_, known ? works_.back().op : node.op, Pass::backward, known ? works_.back().work : Work{});
  // Moved out, so that a gradient passed on unchanged (a residual) is unique once this node is done with it.
  const Tensor gradient = std::move(node.gradient);
  node.gradient = {};
  node.backward(*this, gradient);
  node.backward = nullptr;  // frees what the closure saved
}

}  // namespace tapeformer
