// SPDX-License-Identifier: Apache-2.0
// The linear layers of the cpu device against double loops, with norm, dropout and residual around them; bytes for any number of threads
// and for rows alone and among others.
#include "framework/kernels/linear.h"

#include "framework/kernels/linear_residual.h"
#include "framework/kernels/norm_linear.h"
#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::error;
using test::Matrix;

namespace {

struct Sizes {
  int64_t M, K, N;
};
const std::vector<Sizes> sizes = {
    {1, 1, 1},      {2, 3, 5},      {5, 7, 3},      {13, 33, 17},  {50, 64, 31},
    {145, 64, 192}, {300, 100, 48}, {1500, 20, 34}, {12, 600, 70}, {9, 1100, 960}};  // the last with weights too large for partial sums

// What rounding may do to a sum of so many terms, formed in a chain.
double rounding(int64_t terms) { return 1e-6 * std::max(1.0, static_cast<double>(terms) / 500); }

struct Place {
  std::vector<int32_t> positions;
  std::vector<uint32_t> samples;
  DropoutDraw draw(double p) const {
    DropoutDraw d;
    d.key = 0x123456789abcdefull;
    d.threshold = dropout_threshold(p);
    d.scale = 1 / (1 - p);
    d.step = 9;
    d.positions = positions.data();
    d.samples = samples.data();
    return d;
  }
  explicit Place(int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      positions.push_back(static_cast<int32_t>(r % 100));
      samples.push_back(static_cast<uint32_t>(0xfffffff0u - r / 100));
    }
  }
  double factor(const DropoutDraw& d, int64_t r, int64_t c) const {
    if (!d.on()) return 1;
    const Draw draw{d.key, samples[static_cast<size_t>(r)], d.step};
    return draw.word(static_cast<uint32_t>(positions[static_cast<size_t>(r)]), static_cast<uint32_t>(c)) >= d.threshold ? d.scale : 0;
  }
};

// A layer y = residual + drop(norm(x) W' + b) and its gradients in double.
struct Layer {
  int64_t M, K, N;
  Matrix x, w, bias, gain, shift, residual, dy;
  Place place;
  explicit Layer(Sizes s)
      : M(s.M),
        K(s.K),
        N(s.N),
        x(M, K, 1),
        w(N, K, 2),
        bias(1, N, 3),
        gain(1, K, 4),
        shift(1, K, 5),
        residual(M, N, 6),
        dy(M, N, 7),
        place(M) {}
  double mean(int64_t r) const {
    double s = 0;
    for (int64_t k = 0; k < K; ++k) s += x.at(r, k);
    return s / static_cast<double>(K);
  }
  double rstd(int64_t r) const {
    double s = 0, m = mean(r);
    for (int64_t k = 0; k < K; ++k) s += (x.at(r, k) - m) * (x.at(r, k) - m);
    return 1 / std::sqrt(s / static_cast<double>(K) + 1e-2);
  }
  std::vector<double> normed() const {
    std::vector<double> h;
    for (int64_t r = 0; r < M; ++r) {
      const double m = mean(r), s = rstd(r);
      for (int64_t k = 0; k < K; ++k) h.push_back((x.at(r, k) - m) * s);
    }
    return h;
  }
};

}  // namespace

