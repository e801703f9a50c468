#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <vector>

#include "base/unique_fd.hpp"
#include "kernel/requirement.hpp"
#include "sys/local_routes.hpp"
#include "sys/loopback.hpp"
#include "sys/redirects.hpp"
#include "sys/way_rules.hpp"

namespace cove::sys {
namespace {

// Runs `body` in a network namespace of its own. It returns the number of the expectation that failed, or 0.
int in_own_network(const std::function<int()>& body) {
  const auto child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && bring_up_loopback() ? body() : 99);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

sockaddr_in at(const char* address, std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &to.sin_addr);
  return to;
}

int connect_to(const char* address, std::uint16_t port, UniqueFd* connected = nullptr) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto to = at(address, port);
  const int failed = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
  if (connected != nullptr) *connected = std::move(socket);
  return failed;
}

constexpr std::array<std::uint8_t, 16> kSynthetic{198, 18};
constexpr std::array<std::uint8_t, 16> kInside{198, 18, 4};

TEST(NetworkOfASandbox, OpensWhatIsListedAndNothingElse) {
  const int failed = in_own_network([] {
    UniqueFd relay(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto own = at("127.0.0.1", kRelayPort);
    if (::bind(relay.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 || ::listen(relay.get(), 8) != 0)
      return 1;
    if (connect_to("198.18.0.1", 443) != ENETUNREACH) return 2;
    const LocalRoute route{.family = AF_INET, .prefix = 20, .address = kSynthetic};
    const LocalRoute except{.family = AF_INET, .prefix = 24, .kind = LocalRoute::Kind::excepted, .address = kInside};
    if (!add_local_route(route) || !add_local_route(except)) return 3;
    using Kind = WayRule::Kind;
    const std::vector<WayRule> rules{{.kind = Kind::opening,
                                      .family = AF_INET,
                                      .prefix = 20,
                                      .protocol = IPPROTO_TCP,
                                      .first_port = 443,
                                      .last_port = 444,
                                      .address = kSynthetic},
                                     {.kind = Kind::wall, .family = AF_INET}};
    for (const auto& rule : rules) {
      if (!add_way_rule(rule)) return 20;
    }
    if (const auto there = way_rules(); !there || *there != std::set(rules.begin(), rules.end())) return 21;
    const Redirect redirect{
        .family = AF_INET, .prefix = 20, .first_port = 443, .last_port = 444, .address = kSynthetic};
    if (!set_redirects(std::span(&redirect, 1), DnsRedirect::no)) return 4;
    UniqueFd client;
    if (connect_to("198.18.0.1", 443, &client) != 0) return 5;
    const UniqueFd accepted(::accept(relay.get(), nullptr, nullptr));
    sockaddr_in meant{};
    socklen_t size = sizeof meant;
    if (::getsockopt(accepted.get(), SOL_IP, SO_ORIGINAL_DST, &meant, &size) != 0) return 6;
    if (meant.sin_addr.s_addr != at("198.18.0.1", 443).sin_addr.s_addr || meant.sin_port != htons(443)) return 7;
    if (connect_to("198.18.0.1", 444) != 0) return 8;
    if (connect_to("198.18.0.1", 445) != ENETUNREACH) return 9;    // another port
    if (connect_to("198.18.4.1", 443) != ENETUNREACH) return 10;   // excepted
    if (connect_to("198.18.16.1", 443) != ENETUNREACH) return 11;  // another block
    if (connect_to("203.0.113.1", 443) != ENETUNREACH) return 12;
    if (connect_to("127.0.0.1", 443) != ECONNREFUSED) return 13;  // its own loopback is its own
    return 0;
  });
  COVE_REQUIRE(failed != 99, "no network namespaces here");
  EXPECT_EQ(failed, 0) << "the expectation with this number";
}

TEST(NetworkOfASandbox, ForgetsItsRoutesAndRules) {
  const int failed = in_own_network([] {
    const LocalRoute route{.family = AF_INET, .prefix = 20, .address = kSynthetic};
    const LocalRoute six{.family = AF_INET6, .prefix = 32, .address = {0x20, 0x01, 0x0d, 0xb8}};
    if (!add_local_route(route) || !add_local_route(six) || !set_redirects({}, DnsRedirect::yes)) return 1;
    const auto there = local_routes();
    if (!there || *there != std::set{route, six}) return 2;
    if (add_local_route(route)) return 3;
    if (!remove_local_route(route) || !remove_local_route(six) || !remove_redirects()) return 4;
    const auto left = local_routes();
    if (!left || !left->empty()) return 5;
    return connect_to("198.18.0.1", 443) == ENETUNREACH ? 0 : 6;
  });
  COVE_REQUIRE(failed != 99, "no network namespaces here");
  EXPECT_EQ(failed, 0) << "the expectation with this number";
}

}  // namespace
}  // namespace cove::sys
