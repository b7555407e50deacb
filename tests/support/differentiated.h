// SPDX-License-Identifier: Apache-2.0
// An attention in training as a scalar function of its input and parameters, for gradients and for differences of it.
#pragma once
#include "framework/nn/visitor.h"
#include "models/attention/attention.h"
#include "tests/support/matrix.h"
#include "tests/support/random_tensor.h"

namespace tapeformer::test {

// The scalar sum of weights * y and the auxiliary losses, and its gradients. A row's weights are those of its place in its sequence.
class Differentiated {
 public:
  Differentiated(models::Attention& attention, const Execution& on, Dtype dtype, const Packing& packing)
      : attention_(attention), on_(on), dtype_(dtype), packing_(packing) {
    attention.visit(state);
  }

  // What is summed, number by number: a difference of two sums would lose the digits that they share.
  std::vector<double> terms(const Tensor& x) {
    Context context = this->context(nullptr);
    const models::AttentionOutput out = run(context, {x, no_node});
    std::vector<double> all = Matrix(out.x.value).values;
    const Matrix w(weights(out.x.value.shape()[1]));
    for (size_t i = 0; i < all.size(); ++i) all[i] *= w.values[i];
    for (const ops::Loss& extra : out.auxiliary) all.push_back(Matrix(extra.sum.value).values[0]);
    return all;
  }

  // Returns the gradient of x; those of the parameters are added to theirs.
  Tensor backward(const Tensor& x) {
    Tape tape(on_);
    Context context = this->context(&tape);
    Tensor dx = Tensor::zeros(dtype_, x.shape());
    const int node = tape.record("input", [&](Tape&, const Tensor& gradient) { dx = gradient.clone(); });
    const models::AttentionOutput out = run(context, {x, node});
    const int all = tape.record("sum", [&](Tape& t, const Tensor&) {
      t.add_gradient(out.x.node, weights(out.x.value.shape()[1]));
      for (const ops::Loss& extra : out.auxiliary) {
        Tensor one(dtype_, {1});
        if (dtype_ == Dtype::f64) one.data<double>()[0] = 1;
        else one.data<float>()[0] = 1;
        t.add_gradient(extra.sum.node, one);
      }
    });
    tape.backward({Tensor::zeros(dtype_, {1}), all});
    return dx;
  }

  nn::ModelState state;
  Structures* structures = nullptr;

 private:
  Tensor weights(int64_t columns) const {
    const Tensor by_place = random_tensor(dtype_, {packing_.longest(), columns}, 15), out(dtype_, {packing_.rows(), columns});
    for (int32_t r = 0; r < packing_.rows(); ++r) out.rows(r, 1).copy_from(by_place.rows(packing_.positions()[static_cast<size_t>(r)], 1));
    return out;
  }
  Context context(Tape* tape) const {
    Context c{.on = on_, .tape = tape, .mode = Mode::train, .seed = 9, .step = 3, .dtype = dtype_};
    c.structures = structures;
    return c;
  }
  models::AttentionOutput run(Context& context, const Variable& x) const {
    return attention_.forward(context, x, packing_, {.residual = {Tensor::zeros(dtype_, x.value.shape()), no_node}});
  }

  models::Attention& attention_;
  Execution on_;
  Dtype dtype_;
  const Packing& packing_;
};

}  // namespace tapeformer::test
