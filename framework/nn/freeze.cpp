// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/freeze.h"

#include <fnmatch.h>

#include <set>

namespace tapeformer::nn {

std::vector<std::string> freeze(const ModelState& model, const std::vector<std::string>& patterns) {
  std::vector<std::string> unmatched;
  std::set<std::string> owners;
  const auto owner = [](const std::string& name) { return name.substr(0, name.rfind('.')); };
  for (const std::string& pattern : patterns) {
    const auto matches = [&](const std::string& name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
    bool any = false;
    for (Parameter* p : model.parameters)
      if (matches(p->name)) p->trainable = false, any = true;
    for (const Buffer* b : model.buffers)
      if (matches(b->name)) owners.insert(owner(b->name));
    if (!any) unmatched.push_back(pattern);
  }
  for (Buffer* b : model.buffers) b->frozen = b->frozen || owners.contains(owner(b->name));
  return unmatched;
}

}  // namespace tapeformer::nn
