// SPDX-License-Identifier: Apache-2.0
// `tapeformer attn`: which rows each row may look at, or what it takes of them, for one sequence; as pictures and as HDF5.
#include <algorithm>
#include <filesystem>

#include "framework/io/durable_file.h"
#include "framework/io/hdf5.h"
#include "framework/io/png.h"
#include "models/attention/head_attention.h"
#include "models/sequence_model.h"
#include "tools/attn_input.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct Options {
  AttnInput input;
  std::string prefix;
  int64_t layer = -1, head = -1;  // -1: all
  int64_t pixels = 0;             // a pair's side; 0: so many that the picture has at least 256
  bool pattern = false, weights = false;
};

// Of one layer: [heads, n, n], the pairs allowed (0 or 1) or the weights.
struct Map {
  size_t layer = 0;
  int64_t heads = 0, n = 0;
  std::vector<float> values;
  std::span<const float> of(int64_t head) const {
    return std::span(values).subspan(static_cast<size_t>(head * n * n), static_cast<size_t>(n * n));
  }
};

// The heads of a layer's attention; null where it is not made of heads.
const models::HeadAttention* heads_of(models::Encoder& encoder, size_t layer) {
  return dynamic_cast<const models::HeadAttention*>(&encoder.attention(layer));
}

[[noreturn]] void refuse_weights(const std::string& where) {
  fail(ExitCode::usage, "{}: its attention mixes rows without a matrix of weights; look at its --pattern", where);
}

Map weights_of(models::Encoder& encoder, size_t layer, int64_t heads, AttnSubject& s, Structures* structures = nullptr) {
  Context context{.on = s.on, .mode = Mode::evaluate, .dtype = s.experiment.train.dtype};
  context.structures = structures;
  const Tensor weights = encoder.attention_weights(context, s.batch, layer);
  if (!weights.defined()) refuse_weights(fmt::format("layer {}", layer));
  const Tensor single = weights.dtype() == Dtype::f32 ? weights.clone() : weights.converted(Dtype::f32);
  const auto values = single.span<float>();
  if (const auto bad = std::find_if_not(values.begin(), values.end(), [](float w) { return std::isfinite(w); }); bad != values.end())
    fail(ExitCode::nonfinite, "layer {}: a weight is not finite", layer);
  return {layer, heads, weights.shape()[1], {values.begin(), values.end()}};
}

// As each head's variant says for this length. Where it decides from the data, the pairs that have a weight for this sequence.
Map pattern_of(models::Encoder& encoder, size_t layer, int64_t heads, AttnSubject& s) {
  const auto n = static_cast<int32_t>(s.batch.packing.rows() + encoder.extra_rows());
  const models::HeadAttention* of_heads = heads_of(encoder, layer);
  Structures decided;
  Map weights;
  if (of_heads && of_heads->any_weights()) weights = weights_of(encoder, layer, heads, s, &decided);
  const auto decides = [&](const models::Heads& group) {
    const std::string name = group.settings().name + ".";
    return std::any_of(decided.begin(), decided.end(), [&](const auto& one) { return one.first.starts_with(name); });
  };
  Map map{layer, heads, n, {}};
  map.values.reserve(static_cast<size_t>(heads) * static_cast<size_t>(n) * static_cast<size_t>(n));
  for (int h = 0; h < heads; ++h) {
    const models::Heads* group = of_heads ? &of_heads->group_of(h) : nullptr;
    if (group && decides(*group)) {
      for (const float value : weights.of(h)) map.values.push_back(value != 0 ? 1.F : 0.F);
      continue;
    }
    for (int32_t i = 0; i < n; ++i)
      for (int32_t j = 0; j < n; ++j) {
        const bool seen = group ? group->allowed_in_layer(n, h, i, j) : encoder.attention(layer).mixes(n, i, j);
        map.values.push_back(seen ? 1.F : 0.F);
      }
  }
  return map;
}

std::vector<int64_t> chosen(const char* option, int64_t asked, int64_t all) {
  if (asked >= all) fail(ExitCode::usage, "{} {}: the model has {}, from 0", option, asked, all);
  if (asked >= 0) return {asked};
  std::vector<int64_t> out;
  for (int64_t i = 0; i < all; ++i) out.push_back(i);
  return out;
}

// Rows are queries from the top, columns keys from the left; black is allowed, or the largest weight of the head.
std::string picture(const Map& map, int64_t head, int64_t pixels, bool two) {
  const auto values = map.of(head);
  const float largest = std::max(*std::max_element(values.begin(), values.end()), std::numeric_limits<float>::min());
  io::GreyImage image{map.n * pixels, map.n * pixels, {}};
  image.pixels.reserve(static_cast<size_t>(image.width * image.height));
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x) {
      const float share = values[static_cast<size_t>(y / pixels * map.n + x / pixels)] / largest;
      image.pixels.push_back(static_cast<uint8_t>(std::lround(255 * (1 - std::clamp(share, 0.F, 1.F)))));
    }
  return io::png_bytes(image, two ? io::PngDepth::black_and_white : io::PngDepth::grey);
}

