// SPDX-License-Identifier: Apache-2.0
#include "models/head.h"

#include "framework/ops/activation.h"
#include "framework/ops/dropout.h"

namespace tapeformer::models {

Head::Head(const nn::Builder& build, const std::string& name, const ModelSettings& s, int64_t outputs)
    : name_(name),
      dropout_(s.head_dropout),
      output_(build, name + ".output", s.head_hidden > 0 ? s.head_hidden : s.dim, outputs) {
  if (s.head_hidden > 0) hidden_.emplace(build, name + ".hidden", s.dim, s.head_hidden);
}

Variable Head::forward(Context& context, const Variable& x, const Packing& rows) {
  Variable h = hidden_ ? ops::activation(context, Activation::relu, hidden_->forward(context, x)) : x;
  h = ops::dropout(context, h, context.dropout(dropout_, "dropout", name_, rows));
  const Variable y = output_.forward(context, h);
  if (context.inspect) context.inspect(name_, y.value);
  return y;
}

void Head::visit(nn::Visitor& visitor) {
  if (hidden_) hidden_->visit(visitor);
  output_.visit(visitor);
}

nn::Cost Head::cost(double rows) const {
  double products = static_cast<double>(output_.in() * output_.out());
  int64_t parameters = (output_.in() + 1) * output_.out();
  if (hidden_) {
    products += static_cast<double>(hidden_->in() * hidden_->out());
    parameters += (hidden_->in() + 1) * hidden_->out();
  }
  return {name_, parameters, 2 * rows * products, 4 * rows * products, 4 * rows * static_cast<double>(output_.in())};
}

}  // namespace tapeformer::models
