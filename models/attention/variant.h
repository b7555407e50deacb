// SPDX-License-Identifier: Apache-2.0
// A variant as the registry holds it, and how a variant's file describes itself: a class and its Settings, read from its own section.
#pragma once
#include "framework/config/section.h"
#include "models/attention/heads.h"

namespace tapeformer::models {

// Learned rows that the encoder puts in front of every sequence; their start is normal with this deviation.
struct ExtraRows {
  int count = 0;
  double deviation = 0.02;
  bool operator==(const ExtraRows&) const = default;
};

// Where a variant was chosen, for checks and their messages.
struct Choice {
  std::string type_key, heads_key;  // "model.attention.type" or "model.attention.groups.1.type"; where its heads are counted
  std::string causal_key;
  int heads = 1;            // of the variant; layer.heads has those of all groups
  AttentionSettings layer;  // max_length is 0 where only the data says it
};

struct AttentionVariant {
  std::string_view name;
  bool has_probabilities;  // false: dropout > 0 is an error that names both keys
  bool can_be_causal;      // false: causal is an error too
  // Reads the section that bears the variant's name, whether the variant is chosen or not.
  std::shared_ptr<const void> (*read)(config::Section&);
  // Where the variant is chosen: options that make no sense with the layer's are faults that name both keys.
  void (*check)(const void* own_settings, config::Section&, const Choice&);
  // Names of the projections that its heads read, the values last.
  std::vector<std::string> (*projections)(const void* own_settings);
  ExtraRows (*extra_rows)(const void* own_settings);
  // Exactly one of the two. Heads may stand in groups if they read query, key and value.
  std::unique_ptr<Heads> (*make_heads)(const nn::Builder&, const HeadSettings&, const void* own_settings);
  std::unique_ptr<Attention> (*make_layer)(const nn::Builder&, const std::string& name, const AttentionSettings&, const void* own_settings);
};

// All variants, in the order of variants.def.
std::span<const AttentionVariant> attention_variants();

const std::vector<std::string>& query_key_value();

// The variant of a class. `Settings` has `void read(config::Section&)` and may have
//   void check(config::Section&, const Choice&) const;
//   std::vector<std::string> projections() const;
//   ExtraRows extra_rows() const;
// A class made from (builder, HeadSettings, Settings) is Heads; one from (builder, name, AttentionSettings, Settings) an Attention.
template <class Class, class Settings>
AttentionVariant variant(std::string_view name, bool has_probabilities) {
  AttentionVariant v{};
  v.name = name;
  v.has_probabilities = has_probabilities;
  v.read = [](config::Section& section) {
    auto settings = std::make_shared<Settings>();
    settings->read(section);
    return std::shared_ptr<const void>(settings);
  };
  v.check = [](const void* own, config::Section& section, const Choice& choice) {
    if constexpr (requires(const Settings& s) { s.check(section, choice); }) static_cast<const Settings*>(own)->check(section, choice);
  };
  v.projections = [](const void* own) {
    if constexpr (requires(const Settings& s) { s.projections(); }) return static_cast<const Settings*>(own)->projections();
    else return query_key_value();
  };
  v.extra_rows = [](const void* own) {
    if constexpr (requires(const Settings& s) { s.extra_rows(); }) return static_cast<const Settings*>(own)->extra_rows();
    else return ExtraRows{};
  };
  if constexpr (requires { Class::can_be_causal; }) v.can_be_causal = Class::can_be_causal;
  if constexpr (std::is_base_of_v<Heads, Class>) {
    v.make_heads = [](const nn::Builder& build, const HeadSettings& settings, const void* own) {
      return std::unique_ptr<Heads>(std::make_unique<Class>(build, settings, *static_cast<const Settings*>(own)));
    };
  } else {
    v.make_layer = [](const nn::Builder& build, const std::string& name, const AttentionSettings& settings, const void* own) {
      return std::unique_ptr<Attention>(std::make_unique<Class>(build, name, settings, *static_cast<const Settings*>(own)));
    };
  }
  return v;
}

}  // namespace tapeformer::models
