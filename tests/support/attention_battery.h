// SPDX-License-Identifier: Apache-2.0
// What every attention must keep, in every form: it equals its dense oracle, its gradients are right, a sequence's result does not depend
// on its batch mates or on the number of threads, any length works. The oracle is built from what the variant states from its formula and
// shares no code with plans and kernels.
#pragma once
#include "models/attention/layers.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"

namespace tapeformer::test {

struct AttentionCase {
  std::string name;
  models::ModelSettings settings;
  int layer = 0;
  // For formulas that lose digits themselves: multiplies the tolerances.
  double value_slack = 1, gradient_slack = 1;
};

// Of the small model of model_fixture.h, with overrides such as "model.attention.type=local".
AttentionCase attention_case(const std::string& name, const std::vector<std::string>& overrides);

// The attention of one layer, named "attention", as the config makes it. Sequences have at most 300 rows.
std::unique_ptr<models::Attention> make_attention(const AttentionCase&, Dtype, double dropout = 0);
// Packed rows as the attention gets them: each sequence has its extra rows in front.
Packing packing_for(const AttentionCase&, std::vector<int32_t> lengths, uint32_t first_id = 0);
// In evaluation, with nothing at the entrance and zeros as residual.
Tensor attention_output(models::Attention&, const TestDevice&, const Tensor& x, const Packing&, Structures* = nullptr);
// One pass over one sequence of n rows in evaluation, in double on the reference device, with the structures it chose.
struct AttentionPass {
  std::unique_ptr<models::Attention> attention;
  nn::ModelState state;
  Structures structures;
  Matrix x, y;

  AttentionPass(const AttentionCase&, int32_t n);
  Matrix parameter(const std::string& name) const;
  // x W' + b of one of the projections.
  Matrix projected(const std::string& part) const;
};
// The gradients of x and of the parameters of a fixed sum of the outputs and losses, in training; parameters keep theirs.
std::vector<Tensor> gradients_of(models::Attention&, const Execution&, Dtype, const Tensor& x, const Packing&);
bool all_finite(const Tensor&);
// The same from the formulas; `structures` are those that a pass chose.
Matrix dense_attention(models::Attention&, const Matrix& x, const Packing&, const Structures* = nullptr);

// What a probability is multiplied by; by head, query and key, counted in their sequence.
using Kept = std::function<double(int head, int32_t i, int32_t j)>;
// Training in which a probability of the layer "attention" is dropped for 0.3, and which are kept of the sample of that number.
constexpr uint32_t dropped_sample = 6;
Context dropping(const TestDevice&);
Kept kept_by(std::string purpose);
// softmax(q k' / sqrt(D)) v for each of the heads.
Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v, int heads, const Kept& kept = {});

void check_oracle(const AttentionCase&);
void check_batch_mates(const AttentionCase&);
void check_nan_stays(const AttentionCase&);
void check_gradients(const AttentionCase&);
void check_devices_agree(const AttentionCase&);
void check_threads(const AttentionCase&);
// In training a probability is dropped by its query's and its key's place, wherever the pair stands; `row` says for (head, query, key) what
// is drawn instead, if it is: the purpose, and which row the key's place is a column of. For heads with dense weights; not part of
// check_attention, as some methods drop slots.
using DropoutRow = std::function<std::pair<const char*, int32_t>(const Structures&, int head, int32_t i, int32_t j)>;
void check_dropout(const AttentionCase&, const DropoutRow& row = {});
// All others.
void check_attention(const AttentionCase&);

}  // namespace tapeformer::test
