// SPDX-License-Identifier: Apache-2.0
// Rows of a long table: numbers of their sequences, their order, and what is said of a table that has neither.
#include "datasets/row_groups.h"

#include <algorithm>

#include "tests/datasets/files.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::datasets;
using namespace tapeformer::testing;

namespace {

struct Read {
  std::vector<size_t> numbers;
  std::vector<std::string> names;
  std::vector<std::vector<size_t>> orders;
};

// All of a CSV file with the columns s and t.
Read read(const std::string& csv, const std::string& sequence, const std::string& step) {
  const Directory directory;
  directory.write("a.csv", csv);
  Source source;
  source.path = directory / "a.csv";
  source.sequence = sequence;
  source.step = step;
  const auto table = Table::open(source, Format::csv);
  RowGroups groups(*table, source);
  Read out;
  size_t sequences = 0;
  while (table->next()) {
    out.numbers.push_back(groups.add());
    sequences = std::max(sequences, out.numbers.back() + 1);
  }
  for (size_t i = 0; i < sequences; ++i) {
    out.names.push_back(groups.name(i));
    out.orders.push_back(groups.order(i));
  }
  return out;
}

constexpr const char* rows = "s,t,x\nb,2,1\na,1,2\nb,-1,3\n b ,10,4\n";

}  // namespace

TEST_CASE("rows are numbered by sequence and ordered by step") {
  const Read both = read(rows, "s", "t");
  CHECK(both.numbers == std::vector<size_t>{0, 1, 0, 0});
  CHECK(both.names == std::vector<std::string>{"b", "a"});
  CHECK(both.orders == std::vector<std::vector<size_t>>{{1, 0, 2}, {0}});
  CHECK(read(rows, "s", "").orders == std::vector<std::vector<size_t>>{{0, 1, 2}, {0}});
  const Read one = read(rows, "", "t");
  CHECK(one.numbers == std::vector<size_t>{0, 0, 0, 0});
  CHECK(one.names == std::vector<std::string>{""});
  CHECK(one.orders == std::vector<std::vector<size_t>>{{2, 1, 0, 3}});
}

TEST_CASE("a row without a place in its sequence is named") {
  struct {
    const char* csv;
    const char* says;
  } const table[] = {
      {"s,t\na,1\na,2\na,1\n", "a.csv:4: row 3, column 't': step 1 of sequence 'a' stands in row 1 too"},
      {"s,t\na,1\n ,2\n", "a.csv:3: row 2, column 's': the name of the sequence is missing"},
      {"s,t\na,\n", "a.csv:2: row 1, column 't': the step must be a finite number, found ''"},
      {"s,t\na,inf\n", "a.csv:2: row 1, column 't': the step must be a finite number, found 'inf'"},
      {"s,t\na,x\n", "a.csv:2: row 1, column 't': 'x' is no number"},
      {"s,u\na,1\n", "column 't'"},
      {"u,t\na,1\n", "column 's'"},
  };
  for (const auto& row : table) {
    const Fault fault = fault_of([&] { read(row.csv, "s", "t"); });
    CAPTURE(row.csv, fault.text);
    CHECK(fault.code == 3);
    CHECK(fault.says(row.says));
  }
}
