// SPDX-License-Identifier: Apache-2.0
// What `tapeformer attn` looks at: a model, trained or fresh from a config, and one sequence.
#pragma once
#include <string>
#include <vector>

#include "framework/data/batch.h"
#include "tools/command.h"
#include "tools/experiment.h"

namespace tapeformer::tools {

struct AttnInput {
  std::string model;               // RUN, CHECKPOINT or CONFIG (.yaml, .yml)
  std::vector<std::string> words;  // overrides of a CONFIG, and at most one FILE with samples
  std::optional<std::string> text;
  std::string input_kind;
  int64_t sample = 1;  // of FILE, from 1
  int64_t length = 0;  // instead of a text or file: rows of tokens or numbers drawn at random
};

struct AttnSubject {
  Experiment experiment;
  data::Description description;
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<nn::Model> model;
  Execution on;
  data::Batch batch;                // the one sequence
  std::vector<std::string> tokens;  // its tokens as text; empty for numbers and for what was drawn
  std::string source;               // the checkpoint, or the config
};

AttnSubject attn_subject(const AttnInput&, Command&);

}  // namespace tapeformer::tools
