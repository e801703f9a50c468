#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "doors/mcp/arguments.hpp"
#include "mcp/peer.hpp"
#include "packages/installs.hpp"
#include "run/caller.hpp"
#include "sandbox/core.hpp"
#include "sandbox/file_facts.hpp"

namespace cove::doors::mcp {

using async::Task;

// What the door works with. Borrowed for the server's life.
struct Services : sandbox::Core {
  packages::Installs& installs;
};

// Whose call it is, and whether anybody still waits for it.
inline Principal principal_of(const cove::mcp::Call& call) {
  return {.tenant = call.tenant, .key_id = call.key_id};
}
inline run::Caller caller_of(const cove::mcp::Call& call) {
  return {.principal = principal_of(call), .gone = [&call] { return call.cancelled(); }};
}

// A sandbox that calls come back to, and the right to be the one that runs in it now.
struct Session {
  std::string id;  // as clients know it
  std::shared_ptr<sandbox::Sandbox> sandbox;
  sandbox::Sandbox::Activity activity;
  std::shared_ptr<void> lock;
  bool fresh = false;                                // made for this call
  std::string note;                                  // for people: what became of the one before it
  std::shared_ptr<sandbox::FileMarks> last_written;  // files that the run before wrote
};

enum class Reset { no, yes };

// Which sandbox a call means. One that is named is its tenant's under that name, for every door. Without a name it is
// one for each language and connection, which ends with the connection; and where calls stand alone, a new one.
class Sessions {
 public:
  explicit Sessions(Services& services) : services_(services) {}

  // Waits for its lock: calls of one session run one after the other, in the order they came. Where a tenant has as
  // many sessions as it may, the one that was not used for longest makes way, never one that is used now.
  Task<Result<Session>> open(cove::mcp::Call& call, std::string name, std::string language, Reset reset = Reset::no);
  // The same for what needs something to be there already. Errc::not_found for a name that is nobody's.
  Task<Result<Session>> open_existing(cove::mcp::Call& call, SessionArgument which);
  // Without waiting for a lock, for what must not wait: whoever has it may be waiting for this. Errc::not_found.
  Task<Result<std::shared_ptr<sandbox::Sandbox>>> find(const cove::mcp::Call& call, std::string name,
                                                       std::string language);
  // Ends the sandboxes of the connection: of one language, or of all ("all"). With a name, that sandbox; or, of one
  // language, its interpreter alone.
  Task<Result<std::size_t>> reset(cove::mcp::Call& call, std::string name, std::string language);
  void forget(const std::string& connection);
  // Whether it is the session without a name of somebody else's connection: to this caller it is not there.
  [[nodiscard]] bool hidden(const cove::mcp::Call& call, const std::string& name) const;

 private:
  struct LockQueue;
  // What is remembered of a session, to say what became of it.
  struct Known {
    std::chrono::steady_clock::time_point used;
    std::chrono::milliseconds idle{0};
    bool evicted = false;
    std::shared_ptr<sandbox::FileMarks> last_written = std::make_shared<sandbox::FileMarks>();
  };
  using Key = std::pair<std::string, std::string>;  // tenant, name

  Task<std::shared_ptr<void>> lock_session(cove::mcp::Call& call, std::string key);
  std::string default_name(const cove::mcp::Call& call, const std::string& language);
  Task<Result<sandbox::Registry::Ensured>> ensure(const cove::mcp::Call& call, std::string name,
                                                  std::chrono::milliseconds idle);
  Task<bool> evict_oldest(std::string tenant);
  std::string remember(const Key& key, const sandbox::Registry::Ensured& made, std::chrono::milliseconds idle);

  Services& services_;
  std::map<std::pair<std::string, std::string>, std::string> defaults_;  // connection, language: name
  std::map<std::string, std::string> tenants_;                           // of connections
  std::map<std::string, std::weak_ptr<LockQueue>> lock_queues_;
  std::map<Key, Known> known_;
};

}  // namespace cove::doors::mcp
