// SPDX-License-Identifier: Apache-2.0
// The feed-forward half of a layer on the cpu device against double loops, with and without norm, in every activation, with dropout in both
// places; bytes for any number of threads and for rows alone and among others.
#include "framework/kernels/feed_forward.h"

#include <numbers>

#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::error;
using test::Matrix;

namespace {

double value_of(Activation f, double x) {
  switch (f) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    default:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
}
// By differences of the double function: independent of the formula of the kernel.
double slope_of(Activation f, double x) {
  if (f == Activation::relu) return x > 0 ? 1 : 0;
  return (value_of(f, x + 1e-5) - value_of(f, x - 1e-5)) / 2e-5;
}

struct Case {
  int64_t M, C, F;
  Activation activation;
  bool norm, bias;
  double drop;
};

class HalfLayer {
 public:
  explicit HalfLayer(const Case& k)
      : k_(k),
        x(k.M, k.C, 1),
        residual(k.M, k.C, 2),
        dy(k.M, k.C, 3),
        up(k.F, k.C, 4, 0.5),
        down(k.C, k.F, 5, 0.5),
        up_bias(1, k.F, 6),
        down_bias(1, k.C, 7),
        gain(1, k.C, 8),
        shift(1, k.C, 9),
        u(k.M, k.F, 10),
        mean(1, k.M, 11),
        rstd(1, k.M, 12),
        dx(k.M, k.C, 13),
        dup(k.F, k.C, 14),
        ddown(k.C, k.F, 15),
        dup_bias(1, k.F, 16),
        ddown_bias(1, k.C, 17),
        dgain(1, k.C, 18),
        dshift(1, k.C, 19),
        y(k.M, k.C, 20) {
    for (int64_t r = 0; r < k.M; ++r) {
      positions_.push_back(static_cast<int32_t>(r % 50));
      samples_.push_back(static_cast<uint32_t>(r / 50 + 3));
    }
  }
  DropoutDraw draw(uint64_t key, int64_t first) const {
    DropoutDraw d;
    if (k_.drop == 0) return d;
    d.key = key;
    d.threshold = dropout_threshold(k_.drop);
    d.scale = 1 / (1 - k_.drop);
    d.step = 5;
    d.positions = positions_.data() + first;
    d.samples = samples_.data() + first;
    return d;
  }
  double factor(const DropoutDraw& d, int64_t r, int64_t c) const {
    if (!d.on()) return 1;
    const Draw draw{d.key, d.samples[r], d.step};
    return draw.word(static_cast<uint32_t>(d.positions[r]), static_cast<uint32_t>(c)) >= d.threshold ? d.scale : 0;
  }
  FeedForwardWeights<float> weights(int64_t first = 0) {
    FeedForwardWeights<float> w;
    if (k_.norm) {
      w.gain = gain.data();
      w.shift = shift.data();
    }
    w.epsilon = 1e-2f;
    w.up = up.view();
    w.down = down.view();
    if (k_.bias) {
      w.up_bias = up_bias.data();
      w.down_bias = down_bias.data();
    }
    w.activation = k_.activation;
    w.dropout_in = draw(11, first);
    w.dropout_out = draw(22, first);
    return w;
  }
  void forward(const Execution& on, int64_t first, int64_t count) {
    FeedForwardForward<float>::cpu(on, weights(first), x.rows(first, count), residual.rows(first, count), y.rows(first, count),
                                   {u.rows(first, count), mean.data() + first, rstd.data() + first});
  }
  void backward(const Execution& on, Write write) {
    FeedForwardBackward<float>::cpu(on, weights(), dy.view(), x.view(), {u.view(), mean.data(), rstd.data()}, dx.view(), write,
                                    {dgain.data(), dshift.data(), dup.view(), dup_bias.data(), ddown.view(), ddown_bias.data()});
  }
  std::vector<Matrix*> results() { return {&y, &u, &dx, &dup, &ddown, &dup_bias, &ddown_bias, &dgain, &dshift}; }

  Case k_;
  Matrix x, residual, dy, up, down, up_bias, down_bias, gain, shift, u, mean, rstd, dx, dup, ddown, dup_bias, ddown_bias, dgain, dshift, y;

