// SPDX-License-Identifier: Apache-2.0
// Catch2 2.13 or 3.x under one include: matchers by the names of 3.x, Approx in reach as in 2.13.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

using Catch::Approx;
#else
#include <catch2/catch.hpp>

namespace Catch::Matchers {
inline StdString::ContainsMatcher ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Catch::Matchers
#endif
