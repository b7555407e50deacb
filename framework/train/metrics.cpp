// SPDX-License-Identifier: Apache-2.0
// The formulas of metrics.h.
#include "framework/train/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/data/batch.h"
#include "framework/kernels/cross_entropy.h"

namespace tapeformer::train {
namespace {

// The losses and metrics pass over what the data marks.
static_assert(data::ignored_target == kernels::ignored_target);

std::optional<double> finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

std::optional<double> ratio(double a, double b) { return b == 0 ? std::nullopt : std::optional(a / b); }

// The log-odds of every class of a row, log(p_k / (1 - p_k)) = x_k minus the log-sum-exp of the others. The others are summed in the order
// of their values, so that rows which differ only in the order of their logits tie to the bit.
class LogOdds {
 public:
  explicit LogOdds(int classes) : order_(classes), exp_(classes), below_(classes + 1), above_(classes + 1), odds_(classes) {}

  template <class T>
  const std::vector<double>& of(const T* x) {
    const size_t last = order_.size() - 1;
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [x](size_t a, size_t b) { return x[a] < x[b]; });
    const auto value = [&](size_t place) { return static_cast<double>(x[order_[place]]); };
    const double largest = value(last), next = value(last - 1);
    for (size_t i = 0; i <= last; ++i) {
      exp_[i] = std::exp(value(i) - largest);
      below_[i + 1] = below_[i] + exp_[i];
    }
    for (size_t i = last + 1; i-- > 0;) above_[i] = above_[i + 1] + exp_[i];
    size_t first_equal = 0;
    for (size_t i = 0; i <= last; ++i) {
      if (value(i) != value(first_equal)) first_equal = i;
      odds_[order_[i]] = value(i) - largest - std::log(below_[first_equal] + above_[first_equal + 1]);
    }
    if (largest == next) return odds_;
    // Seen from the largest logit, the others may vanish: they are measured from the next one.
    double others = 0;
    for (size_t i = 0; i < last; ++i) others += std::exp(value(i) - next);
    odds_[order_[last]] = largest - next - std::log(others);
    return odds_;
  }

 private:
  std::vector<size_t> order_;
  std::vector<double> exp_, below_, above_, odds_;  // below_[i]: sum of the exps before place i; above_[i]: from place i on
};

struct Scored {
  double score;
  bool positive;
};

// Half-pairs won, counted in whole numbers over groups of equal scores: 2 for a negative below, 1 for a negative beside.
std::optional<double> pairs_in_order(std::vector<Scored> all) {
  std::sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) { return a.score < b.score; });
  int64_t won = 0, below = 0, positives = 0;
  for (size_t first = 0; first < all.size();) {
    size_t last = first;
    int64_t beside = 0, here = 0;
    for (; last < all.size() && all[last].score == all[first].score; ++last) ++(all[last].positive ? here : beside);
    won += here * (2 * below + beside);
    below += beside;
    positives += here;
    first = last;
  }
  return ratio(static_cast<double>(won) / 2, static_cast<double>(positives) * static_cast<double>(below));
}

template <class F>
void with_values(const Tensor& t, const F& f) {
  if (t.dtype() == Dtype::f32) f(t.matrix<const float>());
  else f(t.matrix<const double>());
}

// The first of the largest.
template <class T>
int64_t prediction(const T* row, int64_t classes) {
  return std::max_element(row, row + classes) - row;
}

}  // namespace

bool higher_is_better(std::string_view metric) { return metric != "loss" && metric != "rmse" && metric != "mae"; }

void MeanLoss::add(double sum, double count) {
  sum_ += sum;
  count_ += count;
}

std::optional<double> MeanLoss::mean() const { return ratio(sum_, count_); }

Correct count_correct(const Tensor& logits, const Tensor& targets) {
  const int32_t* t = targets.data<int32_t>();
  Correct out;
  with_values(logits, [&](const auto& x) {
    for (int64_t r = 0; r < x.rows; ++r) {
      if (t[r] == kernels::ignored_target) continue;
      ++out.targets;
      out.correct += prediction(x.row(r), x.columns) == t[r];
    }
  });
  return out;
}

