// SPDX-License-Identifier: Apache-2.0
// What the forward drops is what Philox says and what the backward reads: with room, without, at a fresh draw; widths around the runs that
// are drawn at a time, a probability that drops everything, on every instruction set.
#include "framework/kernels/dropout.h"
#include "framework/kernels/feed_forward.h"
#include "framework/kernels/linear_residual.h"
#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::Matrix;

namespace {

constexpr int64_t rows = 29;
const std::vector<int64_t> widths = {1, 5, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 300, 513};

struct Places {
  std::vector<int32_t> positions;
  std::vector<uint32_t> samples;
  ThreadPool pool{2};
  Execution on{Device::cpu, &pool};

  Places() {
    for (int64_t r = 0; r < rows; ++r) {
      positions.push_back(static_cast<int32_t>(7 * r));
      samples.push_back(0xfffffff0u + static_cast<uint32_t>(r));
    }
  }
  DropoutDraw draw(uint64_t key, double p) const {
    DropoutDraw d;
    d.key = key;
    d.threshold = p == 1 ? uint64_t{1} << 32 : dropout_threshold(p);
    d.scale = p == 1 ? 0 : 1 / (1 - p);
    d.step = 9;
    d.positions = positions.data();
    d.samples = samples.data();
    return d;
  }
};

// For a backward that must not draw: it would read a null pointer.
DropoutDraw nowhere(const DropoutDraw& d) {
  DropoutDraw out = d.after();
  out.positions = nullptr;
  out.samples = nullptr;
  return out;
}

bool is_dropped(const DropoutDraw& d, int64_t r, int64_t c) {
  return reinterpret_cast<const uint32_t*>(d.room.get())[r * d.row_words + c / 32] >> c % 32 & 1;
}

}  // namespace

TEST_CASE("the room holds what Philox drops, and a pass that reads it gives the bytes of one that draws", "[cpu][dropout]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    const Places places;
    for (const int64_t width : widths)
      for (const double p : {0.1, 0.75, 1.0}) {
        INFO(width << " columns, p " << p);
        const DropoutDraw draw = places.draw(0x123456789abcdef0ull, p), room = draw.with_room(rows, width);
        Matrix x(rows, width, 1), drawn(rows, width, 2), filled(rows, width, 2), read(rows, width, 2);
        Dropout<float>::cpu(places.on, draw, x.view(), drawn.view(), Write::add);
        Dropout<float>::cpu(places.on, room, x.view(), filled.view(), Write::add);
        Dropout<float>::cpu(places.on, nowhere(room), x.view(), read.view(), Write::add);
        CHECK(filled.same_bytes(drawn));
        CHECK(read.same_bytes(drawn));
        int wrong = 0;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < width; ++c) {
            const size_t i = static_cast<size_t>(r);
            const Draw word{draw.key, places.samples[i], draw.step};
            wrong += is_dropped(room, r, c) !=
                     (word.word(static_cast<uint32_t>(places.positions[i]), static_cast<uint32_t>(c)) < draw.threshold);
          }
        CHECK(wrong == 0);
      }
  });
}

TEST_CASE("the backward of a fused half-layer reads what its forward dropped", "[cpu][dropout]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    const Places places;
    for (const auto& [C, F] : std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {33, 70}, {64, 256}, {300, 520}, {970, 1090}}) {
      INFO(C << " wide, " << F << " inner");
      const auto run = [&, C = C, F = F](bool room) {
        DropoutDraw in = places.draw(11, 0.2), out = places.draw(22, 0.3);
        if (room) {
          in = in.with_room(rows, F);
          out = out.with_room(rows, C);
        }
        const auto later = [&](const DropoutDraw& d) { return room ? nowhere(d) : d; };
        Matrix x(rows, C, 1), residual(rows, C, 2), dy(rows, C, 3), up(F, C, 4), down(C, F, 5), u(rows, F, 6), y(rows, C, 7),
            dx(rows, C, 8), dup(F, C, 9), ddown(C, F, 10), w(C, C, 11), dw(C, C, 12);
        FeedForwardWeights<float> weights;
        weights.up = up.view();
        weights.down = down.view();
        weights.activation = Activation::gelu;
        weights.dropout_in = in;
        weights.dropout_out = out;
        FeedForwardForward<float>::cpu(places.on, weights, x.view(), residual.view(), y.view(), {u.view(), nullptr, nullptr});
        weights.dropout_in = later(in);
        weights.dropout_out = later(out);
        FeedForwardBackward<float>::cpu(places.on, weights, dy.view(), x.view(), {u.view(), nullptr, nullptr}, dx.view(), Write::overwrite,
                                        {nullptr, nullptr, dup.view(), nullptr, ddown.view(), nullptr});
        LinearResidualForward<float>::cpu(places.on, y.view(), w.view(), nullptr, out, residual.view(), x.view());
        LinearResidualBackward<float>::cpu(places.on, dy.view(), y.view(), w.view(), later(out), dx.view(), Write::add, dw.view(), nullptr);
        return std::vector<Matrix>{y, x, dx, dup, ddown, dw};
      };
      const std::vector<Matrix> drawn = run(false), read = run(true);
      for (size_t i = 0; i < drawn.size(); ++i) CHECK(read[i].same_bytes(drawn[i]));
    }
  });
}
