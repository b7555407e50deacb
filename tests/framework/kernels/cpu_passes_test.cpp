// SPDX-License-Identifier: Apache-2.0
// The cpu kernels that pass over rows once: activations, dropout, norms, embedding, pooling, softmax, cross-entropy, sums; each against
// double loops, at lengths around the vector width.
#include <limits>
#include <numbers>

#include "framework/kernels/activation.h"
#include "framework/kernels/batch_norm.h"
#include "framework/kernels/cross_entropy.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/embedding.h"
#include "framework/kernels/layer_norm.h"
#include "framework/kernels/pooling.h"
#include "framework/kernels/softmax.h"
#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::error;
using test::Matrix;

namespace {

const std::vector<int64_t> widths = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100};

struct Device2 {
  ThreadPool pool{2};
  Execution on{Device::cpu, &pool};
};

double gelu(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }
double relu(double x) { return x > 0 ? x : 0; }
const std::vector<std::pair<Activation, double (*)(double)>> activations = {
    {Activation::gelu, gelu}, {Activation::gelu_tanh, gelu_tanh}, {Activation::relu, relu}};

}  // namespace

TEST_CASE("activations and their slopes are right to 2e-7 from -9 to 9", "[cpu][activation]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    Device2 d;
    for (const auto& [f, value] : activations)
      for (const int64_t width : widths) {
        Matrix x(40, width, 3, 3), y(40, width, 4), dy(40, width, 5), dx(40, width, 6);
        ActivationForward<float>::cpu(d.on, f, x.view(), y.view());
        ActivationBackward<float>::cpu(d.on, f, x.view(), dy.view(), dx.view());
        for (int64_t r = 0; r < 40; ++r)
          for (int64_t c = 0; c < width; ++c) {
            const double v = x.at(r, c), slope = f == Activation::relu ? (v > 0) : (value(v + 1e-5) - value(v - 1e-5)) / 2e-5;
            CHECK(std::abs(y.at(r, c) - value(v)) <= 2e-7 * std::max(1.0, std::abs(v)));
            CHECK(std::abs(dx.at(r, c) - dy.at(r, c) * slope) <= 6e-7 * std::max(1.0, std::abs(v)));
          }
        CHECK((y.gaps_untouched() && dx.gaps_untouched()));
      }
  });
}

TEST_CASE("activations keep NaN, and large arguments go to x or 0", "[cpu][activation]") {
  Device2 d;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Activation f : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    std::vector<float> x = {nan, 50, -50, 1e30f, -1e30f, 0}, y(6);
    ActivationForward<float>::cpu(d.on, f, {x.data(), 1, 6, 6}, {y.data(), 1, 6, 6});
    CHECK(std::isnan(y[0]));
    CHECK((y[1] == 50 && std::abs(y[2]) < 1e-30f && y[3] == 1e30f && std::abs(y[4]) < 1e-6f && y[5] == 0));
  }
}

TEST_CASE("dropout keeps exactly what Philox says, in place and added", "[cpu][dropout]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    Device2 d;
    for (const int64_t width : widths)
      for (const double p : {0.0, 0.1, 0.75}) {
        const int64_t M = 37;
        std::vector<int32_t> positions;
        std::vector<uint32_t> samples;
        for (int64_t r = 0; r < M; ++r) {
          positions.push_back(static_cast<int32_t>(3 * r));
          samples.push_back(0xfffffffeu - static_cast<uint32_t>(r));
        }
        DropoutDraw draw;
        draw.key = 0xfedcba9876543210ull;
        draw.threshold = dropout_threshold(p);
        draw.scale = 1 / (1 - p);
        draw.step = 0x80000001u;
        draw.positions = positions.data();
        draw.samples = samples.data();
        const auto expected = [&](const Matrix& x, int64_t r, int64_t c) {
          const size_t i = static_cast<size_t>(r);
          const bool kept =
              Draw{draw.key, samples[i], draw.step}.word(static_cast<uint32_t>(positions[i]), static_cast<uint32_t>(c)) >= draw.threshold;
          return kept ? x.at(r, c) * static_cast<double>(static_cast<float>(draw.scale)) : 0;
        };
        Matrix x(M, width, 1), y(M, width, 2);
        const Matrix x0 = x, y0 = y;
        Dropout<float>::cpu(d.on, draw, x.view(), y.view(), Write::add);
        CHECK(error(y, [&](int64_t r, int64_t c) { return y0.at(r, c) + expected(x0, r, c); }) < 1e-6);
        Dropout<float>::cpu(d.on, draw, x.view(), x.view(), Write::overwrite);
        int wrong = 0;
        for (int64_t r = 0; r < M; ++r)
          for (int64_t c = 0; c < width; ++c) wrong += x.at(r, c) != static_cast<double>(static_cast<float>(expected(x0, r, c)));
        CHECK(wrong == 0);
        CHECK(x.gaps_untouched());
      }
  });
}

