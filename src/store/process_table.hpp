#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// How a process ended.
struct ProcessEnd {
  std::int64_t ended_unix_ms = 0;
  std::string reason;  // exited, signalled, timeout, …
  std::optional<std::int32_t> exit_code;
  std::optional<std::int32_t> signal;
  std::int64_t duration_ms = 0;
  std::int64_t cpu_ms = 0;
  std::uint64_t stdout_bytes = 0;
  std::uint64_t stderr_bytes = 0;
  std::uint64_t last_seq = 0;

  bool operator==(const ProcessEnd&) const = default;
};

struct ProcessRow {
  std::string sandbox;       // SandboxRow::id
  std::uint32_t number = 0;  // p1 is 1; unique within the sandbox
  std::string kind;          // background, kernel, execution
  std::string command_json = "[]";
  bool terminal = false;
  bool input_open = false;
  std::int64_t started_unix_ms = 0;
  std::int64_t deadline_boot_ms = 0;  // 0: none
  std::string owner;                  // the id of the kernel or execution it runs for; "" for others
  std::string language;               // of a kernel: python, javascript
  std::string birth = "cold";         // warm: forked from a preloaded interpreter
  std::string variables_json = "[]";  // of a kernel: those it was created with
  std::optional<ProcessEnd> end;

  bool operator==(const ProcessRow&) const = default;
};

class ProcessTable {
 public:
  explicit ProcessTable(Database& database);

  // Errc::exists for a number that is taken, Errc::not_found for an unknown sandbox. `end` is ignored.
  Result<> insert(const ProcessRow& row);
  // Errc::not_found when there is no such process.
  Result<> finish(std::string_view sandbox, std::uint32_t number, const ProcessEnd& end);
  Result<> erase(std::string_view sandbox, std::uint32_t number);
  // By number.
  Result<std::vector<ProcessRow>> of(std::string_view sandbox);

 private:
  Database& database_;
  Statement insert_, finish_, erase_, of_;
};

}  // namespace cove::store
