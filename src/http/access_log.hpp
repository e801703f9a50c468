#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cove::http {

// One answered (or dropped) request. Text fields are the client's and may be hostile.
struct AccessRecord {
  std::string id;
  std::string peer;
  std::string tenant;
  std::string method;
  std::string target;   // keys replaced
  unsigned status = 0;  // 0: the client left before an answer
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::chrono::microseconds duration{};
  std::string user_agent;
};

// One line of key=value without its line end. Values with anything but plain visible ASCII are quoted and escaped, and
// cut to a length, so a record can neither forge another nor send control codes to a terminal.
std::string to_log_line(const AccessRecord& record);

}  // namespace cove::http