TEST_CASE("LayerNorm and its gradients equal double loops", "[cpu][layer_norm]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    Device2 d;
    for (const int64_t C : widths) {
      const int64_t M = 1100 / C + 3;
      Matrix x(M, C, 1), gain(1, C, 2), shift(1, C, 3), dy(M, C, 4), y(M, C, 5), mean(1, M, 6), rstd(1, M, 7), dx(M, C, 8), dgain(1, C, 9),
          dshift(1, C, 10);
      const Matrix dx0 = dx, dgain0 = dgain, dshift0 = dshift;
      LayerNormForward<float>::cpu(d.on, x.view(), gain.data(), shift.data(), 1e-2f, y.view(), mean.data(), rstd.data());
      LayerNormBackward<float>::cpu(d.on, dy.view(), x.view(), gain.data(), mean.data(), rstd.data(), dx.view(), Write::add, dgain.data(),
                                    dshift.data());
      std::vector<double> n(static_cast<size_t>(M * C)), s(static_cast<size_t>(M)), a(static_cast<size_t>(M)), b(static_cast<size_t>(M));
      for (int64_t r = 0; r < M; ++r) {
        const size_t i = static_cast<size_t>(r);
        double m = 0, q = 0;
        for (int64_t c = 0; c < C; ++c) m += x.at(r, c) / static_cast<double>(C);
        for (int64_t c = 0; c < C; ++c) q += (x.at(r, c) - m) * (x.at(r, c) - m) / static_cast<double>(C);
        s[i] = 1 / std::sqrt(q + 1e-2);
        for (int64_t c = 0; c < C; ++c) {
          n[static_cast<size_t>(r * C + c)] = (x.at(r, c) - m) * s[i];
          a[i] += dy.at(r, c) * gain.at(0, c) / static_cast<double>(C);
          b[i] += dy.at(r, c) * gain.at(0, c) * n[static_cast<size_t>(r * C + c)] / static_cast<double>(C);
        }
      }
      INFO(M << " x " << C);
      CHECK(error(y, [&](int64_t r, int64_t c) { return n[static_cast<size_t>(r * C + c)] * gain.at(0, c) + shift.at(0, c); }) < 2e-6);
      CHECK(error(dx, [&](int64_t r, int64_t c) {
              const size_t i = static_cast<size_t>(r);
              return dx0.at(r, c) + s[i] * (dy.at(r, c) * gain.at(0, c) - a[i] - n[static_cast<size_t>(r * C + c)] * b[i]);
            }) < 3e-6);
      CHECK(error(dgain, [&](int64_t, int64_t c) {
              double v = dgain0.at(0, c);
              for (int64_t r = 0; r < M; ++r) v += dy.at(r, c) * n[static_cast<size_t>(r * C + c)];
              return v;
            }) < 3e-6);
      CHECK(error(dshift, [&](int64_t, int64_t c) {
              double v = dshift0.at(0, c);
              for (int64_t r = 0; r < M; ++r) v += dy.at(r, c);
              return v;
            }) < 3e-6);
      CHECK((y.gaps_untouched() && dx.gaps_untouched() && dgain.gaps_untouched()));
    }
  });
}

