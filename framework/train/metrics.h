// SPDX-License-Identifier: Apache-2.0
// Metrics as accumulators: add() the rows of each batch, then ask. They count or sum row by row in the order of the rows, so the value is
// the same for any split into batches. A value that is not defined is nullopt, never 0 or 1; so is every value after a row whose outputs
// are not finite.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/tensor.h"

namespace tapeformer::train {

struct Metric {
  std::string name;  // accuracy, f1_macro, mcc, auroc, rmse, mae, r2
  std::optional<double> value;
};

// False for loss, rmse, mae.
bool higher_is_better(std::string_view metric);

// The mean loss from sums and their counts (see ops::Loss); undefined while the counts are 0.
class MeanLoss {
 public:
  void add(double sum, double count);
  std::optional<double> mean() const;
  double count() const { return count_; }

 private:
  double sum_ = 0, count_ = 0;
};

enum class Scores {
  keep,  // one double a row and class (a row where there are two classes), for the AUROC
  drop,
};

// Rows whose largest output, the first of equals, is their target, of those that have one: an accuracy without the other metrics.
struct Correct {
  int64_t correct = 0, targets = 0;
};
Correct count_correct(const Tensor& logits, const Tensor& targets);

// Classes of sequences, or of tokens (kernels::ignored_target is left out).
class ClassificationMetrics {
 public:
  explicit ClassificationMetrics(int classes, Scores scores = Scores::keep);
  // logits [M,K], or anything whose softmax is the probabilities; targets [M] int32. The prediction is the largest logit, the first of
  // equals.
  void add(const Tensor& logits, const Tensor& targets);

  int64_t rows() const { return rows_; }
  int classes() const { return classes_; }
  // [K * K], the target's class first.
  const std::vector<int64_t>& confusion() const { return confusion_; }

  std::optional<double> accuracy() const;
  // The mean of 2 TP / (2 TP + FP + FN) over classes. A class that is neither a target nor a prediction is left out; one that is a target
  // but never predicted, or the reverse, counts as 0.
  std::optional<double> f1_macro() const;
  // Matthews' correlation in the form for K classes (Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation
  // coefficient"); undefined when all targets or all predictions are one class.
  std::optional<double> mcc() const;
  // The share of (positive, negative) pairs that the score puts in the right order, ties as half; one class against the rest, averaged
  // over the classes. The score of a class is its log-odds, which does not saturate. Undefined when a class is absent from the targets.
  std::optional<double> auroc() const;

  struct OfClass {
    int64_t support = 0, predicted = 0;
    std::optional<double> precision, recall, f1;  // undefined where there is nothing to divide by
  };
  std::vector<OfClass> per_class() const;
  // Those above in their order; the AUROC only where scores are kept.
  std::vector<Metric> values() const;

 private:
  template <class T>
  void add_rows(const Tensor& logits, const int32_t* targets);
  bool undefined() const { return rows_ == 0 || nonfinite_; }

  int classes_;
  Scores keep_;
  int64_t rows_ = 0;
  bool nonfinite_ = false;
  std::vector<int64_t> confusion_;
  std::vector<int32_t> targets_;  // only with scores
  std::vector<double> scores_;    // [rows, K], or [rows] of class 1 where K = 2
};

class RegressionMetrics {
 public:
  explicit RegressionMetrics(int outputs);
  // Both [M,K], float32 or float64.
  void add(const Tensor& values, const Tensor& targets);

  int64_t rows() const { return rows_; }
  // Over all rows and outputs.
  std::optional<double> rmse() const;
  std::optional<double> mae() const;
  // 1 - squared error / squared deviation of the targets from their mean, averaged over the outputs; undefined when an output's target is
  // constant (so also for a single row).
  std::optional<double> r2() const;
  std::vector<Metric> values() const;
  int outputs() const { return static_cast<int>(outputs_.size()); }
  // The same of one output alone.
  std::vector<Metric> values_of(int output) const;

 private:
  struct Output {
    double squared = 0, absolute = 0;  // summed errors
    double mean = 0, deviation = 0;    // of the targets: mean, and the sum of squares around it (Welford 1962)
    bool nonfinite = false;
  };
  RegressionMetrics(std::vector<Output> outputs, int64_t rows) : outputs_(std::move(outputs)), rows_(rows) {}
  bool undefined() const {
    return rows_ == 0 || std::any_of(outputs_.begin(), outputs_.end(), [](const Output& o) { return o.nonfinite; });
  }

  std::vector<Output> outputs_;
  int64_t rows_ = 0;
};

}  // namespace tapeformer::train
