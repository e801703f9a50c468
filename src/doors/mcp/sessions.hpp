#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "config/config.hpp"
#include "http/auth.hpp"
#include "mcp/peer.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/registry.hpp"
#include "store/key_table.hpp"

namespace cove::doors::mcp {

using async::Task;

// What the door works with. Borrowed for the server's life.
struct Services {
  sandbox::Registry& registry;
  sandbox::Admission& admission;
  async::TaskGroup& tasks;
  std::function<store::KeyQuotas(const http::Principal&)> quotas;
  std::function<std::shared_ptr<const config::Config>()> config;  // of now: a reload changes it
  std::function<bool()> draining;
};

// A sandbox that calls come back to, and the right to be the one that runs in it now.
struct Session {
  std::string id;  // as clients know it
  std::shared_ptr<sandbox::Sandbox> sandbox;
  sandbox::Sandbox::Activity activity;
  std::shared_ptr<void> turn;
  bool fresh = false;  // made for this call
};

// Which sandbox a call means. One that is named is its tenant's under that name, for every door. Without a name it is
// one for each language and connection, which ends with the connection; and where calls stand alone, a new one.
class Sessions {
 public:
  explicit Sessions(Services& services) : services_(services) {}

  // Waits for its turn: calls of one session run one after the other, in the order they came.
  Task<Result<Session>> open(cove::mcp::Call& call, std::string name, std::string language);
  // The same for what needs something to be there already. Errc::not_found for a name that is nobody's.
  Task<Result<Session>> open_existing(cove::mcp::Call& call, std::string name, std::string language);
  // Without waiting for a turn, for what must not wait: whoever has it may be waiting for this. Errc::not_found.
  Task<Result<std::shared_ptr<sandbox::Sandbox>>> find(const cove::mcp::Call& call, std::string name,
                                                       std::string language);
  // Ends the sandbox of a name, or those of the connection: of one language, or of all ("all").
  Task<Result<std::size_t>> reset(cove::mcp::Call& call, std::string name, std::string language);
  void forget(const std::string& connection);

 private:
  struct Lane;
  Task<std::shared_ptr<void>> take_turn(cove::mcp::Call& call, std::string key);
  std::string default_name(const cove::mcp::Call& call, const std::string& language);

  Services& services_;
  std::map<std::pair<std::string, std::string>, std::string> defaults_;  // connection, language: name
  std::map<std::string, std::string> tenants_;                           // of connections
  std::map<std::string, std::weak_ptr<Lane>> lanes_;
};

}  // namespace cove::doors::mcp