TEST_CASE("BatchNorm statistics, normalisation and gradients equal double loops", "[cpu][batch_norm]") {
  Device2 d;
  for (const auto& size : std::vector<std::pair<int64_t, int64_t>>{{2, 19}, {37, 19}, {700, 19}, {700, 150}}) {
    const int64_t M = size.first, C = size.second;
    const double rows = static_cast<double>(M);
    Matrix x(M, C, 1, 5), gain(1, C, 2), shift(1, C, 3), dy(M, C, 4), y(M, C, 5), mean(1, C, 6), m2(1, C, 7), rstd(1, C, 8);
    BatchNormStatistics<float>::cpu(d.on, x.view(), mean.data(), m2.data());
    std::vector<double> m(static_cast<size_t>(C)), q(static_cast<size_t>(C)), a(static_cast<size_t>(C)), b(static_cast<size_t>(C));
    for (int64_t c = 0; c < C; ++c) {
      const size_t i = static_cast<size_t>(c);
      for (int64_t r = 0; r < M; ++r) m[i] += x.at(r, c) / rows;
      for (int64_t r = 0; r < M; ++r) q[i] += (x.at(r, c) - m[i]) * (x.at(r, c) - m[i]);
      rstd.data()[c] = static_cast<float>(1 / std::sqrt(q[i] / rows + 1e-5));
      for (int64_t r = 0; r < M; ++r) {
        a[i] += dy.at(r, c);
        b[i] += dy.at(r, c) * (x.at(r, c) - m[i]) * rstd.at(0, c);
      }
    }
    CHECK(error(mean, [&](int64_t, int64_t c) { return m[static_cast<size_t>(c)]; }) < 1e-6);
    CHECK(error(m2, [&](int64_t, int64_t c) { return q[static_cast<size_t>(c)]; }) < 1e-6);
    const auto h = [&](int64_t r, int64_t c) { return (x.at(r, c) - m[static_cast<size_t>(c)]) * rstd.at(0, c); };
    BatchNormApply<float>::cpu(d.on, x.view(), mean.data(), rstd.data(), gain.data(), shift.data(), y.view());
    CHECK(error(y, [&](int64_t r, int64_t c) { return h(r, c) * gain.at(0, c) + shift.at(0, c); }) < 1e-6);
    for (const BatchNormMode mode : {BatchNormMode::batch, BatchNormMode::fixed}) {
      Matrix dx(M, C, 9), dgain(1, C, 10), dshift(1, C, 11);
      const Matrix dx0 = dx, dgain0 = dgain, dshift0 = dshift;
      BatchNormBackward<float>::cpu(d.on, mode, dy.view(), x.view(), mean.data(), rstd.data(), gain.data(), dx.view(), Write::add,
                                    dgain.data(), dshift.data());
      const auto slope = [&](int64_t r, int64_t c) {
        const size_t i = static_cast<size_t>(c);
        const double own = mode == BatchNormMode::batch ? a[i] / rows + h(r, c) * b[i] / rows : 0;
        return gain.at(0, c) * rstd.at(0, c) * (dy.at(r, c) - own);
      };
      CHECK(error(dx, [&](int64_t r, int64_t c) { return dx0.at(r, c) + slope(r, c); }) < 2e-6);
      CHECK(error(dgain, [&](int64_t, int64_t c) { return dgain0.at(0, c) + b[static_cast<size_t>(c)]; }) < 2e-6);
      CHECK(error(dshift, [&](int64_t, int64_t c) { return dshift0.at(0, c) + a[static_cast<size_t>(c)]; }) < 2e-6);
      BatchNormBackward<float>::cpu(d.on, mode, dy.view(), x.view(), mean.data(), rstd.data(), gain.data(), dx.view(), Write::overwrite,
                                    nullptr, nullptr);
      bool close = true;
      for (int64_t r = 0; r < M; ++r)
        for (int64_t c = 0; c < C; ++c) close = close && std::abs(dx.at(r, c) - slope(r, c)) <= 2e-6 * std::max(1.0, rstd.at(0, c));
      CHECK(close);
      CHECK(dx.gaps_untouched());
    }
  }
}

TEST_CASE("BatchNorm gives the same bytes for any number of threads", "[cpu][batch_norm]") {
  const int64_t M = 1500, C = 150;
  Matrix x(M, C, 1, 5), gain(1, C, 2), dy(M, C, 4), rstd(1, C, 8);
  std::vector<Matrix> first;
  for (const int threads : test::thread_counts()) {
    ThreadPool pool(threads);
    const Execution on{Device::cpu, &pool};
    Matrix mean(1, C, 6), m2(1, C, 7), dx(M, C, 9), dgain(1, C, 10), dshift(1, C, 11);
    BatchNormStatistics<float>::cpu(on, x.view(), mean.data(), m2.data());
    BatchNormBackward<float>::cpu(on, BatchNormMode::batch, dy.view(), x.view(), mean.data(), rstd.data(), gain.data(), dx.view(),
                                  Write::overwrite, dgain.data(), dshift.data());
    const std::vector<Matrix> all{mean, m2, dx, dgain, dshift};
    if (first.empty()) first = all;
    for (size_t i = 0; i < all.size(); ++i) CHECK(all[i].same_bytes(first[i]));
  }
}

