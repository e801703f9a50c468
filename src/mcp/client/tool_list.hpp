#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "mcp/client/client.hpp"
#include "mcp/client/transport.hpp"

namespace cove::mcp::client {

// A tool as it was listed, and what a call of it needs beside.
struct ListedTool {
  Tool tool;
  bool as_task = false;                       // 2025-11-25: it may be called as a task alone
  [[nodiscard]] bool harmless_again() const;  // it says that calling it twice does no more than calling it once
};

struct ToolList {
  std::vector<ListedTool> tools;
  std::chrono::steady_clock::time_point expires;

  [[nodiscard]] const ListedTool* find(std::string_view name) const;
};

// Asks for one page.
using AskPage = std::function<async::Task<Result<Reply>>(boost::json::object params)>;
enum class Over { stdio, http };

// All pages, within the limits. Definitions that cannot be used are left out, and `complain` is told why.
async::Task<Result<ToolList>> read_tools(AskPage ask, Limits limits, Over over,
                                         std::function<void(std::string_view)> complain);

// One definition of a list. Errc::conflict: it cannot be used, and why.
Result<ListedTool> read_tool(const boost::json::value& definition, Over over);

}  // namespace cove::mcp::client
