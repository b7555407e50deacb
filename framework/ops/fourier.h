// SPDX-License-Identifier: Apache-2.0
// The real part of the Fourier transform of each sequence over positions and channels.
#pragma once
#include <map>

#include "framework/autograd/context.h"
#include "framework/kernels/fourier.h"

namespace tapeformer::ops {

// The constants of the transforms over some number of channels, made when a length is first met and kept while they fit a bound. For one
// thread at a time.
class FourierTables {
 public:
  explicit FourierTables(int64_t channels) : channels_(std::make_shared<const std::vector<float>>(fourier_channels(channels))) {}
  FourierPlanPointer plan(int32_t length);
  const std::shared_ptr<const std::vector<float>>& channels() const { return channels_; }

 private:
  std::shared_ptr<const std::vector<float>> channels_;
  std::map<int32_t, FourierPlanPointer> plans_;
  size_t bytes_ = 0;
};

// y = Re(F_N x F_C) for each sequence of x [T,C], without a factor: F_N over its rows and F_C over its channels. `length` 0: N is the
// sequence's own number of rows; else each sequence is continued with zeros up to N = length and the first rows of the result are kept.
Variable fourier(Context&, const Variable& x, const Packing&, FourierTables&, int32_t length = 0);

}  // namespace tapeformer::ops
