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
  std::string path;  // below /workspace
};
// Nothing for another kind of address, and for a path that would lead out.
std::optional<WorkspaceAddress> parse_workspace_uri(std::string_view uri);

struct ResourceFile {
  std::string path;  // below /workspace
  std::uint64_t size = 0;
};
// The files of one of the caller's sessions, sorted, a thousand at the most; without hidden ones.
Task<Result<std::vector<ResourceFile>>> files_of(Services& services, cove::mcp::Call& call, std::string session);

// The files of the caller's sessions.
class FileResources : public Resources {
 public:
  FileResources(ToolContext& context, cove::mcp::Notifier& notifier) : context_(context), notifier_(notifier) {}

  [[nodiscard]] bool knows(std::string_view uri) const override;
  [[nodiscard]] boost::json::array templates() const override;
  Task<cove::mcp::Or<Page>> list(cove::mcp::Call& call, std::string place, std::size_t most) override;
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
  // Tenant, session. Shared with those who look: one may be let go after us, when the server ends.
  using Watched = std::set<std::pair<std::string, std::string>>;
  std::shared_ptr<Watched> watched_ = std::make_shared<Watched>();
};

}  // namespace cove::doors::mcp
