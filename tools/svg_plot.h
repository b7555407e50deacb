// SPDX-License-Identifier: Apache-2.0
// A picture of curves on two logarithmic axes, as SVG text.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tapeformer::tools {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x, y > 0, by ascending x
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<Curve> curves;  // those without points stand in the legend alone
};

// The same plot is the same bytes. Axes end at the whole powers of two (x) and ten (y) around the points.
std::string log_log_svg(const Plot&);

}  // namespace tapeformer::tools
