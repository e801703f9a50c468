#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "async/task_group.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "egress/audit.hpp"
#include "egress/dns_client.hpp"
#include "egress/edge_ca.hpp"
#include "egress/flow.hpp"
#include "egress/meter.hpp"
#include "egress/pipe_pool.hpp"
#include "egress/policy.hpp"
#include "egress/refusals.hpp"
#include "egress/synthetic_addresses.hpp"

namespace cove::egress {

// What all sandboxes share.
struct Common {
  boost::asio::any_io_executor executor;
  DnsClient resolver;
  std::size_t max_connections = 1024;  // of all together; none may have more than a quarter
  // Where a connection that the sandbox's kernel redirected was meant to go.
  std::function<Result<boost::asio::ip::tcp::endpoint>(int socket)> original_destination;
  PipePool pipes{};
  std::size_t connections = 0;
  // How servers are verified where egress speaks TLS itself.
  std::function<Result<std::shared_ptr<boost::asio::ssl::context>>()> trust = {};
};

struct Counters {
  std::uint64_t connections = 0;
  std::uint64_t refused = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t dns_queries = 0;
  std::uint64_t dns_denied = 0;
  std::uint64_t dns_dropped = 0;  // over the rate
};

// Everything that egress knows of one sandbox and does for it. Its tasks hold it by a shared pointer and end after
// close().
class SandboxEgress : public std::enable_shared_from_this<SandboxEgress> {
 public:
  // Made in the sandbox's network namespace; those that are missing are not served.
  struct Sockets {
    UniqueFd relay4;
    UniqueFd relay6;
    UniqueFd dns_udp;
    UniqueFd dns_tcp;
    UniqueFd proxy;
  };

  SandboxEgress(Common& common, Policy policy, std::function<void()> on_audit);

  Result<> start(Sockets sockets);
  enum class Scope : std::uint8_t { new_connections, all_connections };
  void change(Policy policy, Scope scope);
  // For the names whose requests get headers; null when there are none, or it could not be made.
  [[nodiscard]] const std::shared_ptr<EdgeCa>& authority() const { return authority_; }
  // Ends every connection and every task.
  void close();
  // Counters, the policy without secrets, what learning proposes.
  [[nodiscard]] boost::json::object inspect() const;
  // The policy and what was refused lately, for people, and for programs inside that say why they failed.
  [[nodiscard]] std::string describe() const;

  // For those who serve its sockets.

  // Nothing, and a reset, when the sandbox has as many connections as it may have. The end of the flow is recorded when
  // its last user lets go.
  std::shared_ptr<Flow> admit(boost::asio::ip::tcp::socket client, AuditKind kind);
  // Judges the name of the flow, or its address if it has no name. Denied: recorded.
  Decision judge(Flow& flow);
  // The flow was judged for good: told once.
  void record(Flow& flow);
  void refuse(Flow& flow, Decision decision);

  [[nodiscard]] std::shared_ptr<const Policy> policy() const { return policy_; }
  Common& common;
  SyntheticAddresses names;
  Meter meter;
  AuditLog audit;
  Counters counters;
  Refusals refusals;
  async::TaskGroup tasks;

 private:
  void leave(Flow& flow);
  void learn(const Flow& flow);
  void renew_authority();

  std::shared_ptr<const Policy> policy_;
  std::shared_ptr<EdgeCa> authority_;
  std::list<Flow*> flows_;
  std::map<std::string, std::set<std::uint16_t>> learned_;
  std::optional<boost::asio::ip::tcp::acceptor> relay4_;
  std::optional<boost::asio::ip::tcp::acceptor> relay6_;
  std::optional<boost::asio::ip::tcp::acceptor> dns_tcp_;
  std::optional<boost::asio::ip::tcp::acceptor> proxy_;
  std::optional<boost::asio::ip::udp::socket> dns_udp_;
  bool closed_ = false;
};

}  // namespace cove::egress
