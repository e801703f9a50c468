#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "async/signal.hpp"
#include "egress/audit.hpp"
#include "egress/synthetic_addresses.hpp"

namespace cove::egress {

// One connection of a sandbox: the socket inside and, once it was dialled, the one outside.
struct Flow {
  Flow(boost::asio::ip::tcp::socket inside, AuditKind kind)
      : client(std::move(inside)),
        upstream(client.get_executor()),
        changed(client.get_executor()),
        subject{.kind = kind} {}

  boost::asio::ip::tcp::socket client;
  boost::asio::ip::tcp::socket upstream;
  async::Signal changed;  // one direction has ended, or both were cut
  AuditSubject subject;
  Decision decision;
  SyntheticAddresses::Use use;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  bool judged = false;    // `decision` holds
  bool recorded = false;  // as an audit record
  bool in_done = false;
  std::string error;  // why it was cut

  // Ends both sides at once and by a reset, so that neither takes it for an orderly end.
  void cut(std::string why);
  [[nodiscard]] bool is_cut() const { return !client.is_open(); }
};

}  // namespace cove::egress
