#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doors/mcp/resources.hpp"

namespace cove::doors::mcp {

// The output of recent executions: execution://ID/stdout and execution://ID/stderr.
class ExecutionOutputs : public Resources {
 public:
  explicit ExecutionOutputs(ToolContext& context) : context_(context) {}

  [[nodiscard]] bool knows(std::string_view uri) const override;
  [[nodiscard]] boost::json::array templates() const override;
  Task<cove::mcp::Or<Page>> list(cove::mcp::Call& call, std::string position, std::size_t most) override;
  Task<cove::mcp::Or<boost::json::array>> read(cove::mcp::Call& call, std::string uri) override;
  Task<cove::mcp::Or<std::string>> watch(cove::mcp::Call& call, std::string uri) override;
  Task<std::vector<std::string>> suggest(cove::mcp::Call& call, std::string variable,
                                         boost::json::object others) override;

 private:
  ToolContext& context_;
};

}  // namespace cove::doors::mcp
