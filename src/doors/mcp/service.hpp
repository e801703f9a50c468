#pragma once

#include <map>
#include <string>
#include <vector>

#include "doors/mcp/tool.hpp"
#include "mcp/peer.hpp"

namespace cove::doors::mcp {

// What we offer to MCP clients: the tools.
class CodeService : public cove::mcp::Service {
 public:
  explicit CodeService(Services& services);

  [[nodiscard]] boost::json::object info() const override;
  [[nodiscard]] std::string instructions() const override;
  [[nodiscard]] boost::json::object capabilities(cove::mcp::Revision revision) const override;
  Task<cove::mcp::Or<>> serve(cove::mcp::Call& call) override;
  void forget(const std::string& connection) override { workshop_.sessions.forget(connection); }
  [[nodiscard]] boost::json::object input_schema(std::string_view tool) const override;
  [[nodiscard]] const cove::mcp::Seal& seal() const override { return seal_; }

 private:
  cove::mcp::Or<> list_tools(const boost::json::object& params) const;
  Task<cove::mcp::Or<>> call_tool(cove::mcp::Call& call);

  Workshop workshop_;
  std::vector<Tool> tools_;
  cove::mcp::Seal seal_;
};

}  // namespace cove::doors::mcp
