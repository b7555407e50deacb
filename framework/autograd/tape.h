// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation on a tape: a vector of nodes, walked backwards once. A tape lives for one step and owns all its closures.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "framework/autograd/profile.h"
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer {

constexpr int no_node = -1;

// A tensor and its node on the tape (none when nothing is recorded or no gradient is wanted).
struct Variable {
  Tensor value;
  int node = no_node;
};

// A learned tensor under its dotted name. Its gradient has the value's shape, is added to by every backward, and is cleared by the trainer.
struct Parameter {
  std::string name;
  Tensor value;
  Tensor gradient;
  bool trainable = true;
  // The parameter of which rows from first_row on are its start; nameless: it has a start of its own.
  struct Original {
    std::string name;
    int64_t first_row = 0;
  } copy_of = {};
};

// Where a kernel puts a gradient: into a fresh array, or on top of what other readers of the variable have put there already.
struct GradientTarget {
  Tensor tensor;
  kernels::Write write;
};

class Tape {
 public:
  // Receives the gradient of the node's value. Holds input variables and raw tensors, never the node's own variable.
  using Backward = std::function<void(Tape&, const Tensor& gradient)>;

  // With a profile, backward reports every closure to it.
  explicit Tape(const Execution& on, Profile* profile = nullptr) : on_(on), profile_(profile) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Appends a node; `op` is a string literal.
  int record(const char* op, Backward backward);
  // Adds to a node's gradient; the tensor may be shared with others (it is copied before it is ever written to). No effect for no_node.
  void add_gradient(int node, Tensor gradient);
  // The same for kernels that write or add by themselves: [dtype, shape] is the variable's.
  GradientTarget gradient_target(int node, Dtype dtype, Shape shape);
  // Walks the nodes from `output` backwards; its gradient starts as `seed` (the shape of output's value, all ones times seed).
  void backward(const Variable& output, double seed = 1);

  // For the profile: the last node belongs to `op` (a string literal) and its closure does this work. The first to say it is right.
  void note_work(std::string_view op, const Work& work);

  const Execution& execution() const { return on_; }
  size_t size() const { return nodes_.size(); }

 private:
  struct Node {
    const char* op;
    Tensor gradient;
    Backward backward;
  };
  struct NodeWork {
    int node;
    std::string_view op;
    Work work;
  };
  void run(size_t node);

  Execution on_;
  Profile* profile_;
  std::vector<Node> nodes_;
  std::vector<NodeWork> works_;  // ascending; empty without a profile
};

}  // namespace tapeformer