TEST_CASE("LinearForward and its gradients equal double loops for any sizes and strides", "[cpu][linear]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const Sizes s : sizes) {
      Layer l(s);
      ThreadPool pool(2);
      const Execution on{Device::cpu, &pool};
      Matrix y(s.M, s.N, 8), dx(s.M, s.K, 9), dw(s.N, s.K, 10), dbias(1, s.N, 11);
      const Matrix dx0 = dx, dw0 = dw, dbias0 = dbias;
      INFO(s.M << " x " << s.K << " x " << s.N);
      LinearForward<float>::cpu(on, l.x.view(), l.w.view(), l.bias.data(), y.view());
      CHECK(error(y, [&](int64_t r, int64_t n) {
              double v = l.bias.at(0, n);
              for (int64_t k = 0; k < s.K; ++k) v += l.x.at(r, k) * l.w.at(n, k);
              return v;
            }) < rounding(s.K));
      LinearForward<float>::cpu(on, l.x.view(), l.w.view(), nullptr, y.view());
      CHECK(error(y, [&](int64_t r, int64_t n) {
              double v = 0;
              for (int64_t k = 0; k < s.K; ++k) v += l.x.at(r, k) * l.w.at(n, k);
              return v;
            }) < rounding(s.K));
      const auto input_gradient = [&](int64_t r, int64_t k) {
        double v = 0;
        for (int64_t n = 0; n < s.N; ++n) v += l.dy.at(r, n) * l.w.at(n, k);
        return v;
      };
      LinearBackwardInput<float>::cpu(on, l.dy.view(), l.w.view(), dx.view(), Write::add);
      CHECK(error(dx, [&](int64_t r, int64_t k) { return dx0.at(r, k) + input_gradient(r, k); }) < rounding(s.N));
      LinearBackwardInput<float>::cpu(on, l.dy.view(), l.w.view(), dx.view(), Write::overwrite);
      CHECK(error(dx, input_gradient) < rounding(s.N));
      LinearBackwardWeight<float>::cpu(on, l.dy.view(), l.x.view(), dw.view(), dbias.data());
      CHECK(error(dw, [&](int64_t n, int64_t k) {
              double v = dw0.at(n, k);
              for (int64_t r = 0; r < s.M; ++r) v += l.dy.at(r, n) * l.x.at(r, k);
              return v;
            }) < 2e-6);
      CHECK(error(dbias, [&](int64_t, int64_t n) {
              double v = dbias0.at(0, n);
              for (int64_t r = 0; r < s.M; ++r) v += l.dy.at(r, n);
              return v;
            }) < 2e-6);
      CHECK((y.gaps_untouched() && dx.gaps_untouched() && dw.gaps_untouched() && dbias.gaps_untouched()));
    }
  });
}

TEST_CASE("NormLinear and its gradients equal double loops", "[cpu][linear]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const Sizes s : sizes) {
      Layer l(s);
      ThreadPool pool(3);
      const Execution on{Device::cpu, &pool};
      Matrix y(s.M, s.N, 8), dx(s.M, s.K, 9), dw(s.N, s.K, 10), dbias(1, s.N, 11), dgain(1, s.K, 12), dshift(1, s.K, 13), mean(1, s.M, 14),
          rstd(1, s.M, 15);
      const Matrix dx0 = dx, dw0 = dw, dbias0 = dbias, dgain0 = dgain, dshift0 = dshift;
      INFO(s.M << " x " << s.K << " x " << s.N);
      const std::vector<double> h = l.normed();
      const auto normed = [&](int64_t r, int64_t k) { return h[static_cast<size_t>(r * s.K + k)]; };
      const auto entering = [&](int64_t r, int64_t k) { return normed(r, k) * l.gain.at(0, k) + l.shift.at(0, k); };
      NormLinearForward<float>::cpu(on, l.x.view(), l.gain.data(), l.shift.data(), 1e-2f, l.w.view(), l.bias.data(), y.view(), mean.data(),
                                    rstd.data());
      CHECK(error(y, [&](int64_t r, int64_t n) {
              double v = l.bias.at(0, n);
              for (int64_t k = 0; k < s.K; ++k) v += entering(r, k) * l.w.at(n, k);
              return v;
            }) < 2e-6);
      CHECK(error(mean, [&](int64_t, int64_t r) { return l.mean(r); }) < 1e-6);
      CHECK(error(rstd, [&](int64_t, int64_t r) { return l.rstd(r); }) < 1e-6);
      NormLinearBackward<float>::cpu(on, l.dy.view(), l.x.view(), l.gain.data(), l.shift.data(), mean.data(), rstd.data(), l.w.view(),
                                     dx.view(), Write::add, {dw.view(), dbias.data(), dgain.data(), dshift.data()});
      std::vector<double> dh(static_cast<size_t>(s.M * s.K));
      for (int64_t r = 0; r < s.M; ++r)
        for (int64_t k = 0; k < s.K; ++k)
          for (int64_t n = 0; n < s.N; ++n) dh[static_cast<size_t>(r * s.K + k)] += l.dy.at(r, n) * l.w.at(n, k);
      std::vector<double> sums(static_cast<size_t>(s.M)), dots(static_cast<size_t>(s.M));
      for (int64_t r = 0; r < s.M; ++r)
        for (int64_t k = 0; k < s.K; ++k) {
          const double g = dh[static_cast<size_t>(r * s.K + k)] * l.gain.at(0, k);
          sums[static_cast<size_t>(r)] += g / static_cast<double>(s.K);
          dots[static_cast<size_t>(r)] += g * normed(r, k) / static_cast<double>(s.K);
        }
      CHECK(error(dx, [&](int64_t r, int64_t k) {
              const double g = dh[static_cast<size_t>(r * s.K + k)] * l.gain.at(0, k);
              return dx0.at(r, k) + l.rstd(r) * (g - sums[static_cast<size_t>(r)] - normed(r, k) * dots[static_cast<size_t>(r)]);
            }) < 4e-6);
      CHECK(error(dw, [&](int64_t n, int64_t k) {
              double v = dw0.at(n, k);
              for (int64_t r = 0; r < s.M; ++r) v += l.dy.at(r, n) * entering(r, k);
              return v;
            }) < 4e-6);
      CHECK(error(dgain, [&](int64_t, int64_t k) {
              double v = dgain0.at(0, k);
              for (int64_t r = 0; r < s.M; ++r) v += dh[static_cast<size_t>(r * s.K + k)] * normed(r, k);
              return v;
            }) < 4e-6);
      CHECK(error(dshift, [&](int64_t, int64_t k) {
              double v = dshift0.at(0, k);
              for (int64_t r = 0; r < s.M; ++r) v += dh[static_cast<size_t>(r * s.K + k)];
              return v;
            }) < 4e-6);
      CHECK((y.gaps_untouched() && dx.gaps_untouched() && dw.gaps_untouched() && dgain.gaps_untouched() && mean.gaps_untouched()));
    }
  });
}

