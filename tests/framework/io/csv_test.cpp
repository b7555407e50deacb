// SPDX-License-Identifier: Apache-2.0
// A corpus of tables with the rows they mean, tables that must be refused with their line, and tables larger than the read buffer.
#include "framework/io/csv.h"

#include <filesystem>
#include <fstream>
#include <random>

#include "framework/core/error.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::io;
using namespace std::string_literals;

namespace {

using Rows = std::vector<std::vector<std::string>>;

// The header and all rows.
Rows read_all(const std::filesystem::path& file, char delimiter = ',', Encoding encoding = Encoding::utf8) {
  CsvReader reader(file, delimiter, encoding);
  Rows rows{reader.columns()};
  for (CsvRow row; reader.next(row);) rows.push_back(row.fields);
  return rows;
}

std::string refusal(const Scratch& scratch, const std::string& bytes, Encoding encoding = Encoding::utf8) {
  const auto file = scratch.write("bad.csv", bytes);
  try {
    read_all(file, ',', encoding);
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::data);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("tables and the rows they mean") {
  const Scratch scratch;
  const std::pair<std::string, Rows> corpus[] = {
      {"a,b\n1,2\n", {{"a", "b"}, {"1", "2"}}},
      {"a,b\n1,2", {{"a", "b"}, {"1", "2"}}},
      {"a,b\r\n1,2\r\n", {{"a", "b"}, {"1", "2"}}},
      {"a,b\r\n1,2\r", {{"a", "b"}, {"1", "2"}}},
      {"a,b\r1,2\r3,4", {{"a", "b"}, {"1", "2"}, {"3", "4"}}},
      {"a,b\n1,2\r\n3,4\n", {{"a", "b"}, {"1", "2"}, {"3", "4"}}},
      {"\xef\xbb\xbftext,label\nx,1\n", {{"text", "label"}, {"x", "1"}}},
      {"\xef\xbb\xbf\"text\",label\nx,1\n", {{"text", "label"}, {"x", "1"}}},
      {"text,label\n\"line1\nline2\",0\n", {{"text", "label"}, {"line1\nline2", "0"}}},
      {"text,label\r\n\"line1\r\nline2\",0\r\n", {{"text", "label"}, {"line1\nline2", "0"}}},
      {"text,label\n\"line1\rline2\",0\n", {{"text", "label"}, {"line1\nline2", "0"}}},
      {"a,b\n\"say \"\"hi\"\"\",\"\"\"\"\n", {{"a", "b"}, {"say \"hi\"", "\""}}},
      {"a,b\n\"x,y\",\"\"\n", {{"a", "b"}, {"x,y", ""}}},
      {"a,b\n,\n", {{"a", "b"}, {"", ""}}},
      {"a,b\n1,", {{"a", "b"}, {"1", ""}}},
      {"a,b\n1,\"2\"", {{"a", "b"}, {"1", "2"}}},
      {"a,b\n1,\"2\"\r", {{"a", "b"}, {"1", "2"}}},
      {"a,b\n 1 , 2 \n", {{"a", "b"}, {" 1 ", " 2 "}}},
      {"a,b\n5\" pipe,x\"y\"\n", {{"a", "b"}, {"5\" pipe", "x\"y\""}}},
      {"\n\na,b\n\n1,2\n\r\n\n3,4\n\n", {{"a", "b"}, {"1", "2"}, {"3", "4"}}},
      {"text\none\n\"\"\ntwo\n", {{"text"}, {"one"}, {""}, {"two"}}},
      {"a,b\n\"\n\n\",\"\r\n\r\n\"\n", {{"a", "b"}, {"\n\n", "\n\n"}}},
      {"a,b\n\xc3\xa4,\xf0\x9f\x98\x80\n", {{"a", "b"}, {"\xc3\xa4", "\xf0\x9f\x98\x80"}}},
      {",b\n1,2\n", {{"", "b"}, {"1", "2"}}},
      {"a,b\n", {{"a", "b"}}},
      {"a,b", {{"a", "b"}}},
  };
  for (const auto& [bytes, rows] : corpus) {
    INFO(bytes);
    CHECK(read_all(scratch.write("good.csv", bytes)) == rows);
  }
}

TEST_CASE("tab-separated tables take commas as text") {
  const Scratch scratch;
  CHECK(read_all(scratch.write("t.tsv", "a,b\tc\n1,2\t\"x\ty\"\n"), '\t') == Rows{{"a,b", "c"}, {"1,2", "x\ty"}});
}

TEST_CASE("rows know their line and number") {
  const Scratch scratch;
  CsvReader reader(scratch.write("lines.csv", "a,b\r\n\"x\r\ny\",1\r\n\r\nz,2\n"), ',', Encoding::utf8);
  CsvRow row;
  REQUIRE(reader.next(row));
  CHECK((row.line == 2 && row.row == 1));
  REQUIRE(reader.next(row));
  CHECK((row.line == 5 && row.row == 2));
  CHECK(!reader.next(row));
  CHECK(!reader.next(row));
}

TEST_CASE("faults are refused with file, line and reason") {
  const Scratch scratch;
  struct Fault {
    std::string bytes;
    std::string line, reason;
  };
  const Fault faults[] = {
      {"", ":1:", "empty"},
      {"\n\n", ":1:", "empty"},
      {"\xef\xbb\xbf", ":1:", "empty"},
      {"a,b\n1,2,3\n", ":2:", "row 1 has 3 fields, the header 2"},
      {"a,b\n1,2\n\n3\n", ":4:", "row 2 has 1 fields"},
      {"a,b\n1,2\n\"x\ny\",\"open\n", ":4:", "never closed"},
      {"a,b\n1,\"", ":2:", "never closed"},
      {"a,b\n1,\"open\r", ":2:", "never closed"},
      {"a,b\n\"x\ny\"z,1\n", ":3:", "follows a closing quote"},
      {"a,b\n1,2\nx,y\0z\n"s, ":3:", "NUL byte at offset 11"},
      {"a,b\n\"x\n\xc3\x28\",1\n", ":3:", "byte 0xc3 at offset 7 is not UTF-8"},
      {"\xef\xbb\xbf"
       "a,b\n1,\xff\n",
       ":2:", "byte 0xff at offset 9"},
      {"a,b,a\n", ":1:", "two columns are named 'a'"},
      {"\xff\xfe"
       "a\0,\0b\0\n\0"s,
       ":1:", "UTF-16"},
      {"\xfe\xff\0a\0,\0b"s, ":1:", "UTF-16"},
      {"a\0,\0b\0\n\0"s, ":1:", "UTF-16"},
  };
  for (const Fault& fault : faults) {
    const std::string message = refusal(scratch, fault.bytes);
    INFO(message);
    CHECK(message.find("bad.csv" + fault.line) != message.npos);
    CHECK(message.find(fault.reason) != message.npos);
  }
  CHECK(refusal(scratch, "a,b\n1,\xe9\n").find("encoding: latin-1") != std::string::npos);
  CHECK(refusal(scratch,
                "\xef\xbb\xbf"
                "a,b\n",
                Encoding::latin1)
            .find("mark of UTF-8") != std::string::npos);
  CHECK_THROWS_AS(CsvReader("no/such.csv", ',', Encoding::utf8), Error);
  CHECK_THROWS_AS(CsvReader(scratch.path(), ',', Encoding::utf8), Error);
}

TEST_CASE("a column is found by name, a misspelled one gets a suggestion") {
  const Scratch scratch;
  CsvReader reader(scratch.write("c.csv", "text,label\nx,1\n"), ',', Encoding::utf8);
  CHECK(reader.column("label") == 1);
  CHECK_THROWS_WITH(reader.column("lable"), Catch::Matchers::ContainsSubstring("did you mean 'label'"));
  CHECK_THROWS_WITH(reader.column("zzz"), Catch::Matchers::ContainsSubstring("text, label"));
}

TEST_CASE("Latin-1 tables come out as UTF-8") {
  const Scratch scratch;
  CHECK(read_all(scratch.write("l.csv", "a,b\ncaf\xe9,\"\xfc\"\n"), ',', Encoding::latin1) ==
        Rows{{"a", "b"}, {"caf\xc3\xa9", "\xc3\xbc"}});
}

TEST_CASE("written fields read back, wherever the buffer ends") {
  const Scratch scratch;
  std::mt19937 random(7);
  const std::string pieces[] = {"a", "\"", ",", "\n", "\xc3\xa4", "long piece of text without anything special ", " "};
  Rows rows{{"x", "y", "z"}};
  std::string bytes = "x,y,z\n";
  while (bytes.size() < 5'000'000) {
    std::vector<std::string> row(3);
    for (std::string& field : row)
      for (uint32_t n = random() % 12; n > 0; --n) field += pieces[random() % std::size(pieces)];
    if (rows.size() == 3) row[1].assign(3'000'000, 'q');
    bytes += csv_field(row[0]) + "," + csv_field(row[1]) + "," + csv_field(row[2]) + (random() % 2 ? "\n" : "\r\n");
    rows.push_back(std::move(row));
  }
  CHECK(read_all(scratch.write("big.csv", bytes)) == rows);
}

TEST_CASE("a row of more than 64 MiB is refused") {
  const Scratch scratch;
  CHECK(refusal(scratch, "a,b\n1,\"" + std::string(size_t{70} << 20, 'x')).find("bad.csv:2: a row of more than 64 MiB") !=
        std::string::npos);
}

TEST_CASE("csv_field quotes only what needs it") {
  CHECK(csv_field("plain text") == "plain text");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("a,b", '\t') == "a,b");
  CHECK(csv_field("a\tb", '\t') == "\"a\tb\"");
  CHECK(csv_field("say \"hi\"") == "\"say \"\"hi\"\"\"");
  CHECK(csv_field("a\nb") == "\"a\nb\"");
}
