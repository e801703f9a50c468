#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "doors/mcp/arguments.hpp"
#include "mcp/peer.hpp"
#include "network/networks.hpp"
#include "packages/installs.hpp"
#include "run/caller.hpp"
#include "sandbox/core.hpp"
#include "sandbox/file_facts.hpp"
#include "store/spool.hpp"
#include "tools/broker.hpp"

namespace cove::doors::mcp {

using async::Task;

// The services that this door uses. Borrowed for the server's life.
struct Services : sandbox::Core {
  packages::Installs& installs;
  network::Networks& networks;
  store::Spool& spool;
  tools::Broker& tools;
};

// Who made a call, and whether they still wait for it.
inline Principal principal_of(const cove::mcp::Call& call) {
  return {.tenant = call.tenant, .key_id = call.key_id, .door = "mcp", .client = call.client};
}
inline run::Caller caller_of(const cove::mcp::Call& call) {
  return {.principal = principal_of(call), .gone = [&call] { return call.cancelled(); }};
}

// A session's sandbox, locked for one call.
struct Session {
  std::string id;  // the name that clients use
  std::shared_ptr<sandbox::Sandbox> sandbox;
  sandbox::Sandbox::Activity activity;
  std::shared_ptr<void> lock;
  bool fresh = false;                                // made for this call
  std::string note;                                  // for people: what happened to the previous session of this name
  std::shared_ptr<sandbox::FileMarks> last_written;  // by the previous run
};

enum class Reset { no, yes };
enum class Existing { no, yes };

// How a call wants its session.
struct SessionWish {
  Reset reset = Reset::no;         // begin with a new one
  std::uint64_t memory_bytes = 0;  // of a new one; 0: the default
  Existing only = Existing::no;    // yes: none is made
};

// Finds the sandbox for a call. A named session is the tenant's sandbox of that name, shared with every door. Without a
// name each connection has a default session, which ends with the connection; a call without a connection gets a new
// sandbox.
class Sessions {
 public:
  explicit Sessions(Services& services) : services_(services) {}

  // What a session is made with.
  struct New {
    std::chrono::milliseconds idle{0};
    std::uint64_t memory_bytes = 0;  // 0: the default
    std::string language;            // of its first run; "": none
  };

  // Waits for the session's lock: calls in one session run one at a time, in order of arrival. At the limit of sessions
  // the tenant's least recently used one ends, unless it is in use.
  Task<Result<Session>> open(cove::mcp::Call& call, std::string name, std::string language, SessionWish wish = {});
  // Like open(), but Errc::not_found if no session has the name, also if it was closed while the call waited.
  Task<Result<Session>> open_existing(cove::mcp::Call& call, SessionArgument which);
  // Without the lock, for calls that are about the run that holds it. Errc::not_found.
  Task<Result<std::shared_ptr<sandbox::Sandbox>>> find(const cove::mcp::Call& call, std::string name,
                                                       std::string language);
  // Ends the connection's default session, or the named one; for one language, only its interpreter in it. Clients of
  // the old form have a default session for each language, which ends as a whole.
  Task<Result<std::size_t>> reset(cove::mcp::Call& call, std::string name, std::string language);
  void forget(const std::string& connection);
  // Whether the name is a default session of another connection, which this caller must not see.
  [[nodiscard]] bool hidden(const cove::mcp::Call& call, const std::string& name) const;

 private:
  struct LockQueue;
  // Remembered about a session, to explain its end.
  struct Known {
    std::chrono::steady_clock::time_point used;
    std::chrono::milliseconds idle{0};
    bool evicted = false;
    std::shared_ptr<sandbox::FileMarks> last_written = std::make_shared<sandbox::FileMarks>();
  };
  using Key = std::pair<std::string, std::string>;  // tenant, name

  Task<std::shared_ptr<void>> lock_session(cove::mcp::Call& call, std::string key);
  [[nodiscard]] bool is_gone(const std::string& connection) const;
  std::string default_name(const cove::mcp::Call& call, const std::string& language);
  Task<Result<sandbox::Registry::Ensured>> ensure(const cove::mcp::Call& call, std::string name, New wanted);
  [[nodiscard]] std::shared_ptr<sandbox::Sandbox> oldest_idle(const std::string& tenant) const;
  void mark_evicted(const sandbox::Sandbox& session);
  std::string remember(const Key& key, const sandbox::Registry::Ensured& made, std::chrono::milliseconds idle);

  Services& services_;
  std::map<std::pair<std::string, std::string>, std::string> defaults_;  // connection, language or "": name
  std::map<std::string, std::string> tenants_;                           // of connections
  std::deque<std::string> gone_;                                         // connections; tasks may outlive them
  std::map<std::string, std::weak_ptr<LockQueue>> lock_queues_;
  std::map<Key, Known> known_;
};

}  // namespace cove::doors::mcp
