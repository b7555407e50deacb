// SPDX-License-Identifier: Apache-2.0
// Reformer (Kitaev, Kaiser, Levskaya 2020, 2001.04451): queries and keys are one projection, rows are hashed by random rotations (angular
// LSH, Andoni et al. 2015, 1509.02897), and a row attends to those hashed near it, in several rounds that make one softmax.
#include <cmath>

#include "framework/ops/attention.h"
#include "framework/ops/batched_product.h"
#include "framework/ops/columns.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/head_norm.h"
#include "models/attention/hash_rounds.h"
#include "models/attention/index_lists.h"
#include "models/attention/redraws.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct ReformerSettings : HashPattern {
  int hashes = 4, buckets = 32, second_buckets = 0;
  double logit_scale = 1;

  void read(config::Section& section) {
    section.field("hashes", hashes, config::between(1, 64), "rounds of hashing");
    section.field("buckets", buckets, config::between(2, 1 << 12), "of a round, even");
    section.field("second_buckets", second_buckets, config::between(0, 1 << 12),
                  "a second hash of that many buckets, even: a round then has the product of both; 0: none");
    section.field("chunk", chunk, config::between(1, 1 << 24), "rows of a chunk");
    section.field("before", before, config::between(0, 1 << 16), "chunks that a row sees before its own");
    section.field("after", after, config::between(0, 1 << 16), "chunks that a row sees after its own");
    section.field("same_bucket_only", same_bucket_only, "whether a row sees only rows of its own bucket");
    section.field("dedup", dedup, "whether a pair that several rounds have counts once; else as often");
    section.field("logit_scale", logit_scale, config::between(1e-3, 1e3), "factor of the scores of queries and keys of length 1");
  }
  void check(config::Section& section, const Choice& choice) const {
    const auto even = [&](std::string_view key, int value) {
      if (value % 2 != 0)
        section.fault(
            key, fmt::format("'{}' is {}, but '{}' hashes by rotations and their opposites", section.path(key), value, choice.type_key),
            "take an even number");
    };
    even("buckets", buckets);
    even("second_buckets", second_buckets);
    if (hashes == 1) section.unused("dedup", section.path("hashes"));
  }
  std::vector<std::string> projections() const { return {"query_key", "value"}; }

  int rotations() const { return (buckets + second_buckets) / 2; }  // columns of a round
  int32_t codes() const { return buckets * std::max(1, second_buckets); }
};

// The place of the largest of x and -x, the first of equals.
template <class T>
int32_t bucket(const T* x, int32_t half) {
  int32_t most = 0, least = 0;
  for (int32_t c = 1; c < half; ++c) {
    most = x[c] > x[most] ? c : most;
    least = x[c] < x[least] ? c : least;
  }
  return x[most] >= -x[least] ? most : half + least;
}

class Reformer : public Heads {
 public:
  Reformer(const nn::Builder& build, const HeadSettings& s, const ReformerSettings& own)
      : Heads(s),
        own_(own),
        redraws_(build, s),
        rotations_(build.dtype, {int64_t{s.heads} * s.head_dim, int64_t{own.hashes} * own.rotations()}) {
    draw();
  }

  HeadOutput forward(Context& context, HeadInput& input) override {
    if (drawn_ != redraws_.count()) draw();
    const HeadSettings& s = settings();
    const int64_t width = int64_t{s.heads} * s.head_dim;
    const Variable q = ops::columns(context, input.projected, {{0, width}}), v = ops::columns(context, input.projected, {{width, width}});
    const Variable k = ops::head_norm(context, q, {.heads = s.heads, .factor = scale(), .epsilon = 1e-6});
    const Tensor codes = context.structure(s.name + ".codes", [&] { return hash(context, q.value, input.packing); });
    ops::AttentionSettings how = softmax();
    how.scale = own_.logit_scale;  // keys have length 1
    return ops::attention(context, q, k, v, input.packing, std::span<const ops::AttentionPart>(parts(context, codes, input.packing)), how);
  }
  void visit(nn::Visitor& visitor) override { redraws_.visit(visitor); }
  void after_update(Context& context) override { redraws_.advance(context); }

