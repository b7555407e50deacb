// SPDX-License-Identifier: Apache-2.0
// The machine and the clock as text, for names, messages and provenance. Nothing that is computed depends on them.
#pragma once
#include <string>

namespace tapeformer {

// "localhost" where the machine has no name.
std::string host_name();
// The time in UTC: "2026-11-29T13:45:00Z", and "20261129-134500" for names of files.
std::string utc_now();
std::string utc_stamp();
// As utc_now(), or the time that SOURCE_DATE_EPOCH says, so that a file can be made again byte by byte. Error(usage) when that is not whole
// seconds since 1970.
std::string creation_time();

}  // namespace tapeformer
