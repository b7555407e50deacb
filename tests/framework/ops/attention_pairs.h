// SPDX-License-Identifier: Apache-2.0
// Attention over any set of pairs: which pairs are allowed, written out one by one, plans of several parts made for them, and the dense
// formula.
#pragma once
#include <random>
#include <vector>

#include "framework/core/packing.h"
#include "framework/ops/attention.h"
#include "tests/support/matrix.h"

namespace tapeformer::test {

// The pairs of one head of one sequence: the part that a pair stands in, -1 where it isn't allowed.
struct Pairs {
  int queries = 0, keys = 0;
  std::vector<int> part;
  int& at(int i, int j) { return part[static_cast<size_t>(i * keys + j)]; }
  int at(int i, int j) const { return part[static_cast<size_t>(i * keys + j)]; }
};

struct PairsForm {
  std::vector<int32_t> queries, keys;  // lengths; in self attention the same
  int heads = 2, head_dim = 3;
  int parts = 1;
  double density = 0.3;  // of allowed pairs
  bool for_each_head = true;
  bool listed = false;  // plans list rows, permuted, and not all of them
  double dropout = 0;
  uint32_t seed = 1;
};

struct AttentionPairs {
  explicit AttentionPairs(const PairsForm& form);

  // o_i = sum over allowed j of M_ij softmax_j(0.3 <q_i, k_j>) v_j.
  Matrix oracle(const Matrix& q, const Matrix& k, const Matrix& v) const;
  ops::AttentionSettings settings() const;
  const Pairs& of(int b, int h) const { return pairs[static_cast<size_t>(b * form.heads + (form.for_each_head ? h : 0))]; }

  PairsForm form;
  Packing queries, keys;
  std::vector<Pairs> pairs;  // [B * heads]
  std::vector<ops::AttentionPart> parts;
};

}  // namespace tapeformer::test