TEST_CASE("LinearResidual drops what the draw says and adds the residual, in place too", "[cpu][linear]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const double p : {0.0, 0.3})
      for (const Sizes s : sizes) {
        Layer l(s);
        ThreadPool pool(2);
        const Execution on{Device::cpu, &pool};
        const DropoutDraw draw = l.place.draw(p);
        Matrix y(s.M, s.N, 8), dx(s.M, s.K, 9), dw(s.N, s.K, 10), dbias(1, s.N, 11);
        const Matrix dw0 = dw, dbias0 = dbias;
        INFO(s.M << " x " << s.K << " x " << s.N << ", p " << p);
        LinearResidualForward<float>::cpu(on, l.x.view(), l.w.view(), l.bias.data(), draw, l.residual.view(), y.view());
        CHECK(error(y, [&](int64_t r, int64_t n) {
                double v = l.bias.at(0, n);
                for (int64_t k = 0; k < s.K; ++k) v += l.x.at(r, k) * l.w.at(n, k);
                return l.residual.at(r, n) + v * l.place.factor(draw, r, n);
              }) < rounding(s.K));
        Matrix in_place = l.residual;
        LinearResidualForward<float>::cpu(on, l.x.view(), l.w.view(), l.bias.data(), draw, in_place.view(), in_place.view());
        CHECK(in_place.same_bytes([&] {
          Matrix same = l.residual;
          for (int64_t r = 0; r < s.M; ++r) std::copy_n(y.view().row(r), s.N, same.view().row(r));
          return same;
        }()));
        LinearResidualBackward<float>::cpu(on, l.dy.view(), l.x.view(), l.w.view(), draw, dx.view(), Write::overwrite, dw.view(),
                                           dbias.data());
        const auto dz = [&](int64_t r, int64_t n) { return l.dy.at(r, n) * l.place.factor(draw, r, n); };
        CHECK(error(dx, [&](int64_t r, int64_t k) {
                double v = 0;
                for (int64_t n = 0; n < s.N; ++n) v += dz(r, n) * l.w.at(n, k);
                return v;
              }) < rounding(s.N));
        CHECK(error(dw, [&](int64_t n, int64_t k) {
                double v = dw0.at(n, k);
                for (int64_t r = 0; r < s.M; ++r) v += dz(r, n) * l.x.at(r, k);
                return v;
              }) < 2e-6);
        CHECK(error(dbias, [&](int64_t, int64_t n) {
                double v = dbias0.at(0, n);
                for (int64_t r = 0; r < s.M; ++r) v += dz(r, n);
                return v;
              }) < 2e-6);
        CHECK((y.gaps_untouched() && dx.gaps_untouched() && dw.gaps_untouched() && dbias.gaps_untouched()));
      }
  });
}

