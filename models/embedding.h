// SPDX-License-Identifier: Apache-2.0
// The entrance of an encoder: tokens by a table or numeric rows by a linear layer, plus positions, plus dropout.
#pragma once
#include <optional>

#include "framework/data/dataset.h"
#include "framework/ops/embedding.h"
#include "models/settings.h"

namespace tapeformer::models {

class Embedding {
 public:
  Embedding(const nn::Builder&, const std::string& name, const ModelSettings&, const data::Description&);
  Variable forward(Context&, const data::Batch&);  // [T,C]
  void visit(nn::Visitor&);
  double forward_flops(int64_t rows) const;

 private:
  std::string name_;
  PositionType position_;
  double dropout_;
  std::optional<Parameter> tokens_;      // [V,C]
  std::optional<nn::Linear> projection_;  // F -> C
  std::optional<Parameter> positions_;   // [max_length,C]
  ops::Sinusoids sinusoids_;
};

}  // namespace tapeformer::models
