// SPDX-License-Identifier: Apache-2.0
#include "models/attention/layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/attention/head_attention.h"

namespace tapeformer::models {
namespace {

constexpr auto head_count = config::between(1, 1 << 20);

std::vector<std::string_view> variant_names() {
  std::vector<std::string_view> words;
  for (const auto& v : attention_variants()) words.push_back(v.name);
  return words;
}

// Layers have a variant each, or all the same groups.
void set_turn(AttentionSettings& settings, const std::vector<std::vector<HeadGroup>>& layers) {
  const auto here = layers.begin() + settings.layer;
  const auto same = [&](const std::vector<HeadGroup>& layer) { return layer[0].variant == (*here)[0].variant; };
  settings.turn = static_cast<int>(std::count_if(layers.begin(), here, same));
  settings.turns = static_cast<int>(std::count_if(layers.begin(), layers.end(), same));
}

class Reader {
 public:
  Reader(config::Section section, int64_t dim, int layers, int64_t max_length)
      : section_(std::move(section)), dim_(dim), layers_(layers), max_length_(max_length) {}

  AttentionLayers read() {
    const bool words = section_.given("type") || section_.given("heads");
    std::vector<config::Section> groups =
        section_.sections("groups", "a mix of heads, in place of type and heads: maps with type, heads and the type's own section");
    if (!groups.empty() && words)
      section_.fault(
          "groups",
          fmt::format("'{}' and '{}' are both given", section_.path("groups"), section_.path(section_.given("type") ? "type" : "heads")),
          "groups name the variant and the number of each group's heads: give one of the two forms");
    // What is not asked for is not printed, so that a printed config has one form too.
    if (groups.empty() || words) read_types();
    section_.field("dropout", out_.dropout, config::from_below(0, 1), "of the attention probabilities");
    section_.field("causal", out_.causal, "true: a row sees itself and what stands before it, so that what follows changes nothing");
    for (const auto& v : attention_variants()) {
      own_sections_.push_back(section_.section(v.name, "settings of this variant"));
      own_settings_.push_back(v.read(own_sections_.back()));
    }
    if (groups.empty())
      for (const size_t v : types_)
        out_.layers.push_back({{&attention_variants()[v], out_.heads, own_settings_[v], section_.path("type"), section_.path("heads")}});
    else read_groups(groups);
    if (out_.heads > 0 && dim_ % out_.heads != 0)
      section_.fault(groups.empty() ? "heads" : "groups",
                     groups.empty() ? fmt::format("'{}' is {} and does not divide 'model.dim' {}", section_.path("heads"), out_.heads, dim_)
                                    : fmt::format("'{}' have {} heads together, which do not divide 'model.dim' {}",
                                                  section_.path("groups"), out_.heads, dim_));
    check_dropout();
    check_causal();
    find_extra_rows();
    for (size_t l = 0; l < out_.layers.size(); ++l) check_own(static_cast<int>(l));
    return std::move(out_);
  }

 private:
  void read_types() {
    const std::vector<size_t> chosen =
        section_.choices("type", {0}, variant_names(), "the attention variant: one word, or a list with one word a layer");
    if (chosen.size() != 1 && chosen.size() != static_cast<size_t>(layers_))
      section_.fault("type", fmt::format("'{}' lists {} variants, 'model.layers' is {}", section_.path("type"), chosen.size(), layers_));
    for (int i = 0; i < layers_; ++i) types_.push_back(chosen.empty() ? 0 : chosen[std::min(static_cast<size_t>(i), chosen.size() - 1)]);
    section_.field("heads", out_.heads, head_count, "heads of each layer; divides model.dim");
  }

  // A group's own section stands in for the one outside.
  void read_groups(std::vector<config::Section>& groups) {
    std::vector<HeadGroup> layer;
    out_.heads = 0;
    for (config::Section& s : groups) {
      HeadGroup group;
      if (s.given() && !s.given("type"))
        s.fault("type", fmt::format("'{}' is missing", s.path("type")), "a group says which variant its heads are");
      const size_t index = s.choose("type", 0, variant_names(), "the variant of these heads");
      const AttentionVariant& v = attention_variants()[index];
      group.variant = &v;
      group.heads = 1;
      s.field("heads", group.heads, head_count, "how many heads");
      group.type_key = s.path("type");
      group.heads_key = s.path("heads");
      group.own_settings = own_settings_[index];
      if (s.given(v.name)) {
        config::Section own = s.section(v.name, "settings of this variant for these heads");
        group.own_settings = v.read(own);
        group_sections_.push_back(own);
      } else {
        group_sections_.push_back(own_sections_[index]);
      }
      if (!v.make_heads || v.projections(group.own_settings.get()) != query_key_value())
        s.fault(
            "type",
            fmt::format("'{}' is {}, which needs a whole layer and cannot stand in '{}'", s.path("type"), v.name, section_.path("groups")),
            "choose it by model.attention.type");
      out_.heads += group.heads;
      layer.push_back(std::move(group));
    }
    out_.layers.assign(static_cast<size_t>(layers_), layer);
  }