TEST_CASE("embedding copies rows, and adds gradients of repeated tokens in order for any number of threads", "[cpu][embedding]") {
  const int64_t T = 500, C = 70, V = 9;
  Matrix table(V, C, 1), dy(T, C, 2);
  std::vector<int32_t> index;
  for (int64_t t = 0; t < T; ++t) index.push_back(static_cast<int32_t>(t * t % 7));
  std::vector<Matrix> first;
  for (const int threads : test::thread_counts()) {
    ThreadPool pool(threads);
    const Execution on{Device::cpu, &pool};
    Matrix y(T, C, 3), dtable(V, C, 4);
    const Matrix y0 = y, dtable0 = dtable;
    EmbeddingForward<float>::cpu(on, index.data(), table.view(), y.view(), Write::add);
    CHECK(error(y, [&](int64_t t, int64_t c) { return y0.at(t, c) + table.at(index[static_cast<size_t>(t)], c); }) < 1e-6);
    EmbeddingForward<float>::cpu(on, index.data(), table.view(), y.view(), Write::overwrite);
    CHECK(error(y, [&](int64_t t, int64_t c) { return table.at(index[static_cast<size_t>(t)], c); }) == 0);
    EmbeddingBackward<float>::cpu(on, index.data(), dy.view(), dtable.view());
    CHECK(error(dtable, [&](int64_t v, int64_t c) {
            double sum = dtable0.at(v, c);
            for (int64_t t = 0; t < T; ++t) sum += index[static_cast<size_t>(t)] == v ? dy.at(t, c) : 0;
            return sum;
          }) < 2e-6);
    if (first.empty()) first.push_back(dtable);
    CHECK(dtable.same_bytes(first[0]));
    CHECK((y.gaps_untouched() && dtable.gaps_untouched()));
  }
}

TEST_CASE("pooling takes each sequence's own rows, and an empty sequence gives 0", "[cpu][pooling]") {
  Device2 d;
  const std::vector<int32_t> offsets = {0, 3, 3, 4, 90};
  const int64_t B = 4, C = 21, T = 90;
  Matrix x(T, C, 1), dy(B, C, 2);
  x.view().row(1)[0] = x.view().row(2)[0] = 9;
  for (const Pooling kind : {Pooling::mean, Pooling::max, Pooling::first}) {
    Matrix y(B, C, 3), dx(T, C, 4);
    std::vector<int32_t> argmax(static_cast<size_t>(B * C));
    PoolingForward<float>::cpu(d.on, kind, offsets, x.view(), y.view(), argmax.data());
    PoolingBackward<float>::cpu(d.on, kind, offsets, dy.view(), argmax.data(), dx.view());
    const auto share = [&](int64_t b, int64_t r, int64_t c) {  // dy/dx
      const int64_t first = offsets[static_cast<size_t>(b)], last = offsets[static_cast<size_t>(b) + 1];
      if (r < first || r >= last) return 0.0;
      if (kind == Pooling::mean) return 1.0 / static_cast<double>(last - first);
      if (kind == Pooling::first) return r == first ? 1.0 : 0.0;
      int64_t best = first;
      for (int64_t i = first; i < last; ++i)
        if (x.at(i, c) > x.at(best, c)) best = i;
      return r == best ? 1.0 : 0.0;
    };
    CHECK(error(y, [&](int64_t b, int64_t c) {
            double v = 0;
            for (int64_t r = 0; r < T; ++r) v += share(b, r, c) * x.at(r, c);
            return v;
          }) < 1e-6);
    CHECK(error(dx, [&](int64_t r, int64_t c) {
            double v = 0;
            for (int64_t b = 0; b < B; ++b) v += share(b, r, c) * dy.at(b, c);
            return v;
          }) < 1e-6);
    if (kind == Pooling::max) CHECK((argmax[0] == 1 && argmax[static_cast<size_t>(C)] == -1));
  }
}

TEST_CASE("softmax and its gradient equal double loops, with large scores too", "[cpu][softmax]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    Device2 d;
    for (const int64_t C : widths)
      for (const int64_t M : {30, 300}) {
        Matrix x(M, C, 1, 80), dy(M, C, 2), y(M, C, 3), dx(M, C, 4);
        const Matrix dx0 = dx;
        SoftmaxForward<float>::cpu(d.on, x.view(), y.view());
        std::vector<double> probability;
        for (int64_t r = 0; r < M; ++r)
          for (int64_t c = 0; c < C; ++c) {
            double sum = 0;
            for (int64_t k = 0; k < C; ++k) sum += std::exp(x.at(r, k) - x.at(r, c));
            probability.push_back(1 / sum);
          }
        const auto p = [&](int64_t r, int64_t c) { return probability[static_cast<size_t>(r * C + c)]; };
        CHECK(error(y, p) < 1e-6);
        const auto slope = [&](int64_t r, int64_t c) {
          double dot = 0;
          for (int64_t k = 0; k < C; ++k) dot += p(r, k) * dy.at(r, k);
          return p(r, c) * (dy.at(r, c) - dot);
        };
        SoftmaxBackward<float>::cpu(d.on, dy.view(), y.view(), dx.view(), Write::add);
        CHECK(error(dx, [&](int64_t r, int64_t c) { return dx0.at(r, c) + slope(r, c); }) < 1e-6);
        SoftmaxBackward<float>::cpu(d.on, dy.view(), y.view(), dx.view(), Write::overwrite);
        bool close = true;
        for (int64_t r = 0; r < M; ++r)
          for (int64_t c = 0; c < C; ++c) close = close && std::abs(dx.at(r, c) - slope(r, c)) <= 1e-6;
        CHECK(close);
        CHECK((y.gaps_untouched() && dx.gaps_untouched()));
      }
  });
}

