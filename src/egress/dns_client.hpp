#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/udp.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"

namespace cove::egress {

using NameServers = std::vector<boost::asio::ip::udp::endpoint>;

// From a setting ("192.0.2.1", "192.0.2.1:5353", "[2001:db8::1]:53"), or if that is empty from the text of
// resolv.conf(5): three servers at most.
Result<NameServers> name_servers(std::string_view setting, std::string_view resolv_conf);

// Asks name servers for the addresses of one name at a time: IPv4 and IPv6 at once, over UDP from a port of its own
// with random ids, over TCP when the answer was cut off. Knows no search domains, no /etc/hosts, and keeps nothing: an
// answer is for the connection that asked.
class DnsClient {
 public:
  struct Options {
    NameServers servers;
    std::chrono::milliseconds patience{2000};  // with one server, for one attempt
    std::size_t attempts = 2;                  // with each
    std::chrono::milliseconds for_the_other{
        250};  // how long one family's answer is waited for when the other's is there
  };
  DnsClient(boost::asio::any_io_executor executor, Options options)
      : executor_(std::move(executor)), options_(std::move(options)) {}

  // `name` is canonical. IPv4 first. Errc::not_found: no such name, or one without addresses; Errc::unavailable: nobody
  // answered in time.
  async::Task<Result<std::vector<boost::asio::ip::address>>> resolve(std::string name,
                                                                     std::chrono::steady_clock::time_point until);

 private:
  boost::asio::any_io_executor executor_;
  Options options_;
};

}  // namespace cove::egress
