// SPDX-License-Identifier: Apache-2.0
// Lists of sections: each map is checked like any section, named by its place, printed as a list again.
#include "framework/config/document.h"
#include "framework/core/error.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::config;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<int> read(Section root) {
  std::vector<int> sizes;
  for (Section& s : root.sections("parts", "what there is")) {
    sizes.push_back(7);
    s.field("size", sizes.back(), at_least(1), "how large");
    std::string name;
    s.section("inner", "below").field("name", name, "its name");
  }
  return sizes;
}

std::string error_of(const std::string& text) {
  try {
    Document document = Document::from_text(text, "test.yaml", {});
    read(document.root());
    document.finish();
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::usage);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a list of sections is read, printed and read again", "[sections]") {
  for (const char* text : {"parts: [{size: 3}, {inner: {name: x}}, {}]\n", "parts: []\n", "parts:\n", "{}\n"}) {
    Document document = Document::from_text(text, "test.yaml", {});
    const std::vector<int> sizes = read(document.root());
    document.finish();
    CHECK(sizes == (std::string(text).find("size") != std::string::npos ? std::vector<int>{3, 7, 7} : std::vector<int>{}));
    Document again = Document::from_text(document.resolved(), "again.yaml", {});
    CHECK(read(again.root()) == sizes);
    again.finish();
    CHECK(again.values() == document.values());
  }
}

TEST_CASE("faults in a list of sections name the item", "[sections]") {
  CHECK_THAT(error_of("parts: [{}, {size: 0}]\n"), ContainsSubstring("parts.1.size") && ContainsSubstring("test.yaml:1"));
  CHECK_THAT(error_of("parts: [{sise: 3}]\n"),
             ContainsSubstring("unknown key 'sise' in 'parts.0'") && ContainsSubstring("did you mean 'size'?"));
  CHECK_THAT(error_of("parts: [{inner: {nam: x}}]\n"), ContainsSubstring("unknown key 'nam' in 'parts.0.inner'"));
  CHECK_THAT(error_of("parts: [3]\n"), ContainsSubstring("'parts.0' must be a section with keys of its own, found 3"));
  CHECK_THAT(error_of("parts: {size: 3}\n"), ContainsSubstring("'parts' must be a list of sections, found a map"));
  CHECK_THAT(error_of("parts: big\n"), ContainsSubstring("'parts' must be a list of sections, found \"big\""));
}