  // Of all rounds, as if no two had the same.
  double pairs(int32_t n) const override {
    double sum = 0;
    const auto rows_until = [&](int64_t chunks) { return static_cast<double>(std::clamp<int64_t>(chunks * own_.chunk, 0, n)); };
    for (int64_t x = 0; x * own_.chunk < n; ++x)
      sum += (rows_until(x + 1) - rows_until(x)) * (rows_until(x + own_.after + 1) - rows_until(x - own_.before));
    return std::min(1.0 * n * n, std::max(1.0 * n, own_.hashes * (sum - n)));
  }
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum;
    const double heads = settings().heads, d = settings().head_dim;
    for (const int32_t n : lengths) {
      const double work = pairs(n) * d * heads, hashing = 2.0 * own_.hashes * own_.rotations() * n * d * heads;
      sum += {4 * work + hashing, 10 * work, 4.0 * n * heads * (own_.hashes + 1 + d) + pairs(n) * heads / 8};
    }
    return sum;
  }
  std::vector<double> dense_weights(const DenseInput&) const override;

 private:
  void draw() {
    const HeadSettings& s = settings();
    for (int h = 0; h < s.heads; ++h)
      for (int r = 0; r < own_.hashes; ++r)
        nn::fill_gaussian(redraws_.draw("rotations", h, r),
                          rotations_.rows(int64_t{h} * s.head_dim, s.head_dim).columns(int64_t{r} * own_.rotations(), own_.rotations()));
    drawn_ = redraws_.count();
  }

  // Buckets of round r of head h in row h * hashes + r of [heads * hashes, T].
  Tensor hash(Context& context, const Tensor& q, const Packing& packing) const {
    const int heads = settings().heads;
    const int64_t d = settings().head_dim, columns = int64_t{own_.hashes} * own_.rotations();
    std::vector<ProductGroup> groups;
    for (int b = 0; b < packing.sequences(); ++b)
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
        if (n > 0) groups.push_back({{first, n, h * d, d}, {h * d, d, 0, columns}, {first, n, h * columns, columns}});
      }
    const Tensor turned = ops::batched_product(context, Variable{q, no_node}, Variable{rotations_, no_node},
                                               {packing.rows(), heads * columns}, std::move(groups))
                              .value;
    Tensor codes(Dtype::i32, {int64_t{heads} * own_.hashes, packing.rows()});
    for_each_head(context.on, packing, heads, [&](int b, int h) {
      ops::dispatch(turned.dtype(), [&]<class T>(T) {
        for (int64_t i = packing.offsets()[static_cast<size_t>(b)]; i < packing.offsets()[static_cast<size_t>(b) + 1]; ++i)
          for (int r = 0; r < own_.hashes; ++r) {
            const T* x = turned.matrix<const T>().row(i) + h * columns + r * own_.rotations();
            int32_t code = bucket(x, own_.buckets / 2);
            if (own_.second_buckets > 0) code += own_.buckets * bucket(x + own_.buckets / 2, own_.second_buckets / 2);
            codes.matrix<int32_t>().row(h * own_.hashes + r)[i] = code;
          }
      });
    });
    return codes;
  }

  // A part for each round.
  std::vector<ops::AttentionPart> parts(const Context& context, const Tensor& codes, const Packing& packing) const {
    const int heads = settings().heads;
    std::vector<ops::AttentionPart> out(static_cast<size_t>(own_.hashes),
                                        ops::AttentionPart(static_cast<size_t>(packing.sequences() * heads)));
    for_each_head(context.on, packing, heads, [&](int b, int h) {
      std::vector<std::span<const int32_t>> rounds;
      for (int r = 0; r < own_.hashes; ++r)
        rounds.emplace_back(codes.matrix<int32_t>().row(h * own_.hashes + r) + packing.offsets()[static_cast<size_t>(b)],
                            static_cast<size_t>(packing.length(b)));
      std::vector<TilePlan> plans = hash_plans(own_, rounds, own_.codes());
      for (size_t r = 0; r < plans.size(); ++r)
        out[r][static_cast<size_t>(b * heads + h)] = std::make_shared<const TilePlan>(std::move(plans[r]));
    });
    return out;
  }

  ReformerSettings own_;
  Redraws redraws_;
  Tensor rotations_;    // [heads * D, hashes * rotations of a round]
  int64_t drawn_ = -1;  // the redraw that they are of
};

// By the definition: rounds[i][j] counts the rounds in which j's chunk is near i's.
std::vector<double> Reformer::dense_weights(const DenseInput& in) const {
  const Tensor& codes = in.structures->at(settings().name + ".codes");
  const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim);
  std::vector<double> rounds(n * n), weights(n * n);
  for (int r = 0; r < own_.hashes; ++r) {
    const int32_t* code = codes.data<int32_t>() + ((in.head - settings().first_head) * own_.hashes + r) * codes.shape()[1] + in.first;
    std::vector<int> chunk(n);
    for (size_t i = 0; i < n; ++i) {
      int rank = 0;
      for (size_t j = 0; j < n; ++j) rank += code[j] < code[i] || (code[j] == code[i] && j < i);
      chunk[i] = rank / own_.chunk;
    }
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        const int away = chunk[j] - chunk[i];
        if (away >= -own_.before && away <= own_.after && (!own_.same_bucket_only || code[i] == code[j])) rounds[i * n + j] += 1;
      }
  }
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (size_t j = 0; j < n; ++j) {
      if (j == i || rounds[i * n + j] == 0) continue;
      double dot = 0, square = 1e-6 * static_cast<double>(d);
      for (size_t e = 0; e < d; ++e) {
        dot += in.q()[i * d + e] * in.q()[j * d + e];
        square += in.q()[j * d + e] * in.q()[j * d + e];
      }
      sum += weights[i * n + j] = (own_.dedup ? 1 : rounds[i * n + j]) * std::exp(own_.logit_scale * dot / std::sqrt(square));
    }
    for (size_t j = 0; j < n && sum > 0; ++j) weights[i * n + j] /= sum;
    if (sum == 0) weights[i * n + i] = 1;
  }
  return weights;
}

}  // namespace

AttentionVariant reformer_variant() { return variant<Reformer, ReformerSettings>("reformer", true); }

}  // namespace tapeformer::models
