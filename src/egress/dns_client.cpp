#include "egress/dns_client.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <optional>

#include "base/random.hpp"
#include "base/text.hpp"
#include "egress/dns_message.hpp"
#include "egress/expiry.hpp"
#include "outbound/addresses.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
namespace ip = asio::ip;
using async::Task;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::uint16_t kDnsPort = 53;
constexpr std::size_t kMaxServers = 3;
constexpr std::size_t kMaxStrangers = 32;  // datagrams in one attempt that are not what was asked for

// One family of one name.
struct Lookup {
  DnsType type{};
  std::uint16_t id = 0;
  std::optional<DnsReply> reply;

  [[nodiscard]] bool useful() const {
    return reply && (reply->code == DnsCode::none || reply->code == DnsCode::no_such_name);
  }
};
using Lookups = std::array<Lookup, 2>;

bool all_answered(const Lookups& lookups) {
  return std::ranges::all_of(lookups, [](const Lookup& lookup) { return lookup.reply.has_value(); });
}

bool has_addresses(const Lookups& lookups) {
  return std::ranges::any_of(lookups,
                             [](const Lookup& lookup) { return lookup.reply && !lookup.reply->addresses.empty(); });
}

// Over TCP the same question has an answer of any size.
Task<std::optional<DnsReply>> ask_by_tcp(ip::udp::endpoint server, std::string name, DnsType type,
                                         Clock::time_point until) {
  ip::tcp::socket socket(co_await asio::this_coro::executor);
  const Expiry expiry(socket.get_executor(), until, [&socket] {
    error_code ignored;
    socket.close(ignored);
  });
  const auto [unreached] = co_await socket.async_connect({server.address(), server.port()}, kTuple);
  if (unreached) co_return std::nullopt;
  const auto id = random_number<std::uint16_t>();
  const auto query = encode_query(id, name, type);
  std::string framed;
  framed += static_cast<char>(query.size() >> 8);
  framed += static_cast<char>(query.size() & 0xff);
  framed += query;
  const auto [unsent, sent] = co_await asio::async_write(socket, asio::buffer(framed), kTuple);
  if (unsent) co_return std::nullopt;
  std::array<unsigned char, 2> size{};
  const auto [unsized, two] = co_await asio::async_read(socket, asio::buffer(size), kTuple);
  if (unsized) co_return std::nullopt;
  std::string answer((std::size_t{size[0]} << 8) + size[1], '\0');
  const auto [unread, whole] = co_await asio::async_read(socket, asio::buffer(answer), kTuple);
  if (unread) co_return std::nullopt;
  co_return parse_reply(answer, id, name, type);
}

// Both families by datagrams, from one port that nobody knows before.
Task<> ask_by_udp(ip::udp::endpoint server, const std::string& name, Lookups& lookups, Clock::time_point until,
                  std::chrono::milliseconds for_the_other) {
  ip::udp::socket socket(co_await asio::this_coro::executor);
  error_code failed;
  socket.open(server.protocol(), failed);
  // Connected, so that the kernel takes datagrams of the server alone.
  if (!failed) socket.connect(server, failed);
  if (failed) co_return;
  Expiry expiry(socket.get_executor(), until, [&socket] {
    error_code ignored;
    socket.close(ignored);
  });
  for (auto& lookup : lookups) {
    if (lookup.useful()) continue;
    lookup.reply.reset();
    lookup.id = random_number<std::uint16_t>();
    const auto query = encode_query(lookup.id, name, lookup.type);
    const auto [unsent, size] = co_await socket.async_send(asio::buffer(query), kTuple);
    if (unsent) co_return;
  }
  std::array<char, 4096> buffer{};
  for (std::size_t strangers = 0; strangers < kMaxStrangers && !all_answered(lookups);) {
    const auto [unheard, size] = co_await socket.async_receive(asio::buffer(buffer), kTuple);
    if (unheard) co_return;
    bool taken = false;
    for (auto& lookup : lookups) {
      if (lookup.reply) continue;
      lookup.reply = parse_reply({buffer.data(), size}, lookup.id, name, lookup.type);
      taken = taken || lookup.reply;
    }
    if (!taken) ++strangers;
    if (has_addresses(lookups)) expiry.postpone(std::min(until, Clock::now() + for_the_other));
  }
}

