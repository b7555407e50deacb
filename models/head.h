// SPDX-License-Identifier: Apache-2.0
// From rows [M,C] to outputs [M,K]: an optional hidden layer with ReLU, dropout, and a linear layer.
#pragma once
#include <optional>

#include "framework/nn/model.h"
#include "models/settings.h"

namespace tapeformer::models {

class Head {
 public:
  Head(const nn::Builder&, const std::string& name, const ModelSettings&, int64_t outputs);
  // `rows` gives the coordinates of dropout: one entry for each row of x.
  Variable forward(Context&, const Variable& x, const Packing& rows);
  void visit(nn::Visitor&);
  nn::Cost cost(double rows) const;

 private:
  std::string name_;
  double dropout_;
  std::optional<nn::Linear> hidden_;
  nn::Linear output_;
};

}  // namespace tapeformer::models
