// SPDX-License-Identifier: Apache-2.0
#include "models/attention/random_features.h"

#include <cmath>
#include <vector>

namespace tapeformer::models {
namespace {

using Columns = std::vector<std::vector<double>>;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Q of the factorisation QR with a positive diagonal of R, by Gram-Schmidt: twice, so that rounding leaves no trace.
void orthonormalise(Columns& columns) {
  for (size_t c = 0; c < columns.size(); ++c) {
    for (int pass = 0; pass < 2; ++pass)
      for (size_t before = 0; before < c; ++before) {
        const double along = dot(columns[before], columns[c]);
        for (size_t i = 0; i < columns[c].size(); ++i) columns[c][i] -= along * columns[before][i];
      }
    const double length = std::sqrt(dot(columns[c], columns[c]));
    for (double& v : columns[c]) v /= length;
  }
}

void set(const Tensor& t, int64_t row, int64_t column, double value) {
  if (t.dtype() == Dtype::f64) t.matrix<double>().row(row)[column] = value;
  else t.matrix<float>().row(row)[column] = static_cast<float>(value);
}

}  // namespace

void fill_random_features(const FeatureDraws& draws, bool orthogonal, const Tensor& omega) {
  const auto rows = static_cast<uint32_t>(omega.shape()[0]), dims = static_cast<uint32_t>(omega.shape()[1]);
  if (!orthogonal) {
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t c = 0; c < dims; ++c) set(omega, r, c, draws.rows.gaussian(r, c));
    return;
  }
  Columns block(dims, std::vector<double>(dims));
  for (uint32_t first = 0; first < rows; first += dims) {
    for (uint32_t r = 0; r < dims; ++r)
      for (uint32_t c = 0; c < dims; ++c) block[c][r] = draws.rows.gaussian(first + r, c);
    orthonormalise(block);
    // The rows of Q' are its columns.
    for (uint32_t i = 0; i < dims && first + i < rows; ++i) {
      double square = 0;
      for (uint32_t c = 0; c < dims; ++c) square += std::pow(draws.lengths.gaussian(draws.lengths_from + first + i, c), 2);
      for (uint32_t c = 0; c < dims; ++c) set(omega, first + i, c, block[i][c] * std::sqrt(square));
    }
  }
}

}  // namespace tapeformer::models