 private:
  std::vector<int32_t> positions_;
  std::vector<uint32_t> samples_;
};

// The half-layer in double: everything the kernel computes, one plain loop after another.
struct Expected {
  std::vector<double> n, h, u, a, y, dx, dup, ddown, dup_bias, ddown_bias, dgain, dshift;
  explicit Expected(HalfLayer& l) {
    const int64_t M = l.k_.M, C = l.k_.C, F = l.k_.F;
    const FeedForwardWeights<float> w = l.weights();
    const auto at = [](int64_t r, int64_t c, int64_t width) { return static_cast<size_t>(r * width + c); };
    for (auto* v : {&n, &h, &y, &dx}) v->resize(static_cast<size_t>(M * C));
    for (auto* v : {&u, &a}) v->resize(static_cast<size_t>(M * F));
    for (auto* v : {&dup, &ddown}) v->resize(static_cast<size_t>(C * F));
    dup_bias.resize(static_cast<size_t>(F));
    for (auto* v : {&ddown_bias, &dgain, &dshift}) v->resize(static_cast<size_t>(C));
    for (int64_t r = 0; r < M; ++r) {
      double mean = 0, square = 0;
      for (int64_t c = 0; c < C; ++c) mean += l.x.at(r, c) / static_cast<double>(C);
      for (int64_t c = 0; c < C; ++c) square += (l.x.at(r, c) - mean) * (l.x.at(r, c) - mean) / static_cast<double>(C);
      const double rstd = 1 / std::sqrt(square + 1e-2);
      for (int64_t c = 0; c < C; ++c) {
        n[at(r, c, C)] = (l.x.at(r, c) - mean) * rstd;
        h[at(r, c, C)] = l.k_.norm ? n[at(r, c, C)] * l.gain.at(0, c) + l.shift.at(0, c) : l.x.at(r, c);
      }
      for (int64_t f = 0; f < F; ++f) {
        double v = l.k_.bias ? l.up_bias.at(0, f) : 0;
        for (int64_t c = 0; c < C; ++c) v += h[at(r, c, C)] * l.up.at(f, c);
        u[at(r, f, F)] = v;
        a[at(r, f, F)] = value_of(l.k_.activation, v) * l.factor(w.dropout_in, r, f);
      }
      std::vector<double> dz(static_cast<size_t>(C)), du(static_cast<size_t>(F)), dh(static_cast<size_t>(C));
      for (int64_t c = 0; c < C; ++c) {
        double v = l.k_.bias ? l.down_bias.at(0, c) : 0;
        for (int64_t f = 0; f < F; ++f) v += a[at(r, f, F)] * l.down.at(c, f);
        const double drop = l.factor(w.dropout_out, r, c);
        y[at(r, c, C)] = l.residual.at(r, c) + v * drop;
        dz[static_cast<size_t>(c)] = l.dy.at(r, c) * drop;
        ddown_bias[static_cast<size_t>(c)] += dz[static_cast<size_t>(c)];
      }
      for (int64_t f = 0; f < F; ++f) {
        double v = 0;
        for (int64_t c = 0; c < C; ++c) {
          v += dz[static_cast<size_t>(c)] * l.down.at(c, f);
          ddown[at(c, f, F)] += dz[static_cast<size_t>(c)] * a[at(r, f, F)];
        }
        du[static_cast<size_t>(f)] = v * l.factor(w.dropout_in, r, f) * slope_of(l.k_.activation, u[at(r, f, F)]);
        dup_bias[static_cast<size_t>(f)] += du[static_cast<size_t>(f)];
        for (int64_t c = 0; c < C; ++c) {
          dup[at(f, c, C)] += du[static_cast<size_t>(f)] * h[at(r, c, C)];
          dh[static_cast<size_t>(c)] += du[static_cast<size_t>(f)] * l.up.at(f, c);
        }
      }
      double sum = 0, dot = 0;
      for (int64_t c = 0; c < C; ++c) {
        const double v = dh[static_cast<size_t>(c)], g = v * l.gain.at(0, c);
        sum += g / static_cast<double>(C);
        dot += g * n[at(r, c, C)] / static_cast<double>(C);
        dgain[static_cast<size_t>(c)] += v * n[at(r, c, C)];
        dshift[static_cast<size_t>(c)] += v;
      }
      for (int64_t c = 0; c < C; ++c) {
        const double v = dh[static_cast<size_t>(c)];
        dx[at(r, c, C)] = l.k_.norm ? rstd * (v * l.gain.at(0, c) - sum - n[at(r, c, C)] * dot) : v;
      }
    }
  }
};

double difference(const Matrix& m, const std::vector<double>& e, const Matrix* before = nullptr) {
  return error(m, [&](int64_t r, int64_t c) { return e[static_cast<size_t>(r * m.columns() + c)] + (before ? before->at(r, c) : 0); });
}

const std::vector<Case> cases = {
    {1, 1, 1, Activation::relu, false, true, 0},           {3, 5, 7, Activation::gelu, true, true, 0.2},
    {14, 33, 40, Activation::gelu_tanh, true, false, 0.1}, {97, 20, 300, Activation::gelu, true, true, 0.25},
    {150, 64, 128, Activation::gelu, true, true, 0},       {210, 17, 530, Activation::relu, true, true, 0.5},
    {700, 24, 50, Activation::none, false, true, 0.1},     {40, 70, 256, Activation::gelu_tanh, false, true, 0},
    {9, 970, 1090, Activation::gelu, true, true, 0.2},  // weights too large for partial sums
};

}  // namespace