Result<ip::udp::endpoint> parse_server(std::string_view text) {
  error_code wrong;
  auto host = std::string(text);
  std::uint16_t port = kDnsPort;
  auto address = ip::make_address(host, wrong);
  if (wrong) {
    // With a port it is written as every host is.
    if (const auto with_port = outbound::parse_host_port(text)) {
      host = with_port->host;
      port = with_port->port;
      address = ip::make_address(host, wrong);
    }
  }
  if (wrong)
    return fail(Errc::invalid, fmt::format("'{}' is not an address such as 192.0.2.1 or 192.0.2.1:5353", text));
  return ip::udp::endpoint(address, port);
}

}  // namespace

Result<NameServers> name_servers(std::string_view setting, std::string_view resolv_conf) {
  NameServers servers;
  if (!setting.empty()) {
    COVE_TRY(auto server, parse_server(setting));
    servers.push_back(server);
    return servers;
  }
  while (!resolv_conf.empty() && servers.size() < kMaxServers) {
    auto line = take_until(resolv_conf, '\n');
    constexpr std::string_view kWord = "nameserver";
    if (!line.starts_with(kWord)) continue;
    line.remove_prefix(kWord.size());
    const auto begin = line.find_first_not_of(" \t");
    if (begin == 0 || begin == std::string_view::npos) continue;
    const auto end = std::min(line.find_first_of(" \t\r#;", begin), line.size());
    error_code wrong;
    const auto address = ip::make_address(std::string(line.substr(begin, end - begin)), wrong);
    if (!wrong) servers.emplace_back(address, kDnsPort);
  }
  // As resolv.conf(5) has it.
  if (servers.empty()) servers.emplace_back(ip::address_v4::loopback(), kDnsPort);
  return servers;
}

Task<Result<std::vector<ip::address>>> DnsClient::resolve(std::string name, Clock::time_point until) {
  Lookups lookups;
  lookups[0].type = DnsType::a;
  lookups[1].type = DnsType::aaaa;
  const auto finished = [&lookups] { return has_addresses(lookups) || std::ranges::all_of(lookups, &Lookup::useful); };
  for (std::size_t attempt = 0; attempt < options_.attempts && !finished(); ++attempt) {
    for (const auto& server : options_.servers) {
      if (finished() || Clock::now() >= until) break;
      const auto patience = std::min(until, Clock::now() + options_.patience);
      co_await ask_by_udp(server, name, lookups, patience, options_.for_the_other);
      for (auto& lookup : lookups) {
        if (lookup.reply && lookup.reply->truncated)
          lookup.reply = co_await ask_by_tcp(server, name, lookup.type, patience);
      }
    }
  }
  std::vector<ip::address> addresses;
  for (const auto& lookup : lookups) {
    if (lookup.reply) addresses.insert(addresses.end(), lookup.reply->addresses.begin(), lookup.reply->addresses.end());
  }
  if (!addresses.empty()) co_return addresses;
  if (!finished()) {
    const bool answered = std::ranges::any_of(lookups, [](const Lookup& lookup) { return lookup.reply.has_value(); });
    co_return fail(Errc::unavailable,
                   fmt::format("{} could not be looked up: {}", name,
                               answered ? "the name server failed" : "no name server answered in time"));
  }
  const bool unknown = std::ranges::any_of(
      lookups, [](const Lookup& lookup) { return lookup.reply && lookup.reply->code == DnsCode::no_such_name; });
  co_return fail(Errc::not_found, fmt::format("{} {}", name, unknown ? "does not exist" : "has no address"));
}

}  // namespace cove::egress
