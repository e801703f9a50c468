#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// A template's defaults for its sandboxes. 0: the server's default.
struct TemplateDefaults {
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint32_t pids = 0;
  std::uint32_t cpu_millis = 0;
  std::int64_t timeout_ms = 0;  // of one execution
  std::string env_json = "{}";

  bool operator==(const TemplateDefaults&) const = default;
};

struct TemplateRow {
  std::string name;
  std::uint32_t number = 0;         // of its directory; 0 is the host's root
  std::string status = "building";  // building, ready, failed, deleting
  std::string reason;               // why it failed
  std::int64_t created_unix_ms = 0;
  std::optional<std::int64_t> built_unix_ms;
  std::string base = "host";         // the template whose packages it includes
  std::string packages_json = "[]";  // all requested ones, including those of the base
  std::string preload_json = "[]";   // modules for its zygotes; empty: the server's
  TemplateDefaults defaults = {};
  std::uint64_t size_bytes = 0;
  std::string languages_json = "[]";
  bool kernels = false;               // kernels can run in it
  std::string installed_json = "{}";  // package to version
  std::string log;                    // of the build

  bool operator==(const TemplateRow&) const = default;
};

class TemplateTable {
 public:
  explicit TemplateTable(Database& database);

  // Inserts a row, or replaces the one of the same name.
  Result<> put(const TemplateRow& row);
  Result<> erase(std::string_view name);
  // By name.
  Result<std::vector<TemplateRow>> all();

 private:
  Statement put_, erase_, all_;
};

}  // namespace cove::store
