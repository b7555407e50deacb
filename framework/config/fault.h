// SPDX-License-Identifier: Apache-2.0
// Faults and warnings of a config, collected and then shown at once with the line they stand on.
#pragma once
#include <string>
#include <vector>

#include "framework/config/source.h"
#include "framework/core/error.h"

namespace tapeformer::config {

struct Fault {
  enum class Kind { error, warning };
  Kind kind = Kind::error;
  Place place;
  std::string message, hint;
  ExitCode code = ExitCode::usage;
};

// What a faulty config ends with: its text is the whole report, complete as it stands.
class ReportError : public Error {
 public:
  using Error::Error;
};

class Report {
 public:
  // The same message at the same place counts once: a section may be read by two components.
  void add(Fault fault);
  void error(const Place& place, std::string message, std::string hint = {}, ExitCode code = ExitCode::usage) {
    add({Fault::Kind::error, place, std::move(message), std::move(hint), code});
  }
  bool faulty() const { return errors_ > 0; }
  // That of the errors where they agree; usage otherwise.
  ExitCode code() const;
  // The whole report, sorted by file and line, with the closing count.
  std::string text() const;
  // The warnings alone, one string each, for a log that says what they are.
  std::vector<std::string> warnings() const;

 private:
  std::vector<Fault> sorted() const;
  std::vector<Fault> faults_;
  size_t errors_ = 0;
};

}  // namespace tapeformer::config
