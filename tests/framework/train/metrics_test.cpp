// SPDX-License-Identifier: Apache-2.0
// Metrics against brute force over random data, the same bits for any split into batches, and values that must stay undefined.
#include "framework/train/metrics.h"

#include <cmath>
#include <limits>
#include <random>

#include "framework/kernels/cross_entropy.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::train;

namespace {

struct Data {
  int classes;
  std::vector<float> logits;  // [M,K]
  std::vector<int32_t> targets;
};

// Few distinct logits, so that there are ties; `absent` is a class that is never a target.
Data uneven_data(int rows, int classes, unsigned seed, int absent = -1) {
  std::mt19937 random(seed);
  Data d{classes, {}, {}};
  for (int r = 0; r < rows; ++r) {
    auto t = static_cast<int32_t>(random() % static_cast<unsigned>(classes));
    if (t == absent) t = (t + 1) % classes;
    d.targets.push_back(t);
    for (int k = 0; k < classes; ++k) d.logits.push_back(0.5f * static_cast<float>(random() % 5) + (k == t ? 0.5f : 0.0f));
  }
  return d;
}

void add(ClassificationMetrics& metrics, const Data& d, size_t first, size_t count) {
  const auto k = static_cast<size_t>(d.classes);
  metrics.add(Tensor::of<float>(std::span(d.logits).subspan(first * k, count * k), {static_cast<int64_t>(count), d.classes}),
              Tensor::of<int32_t>(std::span(d.targets).subspan(first, count), {static_cast<int64_t>(count)}));
}

ClassificationMetrics whole(const Data& d) {
  ClassificationMetrics metrics(d.classes);
  add(metrics, d, 0, d.targets.size());
  return metrics;
}

std::vector<size_t> random_split(size_t rows, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<size_t> sizes;
  for (size_t left = rows; left > 0; left -= sizes.back()) sizes.push_back(std::min<size_t>(left, random() % 9));
  return sizes;
}

bool same(const std::vector<Metric>& a, const std::vector<Metric>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].name != b[i].name || a[i].value != b[i].value) return false;
  return true;
}

bool near(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a || std::abs(*a - *b) < 1e-12);
}

int predicted(const Data& d, size_t r) {
  int best = 0;
  for (int k = 1; k < d.classes; ++k)
    if (d.logits[r * static_cast<size_t>(d.classes) + static_cast<size_t>(k)] >
        d.logits[r * static_cast<size_t>(d.classes) + static_cast<size_t>(best)])
      best = k;
  return best;
}

double probability(const Data& d, size_t r, int k) {
  double sum = 0;
  const float* x = d.logits.data() + r * static_cast<size_t>(d.classes);
  for (int j = 0; j < d.classes; ++j) sum += std::exp(static_cast<double>(x[j]));
  return std::exp(static_cast<double>(x[k])) / sum;
}

std::optional<double> brute_f1(const Data& d) {
  double sum = 0;
  int counted = 0;
  for (int k = 0; k < d.classes; ++k) {
    int tp = 0, fp = 0, fn = 0;
    for (size_t r = 0; r < d.targets.size(); ++r) {
      const bool is = d.targets[r] == k, said = predicted(d, r) == k;
      tp += is && said;
      fp += !is && said;
      fn += is && !said;
    }
    if (tp + fp + fn == 0) continue;
    sum += 2.0 * tp / (2.0 * tp + fp + fn);
    ++counted;
  }
  return counted ? std::optional(sum / counted) : std::nullopt;
}

