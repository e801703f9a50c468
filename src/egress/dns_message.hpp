#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cove::egress {

// Messages of the domain name system (RFC 1035), as a server that knows only names and addresses and as a client of
// one. Pure functions of bytes that somebody else sent.

enum class DnsType : std::uint16_t { a = 1, cname = 5, aaaa = 28, opt = 41 };
enum class DnsCode : std::uint8_t {
  none = 0,
  format_error = 1,
  server_failure = 2,
  no_such_name = 3,
  not_implemented = 4,
  refused = 5
};

struct DnsQuestion {
  std::uint16_t id = 0;
  bool recursion_desired = false;
  bool edns = false;
  std::string name;      // as sent, with dots between the labels; a label that has a dot or a NUL makes it "\"
  std::string encoded;   // the question as it was sent
  DnsType type{};        // may be any number
  bool internet = true;  // the class is IN
};
// One query and nothing else. What is not a query at all has no answer (nullopt); what is malformed is answered with
// the code.
struct DnsMalformed {
  std::uint16_t id = 0;
  DnsCode code = DnsCode::format_error;
};
std::optional<std::variant<DnsQuestion, DnsMalformed>> parse_query(std::string_view message);

inline constexpr std::uint32_t kDnsTtl = 5;  // seconds; names stay bound to their addresses for minutes
// Addresses that are not of the question's type are left out.
std::string encode_answer(const DnsQuestion& question, DnsCode code,
                          const std::vector<boost::asio::ip::address>& addresses);
std::string encode_answer(const DnsMalformed& malformed);

// `name` is canonical.
std::string encode_query(std::uint16_t id, std::string_view name, DnsType type);

struct DnsReply {
  DnsCode code{};
  bool truncated = false;
  std::vector<boost::asio::ip::address> addresses;  // of the name, or of what its aliases in the same message lead to
};
inline constexpr std::size_t kMaxDnsRecords = 64;
inline constexpr std::size_t kMaxDnsAddresses = 16;
// Nothing unless it is a well-formed reply to exactly that query.
std::optional<DnsReply> parse_reply(std::string_view message, std::uint16_t id, std::string_view name, DnsType type);

}  // namespace cove::egress
