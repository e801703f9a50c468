#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "doors/mcp/prompt.hpp"
#include "doors/mcp/resources.hpp"
#include "doors/mcp/tool.hpp"
#include "mcp/board.hpp"
#include "mcp/peer.hpp"
#include "mcp/tasks.hpp"

namespace cove::doors::mcp {

// Everything that clients find here.
struct Offer {
  std::vector<Tool> tools;
  std::vector<Prompt> prompts;
  std::vector<std::unique_ptr<Resources>> resources;
};

// What we offer to MCP clients: tools, prompts, resources, and calls that go on as tasks.
class CodeService : public cove::mcp::Service {
 public:
  CodeService(boost::asio::any_io_executor executor, Services& services);

  [[nodiscard]] boost::json::object info() const override;
  [[nodiscard]] std::string instructions() const override;
  [[nodiscard]] boost::json::object capabilities(cove::mcp::Revision revision) const override;
  Task<cove::mcp::Or<>> serve(cove::mcp::Call& call) override;
  void forget(const std::string& connection) override { workshop_.sessions.forget(connection); }
  Task<cove::mcp::Or<>> honour(cove::mcp::Call& call, cove::mcp::Wishes& wishes) override;
  [[nodiscard]] cove::mcp::Board& board() override { return board_; }
  [[nodiscard]] bool ending() const override { return workshop_.services.draining(); }
  [[nodiscard]] boost::json::object input_schema(std::string_view tool) const override;
  [[nodiscard]] const cove::mcp::Seal& seal() const override { return seal_; }

 private:
  using Method = Task<cove::mcp::Or<>> (CodeService::*)(cove::mcp::Call&);
  static const std::map<std::string_view, Method>& methods();

  Task<cove::mcp::Or<>> list_tools(cove::mcp::Call& call);
  Task<cove::mcp::Or<>> call_tool(cove::mcp::Call& call);
  Task<cove::mcp::Or<>> list_prompts(cove::mcp::Call& call);
  Task<cove::mcp::Or<>> get_prompt(cove::mcp::Call& call);
  Task<cove::mcp::Or<>> list_resources(cove::mcp::Call& call);
  Task<cove::mcp::Or<>> list_templates(cove::mcp::Call& call);
  Task<cove::mcp::Or<>> read_resource(cove::mcp::Call& call);
  Task<cove::mcp::Or<>> subscribe(cove::mcp::Call& call);
  Task<cove::mcp::Or<>> unsubscribe(cove::mcp::Call& call);
  Task<cove::mcp::Or<>> complete(cove::mcp::Call& call);
  // All calls of tools go through here.
  Task<cove::mcp::Or<>> run(cove::mcp::Call& call, Tool tool, boost::json::object arguments);
  static Task<cove::mcp::Or<>> run_on(CodeService* self, std::shared_ptr<cove::mcp::Call> call, Tool tool,
                                      boost::json::object arguments);
  // Tells that the resources of a tenant are others; once for what happens within a moment.
  static Task<> tell_of_resources(CodeService* self, std::string tenant);
  Task<cove::mcp::Or<>> as_task(cove::mcp::Call& call, const Tool& tool, boost::json::object arguments);
  // Whether this call is to become a task; the fault when it may not be what it is.
  cove::mcp::Or<bool> becomes_task(const cove::mcp::Call& call, const Tool& tool,
                                   const boost::json::object& arguments) const;
  Resources* source_of(std::string_view uri) const;
  [[nodiscard]] std::size_t page_size() const;

  Workshop workshop_;
  cove::mcp::Board board_;
  cove::mcp::Tasks tasks_;
  Offer offer_;
  std::set<std::string> changed_;  // tenants whose resources are others, and who will be told so
  cove::mcp::Seal seal_;
};

}  // namespace cove::doors::mcp