  void check_dropout() {
    for (const auto& layer : out_.layers)
      for (const HeadGroup& group : layer)
        if (out_.dropout > 0 && !group.variant->has_probabilities)
          return section_.fault("dropout",
                                fmt::format("'{}' is {}, but '{}' {} has no probabilities to drop", section_.path("dropout"), out_.dropout,
                                            group.type_key, group.variant->name),
                                "set it to 0");
  }

  void check_causal() {
    for (const auto& layer : out_.layers)
      for (const HeadGroup& group : layer)
        if (out_.causal && !group.variant->can_be_causal) {
          std::vector<std::string_view> words;
          for (const auto& v : attention_variants())
            if (v.can_be_causal) words.push_back(v.name);
          return section_.fault(
              "causal",
              fmt::format("'{}' is true, but '{}' {} has no causal form", section_.path("causal"), group.type_key, group.variant->name),
              fmt::format("set it to false, or take one that has: {}", fmt::join(words, ", ")));
        }
  }

  // The rows run through all layers, so those that ask for some must ask for the same.
  void find_extra_rows() {
    const HeadGroup* first = nullptr;
    size_t first_layer = 0;
    for (size_t l = 0; l < out_.layers.size(); ++l)
      for (const HeadGroup& group : out_.layers[l]) {
        const ExtraRows rows = group.variant->extra_rows(group.own_settings.get());
        if (rows.count == 0) continue;
        if (first && !(rows == out_.extra_rows))
          return section_.fault(
              "type",
              fmt::format("'{}' {} of layer {} has {} extra rows and '{}' {} of layer {} has {}: they run through all layers",
                          first->type_key, first->variant->name, first_layer, out_.extra_rows.count, group.type_key, group.variant->name, l,
                          rows.count),
              "give them the same number, or keep them inside their layer");
        if (!first) first = &group, first_layer = l;
        out_.extra_rows = rows;
      }
  }

  void check_own(int l) {
    AttentionSettings settings{.dim = dim_,
                               .heads = out_.heads,
                               .dropout = out_.dropout,
                               .causal = out_.causal,
                               .max_length = max_length_,
                               .layer = l,
                               .extra_rows = out_.extra_rows.count};
    set_turn(settings, out_.layers);
    const auto& layer = out_.layers[static_cast<size_t>(l)];
    for (size_t g = 0; g < layer.size(); ++g) {
      const auto checked = std::pair(layer[g].variant, g);
      if (std::count(checked_.begin(), checked_.end(), checked)) continue;  // one message for all layers
      checked_.push_back(checked);
      const auto index = static_cast<size_t>(layer[g].variant - attention_variants().data());
      config::Section& section = group_sections_.empty() ? own_sections_[index] : group_sections_[g];
      layer[g].variant->check(layer[g].own_settings.get(), section,
                              {layer[g].type_key, layer[g].heads_key, section_.path("causal"), layer[g].heads, settings});
    }
  }

  config::Section section_;
  int64_t dim_;
  int layers_;
  int64_t max_length_;
  AttentionLayers out_;
  std::vector<size_t> types_;
  std::vector<config::Section> own_sections_;              // [variants]
  std::vector<std::shared_ptr<const void>> own_settings_;  // [variants]
  std::vector<config::Section> group_sections_;
  std::vector<std::pair<const AttentionVariant*, size_t>> checked_;
};

}  // namespace

AttentionLayers read_attention(config::Section section, int64_t dim, int layers, int64_t max_length) {
  return Reader(std::move(section), dim, layers, max_length).read();
}

std::unique_ptr<Attention> make_attention(const nn::Builder& build, const std::string& name, AttentionSettings settings,
                                          const AttentionLayers& layers) {
  settings.heads = layers.heads;
  settings.dropout = layers.dropout;
  settings.causal = layers.causal;
  settings.extra_rows = layers.extra_rows.count;
  const std::vector<HeadGroup>& groups = layers.layers.at(static_cast<size_t>(settings.layer));
  set_turn(settings, layers.layers);
  if (const auto make = groups[0].variant->make_layer) return make(build, name, settings, groups[0].own_settings.get());
  std::vector<std::unique_ptr<Heads>> heads;
  HeadSettings of_group{.layer = settings, .layer_name = name, .name = name};
  of_group.head_dim = static_cast<int>(settings.dim / settings.heads);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups.size() > 1) of_group.name = fmt::format("{}.groups.{}", name, g);
    of_group.heads = groups[g].heads;
    heads.push_back(groups[g].variant->make_heads(build, of_group, groups[g].own_settings.get()));
    of_group.first_head += groups[g].heads;
  }
  return std::make_unique<HeadAttention>(build, name, settings, groups[0].variant->projections(groups[0].own_settings.get()),
                                         std::move(heads));
}

}  // namespace tapeformer::models
