#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// An MCP server whose tools the code of a sandbox may call.
struct ToolServerRow {
  std::string sandbox;
  std::string name;
  std::string sealed;  // its definition, which may hold secrets, and what its tools were

  bool operator==(const ToolServerRow&) const = default;
};

// Rows go with their sandbox.
class ToolServerTable {
 public:
  explicit ToolServerTable(Database& database);

  // Inserts it, or replaces the sandbox's one of this name.
  Result<> put(const ToolServerRow& row);
  Result<> erase(std::string_view sandbox, std::string_view name);
  Result<std::vector<ToolServerRow>> of(std::string_view sandbox);

 private:
  Statement put_, erase_, of_;
};

}  // namespace cove::store