TEST_CASE("the feed-forward half and its gradients equal double loops", "[cpu][feed_forward]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const Case& k : cases) {
      INFO(k.M << " rows, " << k.C << " wide, " << k.F << " inner, activation " << static_cast<int>(k.activation) << ", norm " << k.norm
               << ", drop " << k.drop);
      HalfLayer l(k);
      ThreadPool pool(2);
      const Execution on{Device::cpu, &pool};
      const HalfLayer before = l;
      const Expected e(l);
      l.forward(on, 0, k.M);
      l.backward(on, Write::add);
      CHECK(difference(l.y, e.y) < 2e-6);
      CHECK(difference(l.u, e.u) < 2e-6);
      CHECK(difference(l.dx, e.dx, &before.dx) < 5e-6);
      CHECK(difference(l.dup, e.dup, &before.dup) < 5e-6);
      CHECK(difference(l.ddown, e.ddown, &before.ddown) < 5e-6);
      if (k.bias) CHECK(difference(l.dup_bias, e.dup_bias, &before.dup_bias) < 5e-6);
      if (k.bias) CHECK(difference(l.ddown_bias, e.ddown_bias, &before.ddown_bias) < 5e-6);
      if (k.norm) CHECK(difference(l.dgain, e.dgain, &before.dgain) < 5e-6);
      if (k.norm) CHECK(difference(l.dshift, e.dshift, &before.dshift) < 5e-6);
      for (const Matrix* m : l.results()) CHECK(m->gaps_untouched());
      l.backward(on, Write::overwrite);
      CHECK(difference(l.dx, e.dx) < 5e-6);
    }
  });
}

TEST_CASE("the feed-forward half works in place, without saving, and without the gradients nobody asked for", "[cpu][feed_forward]") {
  const Case k{60, 30, 70, Activation::gelu, true, true, 0.1};
  HalfLayer l(k), m(k);
  ThreadPool pool(2);
  const Execution on{Device::cpu, &pool};
  l.forward(on, 0, k.M);
  FeedForwardForward<float>::cpu(on, m.weights(), m.x.view(), m.residual.view(), m.residual.view(), {{}, m.mean.data(), m.rstd.data()});
  for (int64_t r = 0; r < k.M; ++r) CHECK(std::equal(l.y.view().row(r), l.y.view().row(r) + k.C, m.residual.view().row(r)));
  l.backward(on, Write::overwrite);
  FeedForwardBackward<float>::cpu(on, l.weights(), l.dy.view(), l.x.view(), {l.u.view(), l.mean.data(), l.rstd.data()}, m.dx.view(),
                                  Write::overwrite, {});
  CHECK(m.dx.same_bytes(l.dx));
  HalfLayer only(k);
  FeedForwardBackward<float>::cpu(on, l.weights(), l.dy.view(), l.x.view(), {l.u.view(), l.mean.data(), l.rstd.data()}, {},
                                  Write::overwrite, {nullptr, nullptr, only.dup.view(), nullptr, only.ddown.view(), nullptr});
  CHECK(only.dup.same_bytes(l.dup));
  CHECK(only.ddown.same_bytes(l.ddown));
}

TEST_CASE("the feed-forward half gives the same bytes for any number of threads", "[cpu][feed_forward][threads]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const Case& k : {Case{730, 64, 128, Activation::gelu, true, true, 0.1}, Case{2600, 20, 300, Activation::relu, true, true, 0.1},
                          Case{140, 970, 1090, Activation::gelu, true, true, 0.1}}) {
      std::vector<HalfLayer> runs;
      for (const int threads : test::thread_counts()) {
        ThreadPool pool(threads);
        const Execution on{Device::cpu, &pool};
        HalfLayer& l = runs.emplace_back(k);
        l.forward(on, 0, k.M);
        l.backward(on, Write::overwrite);
        const auto mine = l.results(), first = runs.front().results();
        for (size_t i = 0; i < mine.size(); ++i) CHECK(mine[i]->same_bytes(*first[i]));
      }
    }
  });
}

TEST_CASE("a row of the feed-forward half has the same bytes alone and among others", "[cpu][feed_forward]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    const Case k{190, 40, 90, Activation::gelu, true, true, 0.1};
    HalfLayer all(k), some(k);
    ThreadPool pool(2);
    const Execution on{Device::cpu, &pool};
    all.forward(on, 0, k.M);
    int64_t first = 0;
    for (int64_t count = 1; first < k.M; first += count, count = std::min(count + 1, k.M - first)) some.forward(on, first, count);
    CHECK(all.y.same_bytes(some.y));
    CHECK(all.u.same_bytes(some.u));
  });
}
