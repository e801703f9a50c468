#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "async/task_group.hpp"
#include "journal/journal.hpp"
#include "sandbox/keeper_client.hpp"
#include "store/store.hpp"
#include "templates/templates.hpp"

namespace cove::sandbox {

class ToolCalls;

struct PythonStarts {
  std::uint64_t warm = 0;
  std::uint64_t cold = 0;
};

// The tenant of callers on a server without keys.
inline constexpr std::string_view kDefaultTenant = "default";

// Which zygotes fork a tenant's interpreters. Processes forked from one zygote share its hash seed and memory layout
// (docs/attacks.md ZY-01).
class ZygoteGroups {
 public:
  enum class Sharing : std::uint8_t { tenant, everyone };
  explicit ZygoteGroups(Sharing sharing = Sharing::tenant) : sharing_(sharing) {}
  // 0: the common group, which also fills the pool.
  std::uint32_t of(const std::string& tenant);

 private:
  Sharing sharing_;
  std::map<std::string, std::uint32_t> numbers_;
};

// How far the limits of a sandbox may be raised while it lives.
struct RaisableLimits {
  std::uint64_t disk_bytes = 0;
  std::uint32_t pids = 0;
};

// Services of the server that every sandbox borrows.
struct SandboxContext {
  boost::asio::any_io_executor executor;
  async::TaskGroup& tasks;
  KeeperClient& keeper;
  store::Store& store;
  templates::Templates& templates;
  journal::Journal& journal;
  int run_dir;  // directory of the control sockets on which inits listen
  PythonStarts pythons = {};
  ZygoteGroups zygotes = ZygoteGroups();
  // How long sandboxes outlive their TTL when no server comes back for them.
  std::function<std::chrono::milliseconds()> orphan_grace;
  std::function<void(std::string_view line)> note = [](std::string_view) {};  // for the log: what happened
  std::function<RaisableLimits()> raisable = [] { return RaisableLimits{}; };
  ToolCalls* tool_calls = nullptr;  // of kernels; null: there are none
};

}  // namespace cove::sandbox