// Pearson's correlation of the one-hot rows, summed over classes: another way to write the K-class coefficient.
std::optional<double> brute_mcc(const Data& d) {
  const auto n = static_cast<double>(d.targets.size());
  double xy = 0, xx = 0, yy = 0;
  for (int k = 0; k < d.classes; ++k) {
    double mx = 0, my = 0;
    for (size_t r = 0; r < d.targets.size(); ++r) mx += d.targets[r] == k, my += predicted(d, r) == k;
    mx /= n, my /= n;
    for (size_t r = 0; r < d.targets.size(); ++r) {
      const double x = (d.targets[r] == k) - mx, y = (predicted(d, r) == k) - my;
      xy += x * y, xx += x * x, yy += y * y;
    }
  }
  if (xx < 1e-12 || yy < 1e-12) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

std::optional<double> brute_auroc(const Data& d) {
  double sum = 0;
  for (int k = 0; k < d.classes; ++k) {
    double won = 0, pairs = 0;
    for (size_t a = 0; a < d.targets.size(); ++a)
      for (size_t b = 0; b < d.targets.size(); ++b)
        if (d.targets[a] == k && d.targets[b] != k) {
          const double difference = probability(d, a, k) - probability(d, b, k);
          won += difference > 1e-12 ? 1 : difference < -1e-12 ? 0 : 0.5;
          ++pairs;
        }
    if (pairs == 0) return std::nullopt;
    sum += won / pairs;
  }
  return sum / d.classes;
}

}  // namespace

TEST_CASE("classification metrics equal brute force and are the same bits for any batches", "[metrics]") {
  unsigned seed = 0;
  for (const int classes : {2, 3, 7})
    for (const int rows : {1, 2, 10, 61})
      for (const int absent : {-1, 1}) {
        const Data d = uneven_data(rows, classes, ++seed, absent);
        INFO("classes " << classes << " rows " << rows << " absent " << absent);
        const ClassificationMetrics all = whole(d);
        int hits = 0;
        for (size_t r = 0; r < d.targets.size(); ++r) hits += predicted(d, r) == d.targets[r];
        CHECK(all.accuracy() == static_cast<double>(hits) / rows);
        CHECK(near(all.f1_macro(), brute_f1(d)));
        CHECK(near(all.mcc(), brute_mcc(d)));
        CHECK(near(all.auroc(), brute_auroc(d)));
        for (unsigned split = 0; split < 4; ++split) {
          ClassificationMetrics parts(classes);
          size_t first = 0;
          for (const size_t count : random_split(d.targets.size(), split)) {
            add(parts, d, first, count);
            first += count;
          }
          CHECK(same(parts.values(), all.values()));
          CHECK(parts.confusion() == all.confusion());
        }
      }
}

TEST_CASE("correct predictions are counted as the accuracy does", "[metrics]") {
  Data d = uneven_data(60, 3, 5);  // with ties
  const auto accuracy = whole(d).accuracy();
  for (const int repeat : {1, 2}) {
    const Tensor logits = Tensor::of<float>(d.logits, {static_cast<int64_t>(d.targets.size()), d.classes});
    const Correct c = count_correct(logits, Tensor::of<int32_t>(d.targets));
    CHECK(c.targets == 60);
    CHECK(static_cast<double>(c.correct) / 60 == accuracy);
    if (repeat == 1) {  // one that has no target
      d.targets.push_back(kernels::ignored_target);
      d.logits.insert(d.logits.end(), {1, 0, 0});
    }
  }
}

TEST_CASE("ten samples with a rare class: the same values for batches of 1, 3 and 10", "[metrics]") {
  Data d{2, {}, {0, 0, 0, 1, 0, 0, 0, 0, 1, 0}};
  for (const float x : {-1.f, -2.f, 0.5f, 1.f, -3.f, -1.f, -1.f, -.5f, -.75f, -4.f}) d.logits.insert(d.logits.end(), {0, x});
  for (const size_t size : {1u, 3u, 10u}) {
    ClassificationMetrics m(2);
    for (size_t first = 0; first < 10; first += size) add(m, d, first, std::min<size_t>(size, 10 - first));
    CHECK(m.rows() == 10);
    CHECK(m.confusion() == std::vector<int64_t>{7, 1, 1, 1});
    CHECK(m.accuracy() == 0.8);
    CHECK(near(m.f1_macro(), (14.0 / 16 + 2.0 / 4) / 2));
    CHECK(near(m.auroc(), 14.0 / 16));
    CHECK(near(m.mcc(), (7.0 * 1 - 1.0 * 1) / std::sqrt(8.0 * 2 * 8 * 2)));
  }
}

TEST_CASE("with one class in the targets what cannot be said is undefined, and the rest is not", "[metrics]") {
  const Data d{2, {1, 0, 1, 0, 0, 1}, {0, 0, 0}};
  const ClassificationMetrics m = whole(d);
  CHECK(near(m.accuracy(), 2.0 / 3));
  CHECK(!m.auroc());
  CHECK(!m.mcc());
  CHECK(near(m.f1_macro(), (0.8 + 0) / 2));  // class 1 was predicted, so it counts, as 0
}