TEST_CASE("linear layers give the same bytes for any number of threads", "[cpu][linear][threads]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const Sizes s : {Sizes{730, 64, 192}, Sizes{145, 300, 100}, Sizes{2500, 20, 34}, Sizes{140, 1100, 960}}) {
      Layer l(s);
      std::vector<Matrix> first;
      for (const int threads : test::thread_counts()) {
        ThreadPool pool(threads);
        const Execution on{Device::cpu, &pool};
        std::vector<Matrix> out;
        for (uint32_t i = 0; i < 2; ++i) out.emplace_back(s.M, s.N, 20 + i);
        out.emplace_back(s.M, s.K, 22);
        out.emplace_back(s.N, s.K, 23);
        for (uint32_t i = 0; i < 3; ++i) out.emplace_back(1, std::max(s.K, s.N), 24 + i);
        Matrix mean(1, s.M, 27), rstd(1, s.M, 28);
        NormLinearForward<float>::cpu(on, l.x.view(), l.gain.data(), l.shift.data(), 1e-2f, l.w.view(), l.bias.data(), out[0].view(),
                                      mean.data(), rstd.data());
        LinearForward<float>::cpu(on, l.x.view(), l.w.view(), l.bias.data(), out[1].view());
        NormLinearBackward<float>::cpu(on, l.dy.view(), l.x.view(), l.gain.data(), l.shift.data(), mean.data(), rstd.data(), l.w.view(),
                                       out[2].view(), Write::overwrite, {out[3].view(), out[4].data(), out[5].data(), out[6].data()});
        if (first.empty()) first = out;
        for (size_t i = 0; i < out.size(); ++i) CHECK(out[i].same_bytes(first[i]));
      }
    }
  });
}

TEST_CASE("a row of a linear layer has the same bytes alone and anywhere among others", "[cpu][linear]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    const Sizes s{161, 70, 50};
    Layer l(s);
    ThreadPool pool(2);
    const Execution on{Device::cpu, &pool};
    Matrix all(s.M, s.N, 1), some(s.M, s.N, 1), dall(s.M, s.K, 1), dsome(s.M, s.K, 1), normed(s.M, s.N, 1), nsome(s.M, s.N, 1),
        mean(1, s.M, 1), rstd(1, s.M, 1);
    LinearForward<float>::cpu(on, l.x.view(), l.w.view(), l.bias.data(), all.view());
    LinearBackwardInput<float>::cpu(on, l.dy.view(), l.w.view(), dall.view(), Write::overwrite);
    NormLinearForward<float>::cpu(on, l.x.view(), l.gain.data(), l.shift.data(), 1e-2f, l.w.view(), l.bias.data(), normed.view(),
                                  mean.data(), rstd.data());
    int64_t first = 0;
    for (int64_t count = 1; first < s.M; first += count, count = std::min(count + 1, s.M - first)) {
      LinearForward<float>::cpu(on, l.x.rows(first, count), l.w.view(), l.bias.data(), some.rows(first, count));
      LinearBackwardInput<float>::cpu(on, l.dy.rows(first, count), l.w.view(), dsome.rows(first, count), Write::overwrite);
      NormLinearForward<float>::cpu(on, l.x.rows(first, count), l.gain.data(), l.shift.data(), 1e-2f, l.w.view(), l.bias.data(),
                                    nsome.rows(first, count), mean.data(), rstd.data());
    }
    CHECK(all.same_bytes(some));
    CHECK(dall.same_bytes(dsome));
    CHECK(normed.same_bytes(nsome));
  });
}

TEST_CASE("gradients nobody asked for are left out, and no rows change nothing", "[cpu][linear]") {
  const Sizes s{40, 20, 10};
  Layer l(s);
  ThreadPool pool(2);
  const Execution on{Device::cpu, &pool};
  Matrix mean(1, s.M, 1), rstd(1, s.M, 1), y(s.M, s.N, 1), dx(s.M, s.K, 1), only(s.M, s.K, 1), dw(s.N, s.K, 2), dbias(1, s.N, 3);
  NormLinearForward<float>::cpu(on, l.x.view(), l.gain.data(), l.shift.data(), 1e-2f, l.w.view(), nullptr, y.view(), mean.data(),
                                rstd.data());
  const auto backward = [&](View<float> to, NormLinearGradients<float> g) {
    NormLinearBackward<float>::cpu(on, l.dy.view(), l.x.view(), l.gain.data(), l.shift.data(), mean.data(), rstd.data(), l.w.view(), to,
                                   Write::overwrite, g);
  };
  backward(dx.view(), {dw.view(), dbias.data(), nullptr, nullptr});
  backward(only.view(), {});
  CHECK(only.same_bytes(dx));
  Matrix same = dw;
  LinearBackwardWeight<float>::cpu(on, {l.dy.data(), 0, s.N, s.N}, {l.x.data(), 0, s.K, s.K}, dw.view(), dbias.data());
  CHECK(same.same_bytes(dw));
}
