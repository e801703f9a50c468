#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "async/task.hpp"
#include "mcp/client/client.hpp"

namespace cove::test {

// Where the client runs: on loopback, with programs of this machine.
class Place {
 public:
  explicit Place(boost::asio::io_context& loop);
  ~Place();
  // Fit for any server: programs are started here, and 127.0.0.1 may be dialled at any port that COVE_TEST_REACH lists.
  [[nodiscard]] mcp::client::Environment environment() const;

  boost::asio::io_context& loop;

 private:
  std::unique_ptr<outbound::Client> http_;
};

// One scenario of the protocol's conformance suite, against the server it has started at `url`.
async::Task<> run_scenario(const Place& place, std::string name, std::string url, int& status);

}  // namespace cove::test