TEST_CASE("the rule for classes without targets or predictions", "[metrics]") {
  // Class 2 is neither: left out. Class 1 is a target that is never predicted: 0.
  const ClassificationMetrics m = whole({3, {1, 0, 0, 1, 0, 0}, {0, 1}});
  CHECK(near(m.f1_macro(), (2.0 / 3 + 0) / 2));
  const auto classes = m.per_class();
  CHECK(classes[0].precision == 0.5);
  CHECK(classes[0].recall == 1.0);
  CHECK(!classes[1].precision);
  CHECK(classes[1].recall == 0.0);
  CHECK(!classes[2].f1);
  CHECK(classes[1].support == 1);
  CHECK(classes[0].predicted == 2);
}

TEST_CASE("no rows, and rows that are not finite, leave everything undefined", "[metrics]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  ClassificationMetrics none(3);
  for (const Metric& m : none.values()) CHECK(!m.value);
  for (const float bad : {nan, inf, -inf})
    for (const Metric& m : whole({2, {0, 1, 1, bad, 1, 0}, {1, 0, 0}}).values()) {
      INFO(m.name);
      CHECK(!m.value);
    }
}

TEST_CASE("AUROC does not saturate where probabilities do", "[metrics]") {
  // Softmax in double gives exactly 1 for both; the order of the log-odds is still right.
  CHECK(whole({2, {0, 50, 0, 60, 0, 55}, {0, 1, 1}}).auroc() == 1.0);
  CHECK(whole({2, {0, 60, 0, 50, 0, 55}, {0, 1, 1}}).auroc() == 0.0);
  CHECK(whole({2, {0, 50, 0, 50, 0, 50}, {0, 1, 1}}).auroc() == 0.5);
}

TEST_CASE("tagging leaves ignored tokens out of everything", "[metrics]") {
  ClassificationMetrics m(2, Scores::drop);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  m.add(Tensor::of<float>({1, 0, nan, nan, 0, 1, 0, 1}).reshaped({4, 2}), Tensor::of<int32_t>({0, kernels::ignored_target, 1, 0}));
  CHECK(m.rows() == 3);
  CHECK(near(m.accuracy(), 2.0 / 3));
  CHECK(near(m.f1_macro(), 2.0 / 3));
  CHECK(m.values().size() == 3);
  CHECK(!m.auroc());
  ClassificationMetrics ignored(2, Scores::drop);
  ignored.add(Tensor::of<float>({1, 0}).reshaped({1, 2}), Tensor::of<int32_t>({kernels::ignored_target}));
  CHECK(!ignored.accuracy());
}

TEST_CASE("regression metrics equal brute force and are the same bits for any batches", "[metrics]") {
  std::mt19937 random(3);
  for (const int64_t outputs : {1, 3})
    for (const int64_t rows : {2, 5, 50}) {
      std::vector<float> x, y;
      for (int64_t i = 0; i < rows * outputs; ++i) {
        y.push_back(1000 + static_cast<float>(random() % 1000) / 100);
        x.push_back(y.back() + static_cast<float>(random() % 100) / 100 - 0.3f);
      }
      double squared = 0, absolute = 0, r2 = 0;
      for (int64_t k = 0; k < outputs; ++k) {
        double mean = 0, residual = 0, total = 0;
        for (int64_t r = 0; r < rows; ++r) mean += static_cast<double>(y[static_cast<size_t>(r * outputs + k)]) / static_cast<double>(rows);
        for (int64_t r = 0; r < rows; ++r) {
          const auto i = static_cast<size_t>(r * outputs + k);
          const double e = static_cast<double>(x[i]) - y[i];
          residual += e * e;
          absolute += std::abs(e);
          total += (y[i] - mean) * (y[i] - mean);
        }
        squared += residual;
        r2 += (1 - residual / total) / static_cast<double>(outputs);
      }
      RegressionMetrics all(static_cast<int>(outputs));
      all.add(Tensor::of<float>(x).reshaped({rows, outputs}), Tensor::of<float>(y).reshaped({rows, outputs}));
      const auto n = static_cast<double>(rows * outputs);
      CHECK(std::abs(*all.rmse() - std::sqrt(squared / n)) < 1e-12);
      CHECK(std::abs(*all.mae() - absolute / n) < 1e-12);
      CHECK(std::abs(*all.r2() - r2) < 1e-9);
      for (int k = 0; k < all.outputs(); ++k) {
        RegressionMetrics alone(1);
        for (int64_t r = 0; r < rows; ++r) {
          const auto i = static_cast<size_t>(r * outputs + k);
          alone.add(Tensor::of<float>({x[i]}).reshaped({1, 1}), Tensor::of<float>({y[i]}).reshaped({1, 1}));
        }
        CHECK(same(all.values_of(k), alone.values()));
      }
      for (unsigned split = 0; split < 4; ++split) {
        RegressionMetrics parts(static_cast<int>(outputs));
        int64_t first = 0;
        for (const size_t size : random_split(static_cast<size_t>(rows), split)) {
          const auto count = static_cast<int64_t>(size);
          const auto at = static_cast<size_t>(first * outputs), length = static_cast<size_t>(count * outputs);
          parts.add(Tensor::of<float>(std::span<const float>(x).subspan(at, length), {count, outputs}),
                    Tensor::of<float>(std::span<const float>(y).subspan(at, length), {count, outputs}));
          first += count;
        }
        CHECK(same(parts.values(), all.values()));
      }
    }
}

