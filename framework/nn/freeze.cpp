// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/freeze.h"

#include <fnmatch.h>

namespace tapeformer::nn {

std::vector<std::string> freeze(const ModelState& model, const std::vector<std::string>& patterns) {
  std::vector<std::string> unmatched;
  for (const std::string& pattern : patterns) {
    const auto matches = [&](const std::string& name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
    bool any = false;
    for (Parameter* p : model.parameters)
      if (matches(p->name)) p->trainable = false, any = true;
    for (Buffer* b : model.buffers)
      if (matches(b->name)) b->frozen = true;
    if (!any) unmatched.push_back(pattern);
  }
  return unmatched;
}

}  // namespace tapeformer::nn
