// SPDX-License-Identifier: Apache-2.0
// Rows are assigned one after another, each along a shortest path of reduced costs that may push earlier rows on to other columns.
#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/kernels/sinkhorn.h"

namespace tapeformer {
namespace {

class Assignment {
 public:
  Assignment(std::span<const double> scores, int32_t n)
      : scores_(scores), n_(static_cast<size_t>(n)), row_price_(n_), column_price_(n_), row_of_(n_, none) {}

  std::vector<int32_t> solve() {
    for (size_t row = 0; row < n_; ++row) add(row);
    std::vector<int32_t> column_of(n_);
    for (size_t c = 0; c < n_; ++c) column_of[row_of_[c]] = static_cast<int32_t>(c);
    return column_of;
  }

 private:
  static constexpr size_t none = std::numeric_limits<size_t>::max();

  double cost(size_t row, size_t column) const {
    const double score = scores_[row * n_ + column];
    return std::isfinite(score) ? -score : 0;
  }

  // Dijkstra over the columns, from `row` to the nearest free one; then the path is flipped.
  void add(size_t row) {
    std::vector<double> distance(n_, std::numeric_limits<double>::infinity());
    std::vector<size_t> before(n_, none);  // the column before this one on its path; none: it begins at `row`
    std::vector<char> done(n_);
    size_t at = none, from = row;
    double travelled = 0;
    do {
      size_t next = none;
      for (size_t c = 0; c < n_; ++c) {
        if (done[c]) continue;
        const double way = travelled + cost(from, c) - row_price_[from] - column_price_[c];
        if (way < distance[c]) {
          distance[c] = way;
          before[c] = at;
        }
        if (next == none || distance[c] < distance[next]) next = c;
      }
      at = next;
      done[at] = 1;
      travelled = distance[at];
      from = row_of_[at];
    } while (from != none);
    row_price_[row] += travelled;
    for (size_t c = 0; c < n_; ++c)
      if (done[c] && c != at) {
        row_price_[row_of_[c]] += travelled - distance[c];
        column_price_[c] -= travelled - distance[c];
      }
    for (; before[at] != none; at = before[at]) row_of_[at] = row_of_[before[at]];
    row_of_[at] = row;
  }

  std::span<const double> scores_;
  size_t n_;
  std::vector<double> row_price_, column_price_;
  std::vector<size_t> row_of_;  // of each column
};

}  // namespace

std::vector<int32_t> best_assignment(std::span<const double> scores, int32_t n) {
  require(n >= 0 && scores.size() == static_cast<size_t>(n) * static_cast<size_t>(n), "{} scores of an assignment of {}", scores.size(), n);
  return Assignment(scores, n).solve();
}

}  // namespace tapeformer
