// SPDX-License-Identifier: Apache-2.0
// A run's state to and from a checkpoint: parameters, buffers, optimiser slots, averages, counters, and what prediction needs of the data.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/data/dataset.h"
#include "framework/io/checkpoint_file.h"
#include "framework/nn/visitor.h"
#include "framework/optim/averaging.h"
#include "framework/optim/optimizer.h"
#include "framework/train/state.h"

namespace tapeformer::train {

// The parts of a run that a checkpoint holds; the trainer owns them.
struct RunParts {
  nn::ModelState* model = nullptr;
  optim::Optimizer* optimizer = nullptr;  // null when only a model is loaded
  optim::Averaging* averaging = nullptr;
  RunState* state = nullptr;
  const data::Description* description = nullptr;
  std::string resolved_config, user_config, overrides;  // user_config: the bytes that the run was started with
  std::string config_sha256, precision;                 // "fp32"
  uint64_t seed = 0;
};

io::Checkpoint to_checkpoint(const RunParts&);

// Fills all parts; Error(checkpoint) with the whole list of differences when names or shapes do not agree.
void restore_run(const io::Checkpoint&, const std::string& file, const RunParts&);

enum class Weights : uint8_t { raw, averaged };
// Fills parameters and buffers only. Averaged weights must be in the file.
void restore_model(const io::Checkpoint&, const std::string& file, nn::ModelState&, Weights);
bool has_averages(const io::Checkpoint&);

struct TakeCounts {
  std::set<std::string> names;  // of what was taken
  int64_t copied = 0, left_in_file = 0, left_as_initialised = 0;
};
// Takes parameters and buffers by name and shape from another run. An empty pattern takes everything and refuses any difference; a pattern
// (with *) takes the names that match it and refuses a match of another shape. What starts as a copy of something (Parameter::copy_of) and
// is not in the file becomes a copy of what was taken.
TakeCounts initialise_from(const io::Checkpoint&, const std::string& file, nn::ModelState&, const std::string& pattern);

// A text of the file by its path there; Error(checkpoint) where it is missing.
const std::string& text_of(const io::Checkpoint&, const std::string& file, const std::string& name);
data::Description description_of(const io::Checkpoint&, const std::string& file);
int64_t step_of(const io::Checkpoint&);
std::optional<uint64_t> seed_of(const io::Checkpoint&);  // of its run, where the file says it
// False for what was saved only because a signal, a limit or the end came at this step.
bool is_planned(const io::Checkpoint&);
RunState state_of(const io::Checkpoint&, const std::string& file);

}  // namespace tapeformer::train