ClassificationMetrics::ClassificationMetrics(int classes, Scores scores)
    : classes_(classes),
      keep_(classes == 1 ? Scores::drop : scores),
      confusion_(static_cast<size_t>(classes) * static_cast<size_t>(classes)) {
  require(classes >= 1, "classification metrics need a class, got {}", classes);
}

void ClassificationMetrics::add(const Tensor& logits, const Tensor& targets) {
  require(logits.shape().rank() == 2 && logits.shape()[1] == classes_ && targets.shape() == Shape{logits.shape()[0]},
          "metrics: logits {} and targets {} for {} classes", logits.shape().text(), targets.shape().text(), classes_);
  const int32_t* t = targets.span<int32_t>().data();
  for (int64_t r = 0; r < logits.shape()[0]; ++r)
    require(t[r] == kernels::ignored_target || (t[r] >= 0 && t[r] < classes_), "metrics: target {} in row {}, expected 0 to {}", t[r], r,
            classes_ - 1);
  if (logits.dtype() == Dtype::f32) add_rows<float>(logits, t);
  else add_rows<double>(logits, t);
}

template <class T>
void ClassificationMetrics::add_rows(const Tensor& logits, const int32_t* targets) {
  const View<const T> x = logits.matrix<const T>();
  LogOdds odds(classes_);
  for (int64_t r = 0; r < x.rows; ++r) {
    if (targets[r] == kernels::ignored_target) continue;
    const T* row = x.row(r);
    ++rows_;
    if (!std::all_of(row, row + classes_, [](T v) { return std::isfinite(v); })) {
      nonfinite_ = true;
      continue;
    }
    const auto predicted = static_cast<size_t>(prediction(row, classes_));
    ++confusion_[static_cast<size_t>(targets[r]) * static_cast<size_t>(classes_) + predicted];
    if (keep_ == Scores::drop) continue;
    targets_.push_back(targets[r]);
    const std::vector<double>& scores = odds.of(row);
    scores_.insert(scores_.end(), scores.begin() + (classes_ == 2), scores.end());
  }
}

std::vector<ClassificationMetrics::OfClass> ClassificationMetrics::per_class() const {
  const auto classes = static_cast<size_t>(classes_);
  std::vector<OfClass> all(classes);
  for (size_t t = 0; t < classes; ++t)
    for (size_t p = 0; p < classes; ++p) {
      all[t].support += confusion_[t * classes + p];
      all[p].predicted += confusion_[t * classes + p];
    }
  if (undefined()) return all;
  for (size_t k = 0; k < classes; ++k) {
    const auto hits = static_cast<double>(confusion_[k * classes + k]);
    OfClass& c = all[k];
    c.precision = ratio(hits, static_cast<double>(c.predicted));
    c.recall = ratio(hits, static_cast<double>(c.support));
    c.f1 = ratio(2 * hits, static_cast<double>(c.support + c.predicted));
  }
  return all;
}

std::optional<double> ClassificationMetrics::accuracy() const {
  if (undefined()) return std::nullopt;
  int64_t hits = 0;
  for (size_t k = 0; k < confusion_.size(); k += static_cast<size_t>(classes_) + 1) hits += confusion_[k];
  return static_cast<double>(hits) / static_cast<double>(rows_);
}

std::optional<double> ClassificationMetrics::f1_macro() const {
  double sum = 0, counted = 0;
  for (const OfClass& c : per_class())
    if (c.f1) {
      sum += *c.f1;
      ++counted;
    }
  return ratio(sum, counted);
}

