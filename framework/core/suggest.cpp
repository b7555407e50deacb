// SPDX-License-Identifier: Apache-2.0
#include "framework/core/suggest.h"

#include <algorithm>

namespace tapeformer {
namespace {

// Optimal string alignment: insert, delete, replace, swap of neighbours, each costs 1.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() < 2 || word.size() > 64) return {};
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& k : known) {
    if (k.size() < 2 || k.size() > 64) continue;
    const size_t n = distance(word, k);
    if (n < best_distance) {
      best_distance = n;
      best = k;
    }
  }
  return best;
}

}  // namespace tapeformer
