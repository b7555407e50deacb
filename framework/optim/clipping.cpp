// SPDX-License-Identifier: Apache-2.0
// Norms are sums over fixed pieces added in order, so the bytes do not depend on who computed which piece.
#include "framework/optim/clipping.h"

#include <cmath>

#include "framework/core/finite.h"
#include "framework/kernels/launch.h"
#include "framework/kernels/optimizer_step.h"
#include "framework/optim/pieces.h"

namespace tapeformer::optim {
namespace {

bool has_gradient(const Parameter& p) { return p.trainable && p.gradient.defined(); }

double sum_of_squares(const Execution& on, const Tensor& gradient, int64_t first, int64_t count) {
  double sum = 0;
  if (gradient.dtype() == Dtype::f32) kernels::launch<kernels::SumOfSquares, float>(on, count, gradient.span<float>().data() + first, &sum);
  else kernels::launch<kernels::SumOfSquares, double>(on, count, gradient.span<double>().data() + first, &sum);
  return sum;
}

}  // namespace

double gradient_norm(const Execution& on, const std::vector<Parameter*>& parameters) {
  std::vector<Parameter*> counted;
  for (Parameter* p : parameters) {
    if (!has_gradient(*p)) continue;
    require(p->gradient.shape() == p->value.shape(), "the gradient of '{}' is {}, the parameter {}", p->name, p->gradient.shape().text(),
            p->value.shape().text());
    counted.push_back(p);
  }
  const std::vector<Piece> pieces = pieces_of(counted);
  std::vector<double> sums(pieces.size());
  for_each_piece(on, pieces,
                 [&](size_t i) { sums[i] = sum_of_squares(on, counted[pieces[i].parameter]->gradient, pieces[i].first, pieces[i].count); });
  double total = 0;
  for (const double s : sums) total += s;
  return std::sqrt(total);
}

GradientScale gradient_scale(double summed_norm, double count, double clip_norm) {
  if (count == 0) return {};
  GradientScale g{summed_norm / count, 1 / count};
  if (clip_norm > 0 && g.norm > clip_norm) g.scale *= clip_norm / g.norm;
  return g;
}

std::vector<std::string> nonfinite_gradients(const std::vector<Parameter*>& parameters) {
  std::vector<std::string> names;
  for (const Parameter* p : parameters) {
    if (has_gradient(*p) && !all_finite(p->gradient)) names.push_back(p->name);
  }
  return names;
}

}  // namespace tapeformer::optim