std::optional<double> ClassificationMetrics::mcc() const {
  if (undefined()) return std::nullopt;
  const auto n = static_cast<double>(rows_);
  double hits = 0, agree = 0, targets = 0, predictions = 0;
  int seen = 0, predicted = 0, k = 0;
  for (const OfClass& c : per_class()) {
    const auto t = static_cast<double>(c.support), p = static_cast<double>(c.predicted);
    hits += static_cast<double>(confusion_[static_cast<size_t>(k) * static_cast<size_t>(classes_ + 1)]);
    agree += t * p;
    targets += t * t;
    predictions += p * p;
    seen += c.support > 0;
    predicted += c.predicted > 0;
    ++k;
  }
  if (seen < 2 || predicted < 2) return std::nullopt;
  return (hits * n - agree) / (std::sqrt((n * n - targets) * (n * n - predictions)));
}

std::optional<double> ClassificationMetrics::auroc() const {
  if (undefined() || keep_ == Scores::drop) return std::nullopt;
  const size_t columns = classes_ == 2 ? 1 : static_cast<size_t>(classes_);
  double sum = 0;
  for (size_t c = 0; c < columns; ++c) {
    const size_t k = classes_ == 2 ? 1 : c;
    std::vector<Scored> all(targets_.size());
    for (size_t r = 0; r < all.size(); ++r) all[r] = {scores_[r * columns + c], static_cast<size_t>(targets_[r]) == k};
    const std::optional<double> share = pairs_in_order(std::move(all));
    if (!share) return std::nullopt;
    sum += *share;
  }
  return sum / static_cast<double>(columns);
}

std::vector<Metric> ClassificationMetrics::values() const {
  std::vector<Metric> all{{"accuracy", accuracy()}, {"f1_macro", f1_macro()}, {"mcc", mcc()}};
  if (keep_ == Scores::keep) all.push_back({"auroc", auroc()});
  return all;
}

RegressionMetrics::RegressionMetrics(int outputs) : outputs_(static_cast<size_t>(std::max(outputs, 0))) {
  require(outputs >= 1, "regression metrics need one output or more, got {}", outputs);
}

void RegressionMetrics::add(const Tensor& values, const Tensor& targets) {
  require(values.shape() == targets.shape() && values.shape().rank() == 2 && values.shape()[1] == static_cast<int64_t>(outputs_.size()),
          "metrics: values {} and targets {} for {} outputs", values.shape().text(), targets.shape().text(), outputs_.size());
  with_values(values, [&](auto x) {
    with_values(targets, [&](auto y) {
      for (int64_t r = 0; r < x.rows; ++r) {
        ++rows_;
        for (size_t k = 0; k < outputs_.size(); ++k) {
          const double target = y.row(r)[k], error = x.row(r)[k] - target;
          Output& o = outputs_[k];
          o.nonfinite |= !std::isfinite(error);
          o.squared += error * error;
          o.absolute += std::abs(error);
          const double before = target - o.mean;
          o.mean += before / static_cast<double>(rows_);
          o.deviation += before * (target - o.mean);
        }
      }
    });
  });
}

std::optional<double> RegressionMetrics::rmse() const {
  if (undefined()) return std::nullopt;
  double sum = 0;
  for (const Output& o : outputs_) sum += o.squared;
  return finite(std::sqrt(sum / static_cast<double>(rows_) / static_cast<double>(outputs_.size())));
}

std::optional<double> RegressionMetrics::mae() const {
  if (undefined()) return std::nullopt;
  double sum = 0;
  for (const Output& o : outputs_) sum += o.absolute;
  return finite(sum / static_cast<double>(rows_) / static_cast<double>(outputs_.size()));
}

std::optional<double> RegressionMetrics::r2() const {
  if (undefined()) return std::nullopt;
  double sum = 0;
  for (const Output& o : outputs_) {
    if (o.deviation == 0) return std::nullopt;
    sum += 1 - o.squared / o.deviation;
  }
  return finite(sum / static_cast<double>(outputs_.size()));
}

std::vector<Metric> RegressionMetrics::values() const { return {{"rmse", rmse()}, {"mae", mae()}, {"r2", r2()}}; }

std::vector<Metric> RegressionMetrics::values_of(int output) const {
  return RegressionMetrics({outputs_.at(static_cast<size_t>(output))}, rows_).values();
}

}  // namespace tapeformer::train
