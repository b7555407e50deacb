// SPDX-License-Identifier: Apache-2.0
#include "tools/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tapeformer::tools {
namespace {

// Colours that people with colour blindness can tell apart (Okabe, Ito 2008), then the same dashed, then dotted.
constexpr std::array colours{"#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d00"};
constexpr std::array dashes{"", " stroke-dasharray=\"6 3\"", " stroke-dasharray=\"2 3\"", " stroke-dasharray=\"8 2 2 2\""};

constexpr double left = 70, top = 40, width = 560, height = 420, legend = 190, line_height = 17;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else out += c;
  }
  return out;
}

// An axis from base^low to base^high.
struct Axis {
  double base, low, high;
  double at(double value) const { return (std::log(value) / std::log(base) - low) / (high - low); }
};

Axis axis_of(double base, const std::vector<double>& values) {
  if (values.empty()) return {base, 0, 1};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double from = std::floor(std::log(*low) / std::log(base) + 1e-9), to = std::ceil(std::log(*high) / std::log(base) - 1e-9);
  return {base, from, std::max(to, from + 1)};
}

std::string tick_text(double base, double power) {
  const double value = std::pow(base, power);
  if (base == 2 && power >= 10) return fmt::format("{:.0f}K", value / 1024);
  return fmt::format("{:g}", value);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string grid(const Axis& x, const Axis& y) {
  std::string out;
  const auto line = [&](double x1, double y1, double x2, double y2) {
    out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>\n", x1, y1, x2, y2);
  };
  for (double p = x.low; p <= x.high; ++p) {
    const double at = left + width * (p - x.low) / (x.high - x.low);
    line(at, top, at, top + height);
    out += text_at(at, top + height + 18, "middle", tick_text(x.base, p));
  }
  for (double p = y.low; p <= y.high; ++p) {
    const double at = top + height * (1 - (p - y.low) / (y.high - y.low));
    line(left, at, left + width, at);
    out += text_at(left - 8, at + 4, "end", tick_text(y.base, p));
  }
  return out;
}

std::string curve_lines(const Curve& curve, size_t number, const Axis& x, const Axis& y) {
  const std::string style =
      fmt::format("stroke=\"{}\"{}", colours[number % colours.size()], dashes[number / colours.size() % dashes.size()]);
  std::string points, out;
  for (const auto& [px, py] : curve.points) {
    const double cx = left + width * x.at(px), cy = top + height * (1 - y.at(py));
    points += fmt::format("{:.1f},{:.1f} ", cx, cy);
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", cx, cy, colours[number % colours.size()]);
  }
  if (!points.empty()) out += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke-width=\"1.6\" {}/>\n", points, style);
  const double key = left + width + 20, at = top + 8 + line_height * static_cast<double>(number);
  out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke-width=\"1.6\" {}/>\n", key, at, key + 28, at,
                     style);
  return out + text_at(key + 34, at + 4, "start", curve.name);
}

}  // namespace

std::string log_log_svg(const Plot& plot) {
  std::vector<double> xs, ys;
  for (const Curve& c : plot.curves)
    for (const auto& [px, py] : c.points) {
      xs.push_back(px);
      ys.push_back(py);
    }
  const Axis x = axis_of(2, xs), y = axis_of(10, ys);
  const double all_height = std::max(top + height + 50, top + line_height * static_cast<double>(plot.curves.size()) + 20);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      left + width + legend, all_height);
  out += text_at(left + width / 2, 22, "middle", plot.title);
  out += grid(x, y);
  out += text_at(left + width / 2, top + height + 38, "middle", plot.x_label);
  out += fmt::format("<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n", top + height / 2,
                     escaped(plot.y_label));
  for (size_t i = 0; i < plot.curves.size(); ++i) out += curve_lines(plot.curves[i], i, x, y);
  return out + "</svg>\n";
}

}  // namespace tapeformer::tools
