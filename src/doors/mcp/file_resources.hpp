#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doors/mcp/resources.hpp"

namespace cove::doors::mcp {

// A file of a session, as a resource names it: workspace://SESSION/PATH.
struct WorkspaceAddress {
  std::string session;
  std::string path;  // relative to /workspace
};
// Nothing for another scheme, and for a path that leaves the workspace.
std::optional<WorkspaceAddress> parse_workspace_uri(std::string_view uri);

struct ResourceFile {
  std::string path;  // relative to /workspace
  std::uint64_t size = 0;
};
// The files of one of the caller's sessions, sorted, without hidden ones; at most a thousand.
Task<Result<std::vector<ResourceFile>>> files_of(Services& services, cove::mcp::Call& call, std::string session);

// The files of the caller's sessions.
class FileResources : public Resources {
 public:
  FileResources(ToolContext& context, cove::mcp::Notifier& notifier) : context_(context), notifier_(notifier) {}

  [[nodiscard]] bool knows(std::string_view uri) const override;
  [[nodiscard]] boost::json::array templates() const override;
  Task<cove::mcp::Or<Page>> list(cove::mcp::Call& call, std::string position, std::size_t most) override;
  Task<cove::mcp::Or<boost::json::array>> read(cove::mcp::Call& call, std::string uri) override;
  Task<cove::mcp::Or<std::string>> watch(cove::mcp::Call& call, std::string uri) override;
  Task<std::vector<std::string>> suggest(cove::mcp::Call& call, std::string variable,
                                         boost::json::object others) override;

 private:
  static Task<> look(FileResources* self, std::string tenant, std::string session);
  Task<> follow(std::shared_ptr<sandbox::Sandbox> sandbox, std::string tenant, std::string session);
  [[nodiscard]] bool wanted(const std::string& tenant, const std::string& session) const;

  ToolContext& context_;
  cove::mcp::Notifier& notifier_;
  // Tenant and session. Shared with the watching tasks, which may outlive this at shutdown.
  using Watched = std::set<std::pair<std::string, std::string>>;
  std::shared_ptr<Watched> watched_ = std::make_shared<Watched>();
};

}  // namespace cove::doors::mcp