std::string hdf5_of(const std::vector<Map>& maps, const std::vector<int64_t>& heads, const AttnSubject& s, bool pattern,
                    const std::string& name) {
  io::Hdf5File file = io::Hdf5File::create_image(name);
  file.write_attribute("/", "encoding-type", std::string("attention-map"));
  file.write_attribute("/", "encoding-version", std::string("1.0"));
  file.write_attribute("/", "source", s.source);
  if (!s.tokens.empty()) file.write_texts("/tokens", s.tokens);
  file.write("/heads", Tensor::of<int64_t>(heads));
  for (const Map& map : maps) {
    const Shape shape{static_cast<int64_t>(heads.size()), map.n, map.n};
    const std::string path = fmt::format("/encoder.layers.{}.attention/{}", map.layer, pattern ? "pattern" : "weights");
    Tensor all(pattern ? Dtype::u8 : Dtype::f32, shape);
    for (size_t h = 0; h < heads.size(); ++h) {
      const auto values = map.of(heads[h]);
      const size_t at = h * values.size();
      if (pattern) std::copy(values.begin(), values.end(), all.data<uint8_t>() + at);
      else std::copy(values.begin(), values.end(), all.data<float>() + at);
    }
    file.write(path, all);
    file.write_axis_labels(path, {"head", "query", "key"});
  }
  return file.take_image();
}

std::string line_of(const Map& map, int64_t head, bool pattern, const std::string& file) {
  const auto values = map.of(head);
  const auto pairs = std::count_if(values.begin(), values.end(), [](float v) { return v != 0; });
  const double share = 100.0 * static_cast<double>(pairs) / static_cast<double>(values.size());
  return fmt::format("layer {} head {}: {} of {} pairs {} ({:.1f} %){}  {}\n", map.layer, head, pairs, values.size(),
                     pattern ? "allowed" : "have a weight", share,
                     pattern ? "" : fmt::format(", the largest {:.4g}", *std::max_element(values.begin(), values.end())), printable(file));
}

// PREFIX as it was meant where it ends like one of the files.
std::string without_ending(const std::string& prefix) {
  const std::filesystem::path path(prefix);
  return path.extension() == ".png" || path.extension() == ".h5" ? std::filesystem::path(path).replace_extension().string() : prefix;
}

ExitCode attn(Command& command, const Options& o) {
  const bool pattern = o.pattern;
  AttnSubject s = attn_subject(o.input, command);
  auto* model = dynamic_cast<models::SequenceModel*>(s.model.get());
  require(model != nullptr, "a model that is not a sequence model has no attention to show");
  models::Encoder& encoder = model->encoder();
  const int64_t heads = s.experiment.model.attention.heads;
  const std::vector<int64_t> layers = chosen("--layer", o.layer, s.experiment.model.layers), of_layer = chosen("--head", o.head, heads);
  std::vector<Map> maps;
  for (const int64_t layer : layers)
    for (const int64_t head : of_layer)
      if (const auto* all = heads_of(encoder, static_cast<size_t>(layer));
          !pattern && all && !all->group_of(static_cast<int>(head)).has_weights())
        refuse_weights(fmt::format("layer {}, head {}", layer, head));
  for (const int64_t layer : layers)
    maps.push_back(pattern ? pattern_of(encoder, static_cast<size_t>(layer), heads, s)
                           : weights_of(encoder, static_cast<size_t>(layer), heads, s));
  // All is computed before anything is written.
  const std::string prefix = without_ending(o.prefix);
  std::vector<std::pair<std::string, std::string>> files{{prefix + ".h5", hdf5_of(maps, of_layer, s, pattern, prefix + ".h5")}};
  std::string lines;
  const bool one = maps.size() * of_layer.size() == 1;
  for (const Map& map : maps)
    for (const int64_t head : of_layer) {
      const int64_t pixels = o.pixels > 0 ? o.pixels : (255 + map.n) / map.n;
      files.emplace_back(prefix + (one ? "" : fmt::format("-layer{}-head{}", map.layer, head)) + ".png",
                         picture(map, head, pixels, pattern));
      lines += line_of(map, head, pattern, files.back().first);
    }
  for (const auto& [name, bytes] : files) io::write_output(name, bytes);
  return print_result(lines);
}

}  // namespace

void add_attn(const Verb& program, Command& command) {
  auto o = std::make_shared<Options>();
  const Verb sub = program.verb("attn", "Pictures of a model's attention for one sequence");
  sub.option("MODEL", o->input.model, "RUN (its best checkpoint, or the last), CHECKPOINT, or CONFIG for an untrained model").required();
  sub.option(
      "FILE", o->input.words,
      "FILE with samples, as predict reads it; and overrides key.path=value: with a CONFIG of any key (~key.path removes one), with a "
      "RUN as predict takes them");
  sub.option("-o,--output", o->prefix, "PREFIX.h5 and PREFIX.png (or PREFIX-layer0-head0.png, ...) are written").required();
  const Option text = sub.option("--text", o->input.text, "The sequence");
  sub.option("--length", o->input.length, "A random sequence of so many rows").range(1, 1 << 20).excludes(text);
  sub.option("--sample", o->input.sample, "Number of the sample in FILE").range(1, 1 << 30);
  sub.option("--input", o->input.input_kind, "Of FILE: text, csv, tsv, jsonl; by its ending unless given")
      .one_of({"text", "csv", "tsv", "jsonl"});
  sub.option("--layer", o->layer, "Number of the layer, from 0; all unless given").range(0, 1000);
  sub.option("--head", o->head, "Number of the head, from 0; all unless given").range(0, 1 << 20);
  sub.option("--pixels", o->pixels, "Side of a pair in the picture").range(1, 1000);
  const Option weights = sub.flag("--weights", o->weights, "What each row takes of each row's value (unless --pattern is given)");
  sub.flag("--pattern", o->pattern, "Which rows each row may look at").excludes(weights);
  sub.runs([&command, o] { return attn(command, *o); });
}

}  // namespace tapeformer::tools
