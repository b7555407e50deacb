// SPDX-License-Identifier: Apache-2.0
// What a model's buffers hold, kept to be put back.
#pragma once
#include <vector>

#include "framework/nn/visitor.h"

namespace tapeformer::train {

class KeptBuffers {
 public:
  explicit KeptBuffers(std::vector<nn::Buffer*> buffers) : buffers_(std::move(buffers)) {
    for (const nn::Buffer* b : buffers_) copies_.push_back(b->value.clone());
  }
  void put_back() const {
    for (size_t i = 0; i < copies_.size(); ++i) buffers_[i]->value.copy_from(copies_[i]);
  }

 private:
  std::vector<nn::Buffer*> buffers_;
  std::vector<Tensor> copies_;
};

// Puts them back at the end of a scope.
class UnchangedBuffers {
 public:
  explicit UnchangedBuffers(std::vector<nn::Buffer*> buffers) : kept_(std::move(buffers)) {}
  ~UnchangedBuffers() { kept_.put_back(); }
  UnchangedBuffers(const UnchangedBuffers&) = delete;
  UnchangedBuffers& operator=(const UnchangedBuffers&) = delete;

 private:
  KeptBuffers kept_;
};

}  // namespace tapeformer::train