TEST_CASE("R2 of a constant target, or of one row, is undefined; errors are not", "[metrics]") {
  RegressionMetrics m(1);
  m.add(Tensor::of<double>({1, 2}).reshaped({2, 1}), Tensor::of<float>({0.1f, 0.1f}).reshaped({2, 1}));
  CHECK(!m.r2());
  CHECK(m.mae().has_value());
  RegressionMetrics one(2);
  one.add(Tensor::of<float>({1, 2}).reshaped({1, 2}), Tensor::of<float>({1, 4}).reshaped({1, 2}));
  CHECK(!one.r2());
  CHECK(one.mae() == 1.0);
  CHECK(one.rmse() == std::sqrt(2.0));
  one.add(Tensor::of<float>({1, std::numeric_limits<float>::quiet_NaN()}).reshaped({1, 2}), Tensor::of<float>({3, 4}).reshaped({1, 2}));
  for (const Metric& metric : one.values()) CHECK(!metric.value);
  for (const Metric& metric : RegressionMetrics(1).values()) CHECK(!metric.value);
}

TEST_CASE("the mean loss weighs by counts, not by batches", "[metrics]") {
  MeanLoss loss;
  CHECK(!loss.mean());
  loss.add(0, 0);  // a batch whose targets are all ignored
  CHECK(!loss.mean());
  loss.add(6, 2);
  loss.add(2, 6);
  CHECK(loss.mean() == 1.0);
  CHECK(loss.count() == 8);
}

TEST_CASE("misuse of metrics is refused, and directions are known", "[metrics]") {
  ClassificationMetrics m(2);
  CHECK_THROWS_AS(m.add(Tensor::of<float>({1, 2, 3}).reshaped({1, 3}), Tensor::of<int32_t>({0})), Error);
  CHECK_THROWS_AS(m.add(Tensor::of<float>({1, 2}).reshaped({1, 2}), Tensor::of<int32_t>({0, 1})), Error);
  for (const int32_t target : {2, -1, -4})
    CHECK_THROWS_AS(m.add(Tensor::of<float>({1, 2}).reshaped({1, 2}), Tensor::of<int32_t>({target})), Error);
  CHECK(m.rows() == 0);
  CHECK_THROWS_AS(ClassificationMetrics(0), Error);
  CHECK_THROWS_AS(RegressionMetrics(0), Error);
  CHECK_THROWS_AS(RegressionMetrics(2).add(Tensor::of<float>({1}).reshaped({1, 1}), Tensor::of<float>({1}).reshaped({1, 1})), Error);
  for (const char* up : {"accuracy", "f1_macro", "mcc", "auroc", "r2"}) CHECK(higher_is_better(up));
  for (const char* down : {"loss", "rmse", "mae"}) CHECK(!higher_is_better(down));
}
