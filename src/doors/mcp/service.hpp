#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "doors/mcp/prompt.hpp"
#include "doors/mcp/resources.hpp"
#include "doors/mcp/tool.hpp"
#include "mcp/notifier.hpp"
#include "mcp/peer.hpp"
#include "mcp/tasks.hpp"

namespace cove::doors::mcp {

// The tools, prompts and resources offered to clients.
struct Offer {
  std::vector<Tool> tools;
  std::vector<Prompt> prompts;
  std::vector<std::unique_ptr<Resources>> resources;
};

// What fixtures for the protocol's conformance suites can add to.
struct FixtureTarget {
  Offer& offer;
  cove::mcp::Notifier& notifier;
  cove::mcp::Tasks& tasks;
  async::TaskGroup& background;
};
using AddFixtures = void (*)(FixtureTarget bench);
// Registers `add`, which is called when the configuration asks for fixtures (mcp.fixtures). Only the program
// cove-mcp-fixtures does so, before main().
void set_fixtures(AddFixtures add);

// The MCP service: tools, prompts, resources, and tool calls that run as tasks.
class CodeService : public cove::mcp::Service {
 public:
  CodeService(boost::asio::any_io_executor executor, Services& services);

  [[nodiscard]] boost::json::object info() const override;
  [[nodiscard]] std::string instructions() const override;
  [[nodiscard]] boost::json::object capabilities(cove::mcp::Revision revision) const override;
  Task<cove::mcp::Or<>> serve(cove::mcp::Call& call) override;
  void forget(const std::string& connection) override { context_.sessions.forget(connection); }
  Task<cove::mcp::Or<>> honour(cove::mcp::Call& call, cove::mcp::Subscriptions& subscriptions) override;
  [[nodiscard]] cove::mcp::Notifier& notifier() override { return notifier_; }
  [[nodiscard]] bool ending() const override { return context_.services.draining(); }
  [[nodiscard]] boost::json::object input_schema(std::string_view tool) const override;
  [[nodiscard]] const cove::mcp::Seal& seal() const override { return seal_; }

  [[nodiscard]] const RecentOutputs& outputs() const { return context_.outputs; }

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
  static Task<cove::mcp::Or<>> run_in_task(CodeService* self, std::shared_ptr<cove::mcp::Call> call, Tool tool,
                                           boost::json::object arguments);
  // Notifies a tenant that its list of resources has changed; changes close together are one notification.
  static Task<> notify_resources_changed(CodeService* self, std::string tenant);
  Task<cove::mcp::Or<>> as_task(cove::mcp::Call& call, const Tool& tool, boost::json::object arguments);
  // Whether this call becomes a task; a fault when the tool does not allow the way it is called.
  cove::mcp::Or<bool> becomes_task(const cove::mcp::Call& call, const Tool& tool,
                                   const boost::json::object& arguments) const;
  Resources* source_of(std::string_view uri) const;
  [[nodiscard]] std::size_t page_size() const;

  ToolContext context_;
  cove::mcp::Notifier notifier_;
  cove::mcp::Tasks tasks_;
  Offer offer_;
  std::set<std::string> changed_;  // tenants with a notification pending
  cove::mcp::Seal seal_;
};

}  // namespace cove::doors::mcp