TEST_CASE("one NaN makes its row of a softmax NaN, and no other", "[cpu][softmax]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    Device2 d;
    for (const int64_t C : widths)
      for (int64_t c = 0; c < C; ++c) {
        Matrix x(2, C, 1), y(2, C, 2);
        x.view().row(1)[c] = std::numeric_limits<float>::quiet_NaN();
        SoftmaxForward<float>::cpu(d.on, x.view(), y.view());
        for (int64_t k = 0; k < C; ++k) CHECK((std::isfinite(y.at(0, k)) && std::isnan(y.at(1, k))));
      }
  });
}

TEST_CASE("cross-entropy equals its formula, smoothed, weighted and with ignored rows", "[cpu][cross_entropy]") {
  Device2 d;
  const int64_t M = 41, K = 7;
  Matrix x(M, K, 1, 30), classes(1, K, 2), rows(1, M, 3), loss(1, M, 4), weight(1, M, 5), dx(M, K, 6);
  std::vector<int32_t> targets;
  for (int64_t r = 0; r < M; ++r) targets.push_back(r % 5 == 4 ? ignored_target : static_cast<int32_t>(r * 3 % K));
  for (const bool weighted : {false, true})
    for (const double s : {0.0, 0.2}) {
      CrossEntropy<float>::cpu(d.on, x.view(), targets.data(), weighted ? classes.data() : nullptr, weighted ? rows.data() : nullptr, s,
                               loss.data(), weight.data(), dx.view());
      const auto w = [&](int64_t r) {
        const int32_t t = targets[static_cast<size_t>(r)];
        return t == ignored_target ? 0 : weighted ? classes.at(0, t) * rows.at(0, r) : 1;
      };
      const auto log_p = [&](int64_t r, int64_t k) {
        double sum = 0;
        for (int64_t i = 0; i < K; ++i) sum += std::exp(x.at(r, i) - x.at(r, k));
        return -std::log(sum);
      };
      CHECK(error(weight, [&](int64_t, int64_t r) { return w(r); }) < 1e-6);
      CHECK(error(loss, [&](int64_t, int64_t r) {
              if (targets[static_cast<size_t>(r)] == ignored_target) return 0.0;
              double average = 0;
              for (int64_t k = 0; k < K; ++k) average -= log_p(r, k) / static_cast<double>(K);
              return w(r) * ((1 - s) * -log_p(r, targets[static_cast<size_t>(r)]) + s * average);
            }) < 1e-6);
      CHECK(error(dx, [&](int64_t r, int64_t k) {
              if (targets[static_cast<size_t>(r)] == ignored_target) return 0.0;
              return w(r) * (std::exp(log_p(r, k)) - s / static_cast<double>(K) - (k == targets[static_cast<size_t>(r)] ? 1 - s : 0));
            }) < 1e-6);
    }
}

TEST_CASE("sums and scalings of strided matrices", "[cpu][elementwise]") {
  Device2 d;
  Matrix x(300, 61, 1), y(300, 61, 2), z(300, 61, 3);
  const Matrix y0 = y;
  AddTo<float>::cpu(d.on, x.view(), y.view());
  CHECK(error(y, [&](int64_t r, int64_t c) { return x.at(r, c) + y0.at(r, c); }) < 1e-6);
  Sum<float>::cpu(d.on, x.view(), y.view(), z.view());
  CHECK(error(z, [&](int64_t r, int64_t c) { return x.at(r, c) + y.at(r, c); }) < 1e-6);
  Scaled<float>::cpu(d.on, 0.25f, z.view(), z.view(), Write::overwrite);
  CHECK(error(z, [&](int64_t r, int64_t c) { return 0.25 * (x.at(r, c) + y.at(r, c)); }) < 1e-6);
  Scaled<float>::cpu(d.on, 2.f, x.view(), z.view(), Write::add);
  CHECK(error(z, [&](int64_t r, int64_t c) { return 2.25 * x.at(r, c) + 0.25 * y.at(r, c); }) < 1e-6);
  CHECK((y.gaps_untouched() && z.gaps_untouched()));
}
