#include "egress/dns_message.hpp"

#include <algorithm>
#include <cstring>

namespace cove::egress {
namespace {

namespace ip = boost::asio::ip;

constexpr std::size_t kHeaderSize = 12;
constexpr std::size_t kLongestEncodedName = 255;
constexpr std::uint16_t kInternet = 1;
constexpr std::uint16_t kIsReply = 0x8000;
constexpr std::uint16_t kAuthoritative = 0x0400;
constexpr std::uint16_t kTruncated = 0x0200;
constexpr std::uint16_t kRecursionDesired = 0x0100;
constexpr std::uint16_t kRecursionAvailable = 0x0080;
constexpr std::uint16_t kOwnUdpSize = 1232;

// Reads numbers of both sizes; past the end everything is 0 and `good` is false.
struct Reader {
  std::string_view bytes;
  std::size_t at = 0;
  bool good = true;

  std::uint8_t byte() {
    if (at >= bytes.size()) good = false;
    return good ? static_cast<std::uint8_t>(bytes[at++]) : std::uint8_t{0};
  }
  std::uint16_t number() {
    const unsigned high = byte();
    return static_cast<std::uint16_t>(high << 8 | byte());
  }
  std::string_view take(std::size_t size) {
    if (!good || bytes.size() - at < size) {
      good = false;
      return {};
    }
    at += size;
    return bytes.substr(at - size, size);
  }
};

void put(std::string& out, std::uint16_t number) {
  out += static_cast<char>(number >> 8);
  out += static_cast<char>(number & 0xff);
}

struct Header {
  std::uint16_t id = 0;
  std::uint16_t flags = 0;
  std::uint16_t questions = 0;
  std::uint16_t answers = 0;
  std::uint16_t authorities = 0;
  std::uint16_t others = 0;
};

Header read_header(Reader& reader) {
  Header header;
  for (auto* field :
       {&header.id, &header.flags, &header.questions, &header.answers, &header.authorities, &header.others})
    *field = reader.number();
  return header;
}

std::string encode_header(const Header& header) {
  std::string out;
  for (const auto field :
       {header.id, header.flags, header.questions, header.answers, header.authorities, header.others})
    put(out, field);
  return out;
}

enum class Pointers { refused, followed };

// "" for the root. Nothing if it is malformed. Pointers lead to earlier bytes only, so that there is an end.
std::optional<std::string> read_name(Reader& reader, Pointers pointers) {
  std::string name;
  std::size_t encoded = 1;
  std::size_t earliest = reader.at;
  std::optional<std::size_t> after;
  while (true) {
    const auto size = reader.byte();
    if (!reader.good) return std::nullopt;
    if (size == 0) break;
    if ((size & 0xc0U) == 0xc0U) {
      const std::size_t target = (size & 0x3fU) << 8 | reader.byte();
      if (pointers == Pointers::refused || !reader.good || target >= earliest) return std::nullopt;
      if (!after) after = reader.at;
      earliest = target;
      reader.at = target;
      continue;
    }
    if (size > 63) return std::nullopt;
    const auto label = reader.take(size);
    encoded += label.size() + 1;
    if (!reader.good || encoded > kLongestEncodedName) return std::nullopt;
    if (!name.empty()) name += '.';
    // Such a label could be mistaken for two, or for the end.
    const bool strange = label.find('.') != std::string_view::npos || label.find('\0') != std::string_view::npos;
    name += strange ? std::string_view("\\") : label;
  }
  if (after) reader.at = *after;
  return name;
}

void to_lower(std::string& text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
}

// Whether what is left is one OPT record (RFC 6891).
bool read_opt(Reader& reader) {
  const bool root = reader.byte() == 0;
  const bool opt = reader.number() == static_cast<std::uint16_t>(DnsType::opt);
  (void)reader.take(2 + 4);  // size, flags
  (void)reader.take(reader.number());
  return root && opt && reader.good;
}

struct Resource {
  std::string owner;
  std::uint16_t type = 0;
  std::uint16_t klass = 0;
  std::size_t begin = 0;  // of the data
  std::uint16_t size = 0;
};

std::optional<Resource> read_resource(Reader& reader) {
  Resource resource;
  auto owner = read_name(reader, Pointers::followed);
  if (!owner) return std::nullopt;
  resource.owner = std::move(*owner);
  to_lower(resource.owner);
  resource.type = reader.number();
  resource.klass = reader.number();
  (void)reader.take(4);
  resource.size = reader.number();
  resource.begin = reader.at;
  (void)reader.take(resource.size);
  if (!reader.good) return std::nullopt;
  return resource;
}

std::optional<ip::address> address_in(std::string_view message, const Resource& resource) {
  const auto* data = message.data() + resource.begin;
  if (resource.type == static_cast<std::uint16_t>(DnsType::a) && resource.size == 4) {
    ip::address_v4::bytes_type bytes{};
    std::memcpy(bytes.data(), data, bytes.size());
    return ip::address_v4(bytes);
  }
  if (resource.type == static_cast<std::uint16_t>(DnsType::aaaa) && resource.size == 16) {
    ip::address_v6::bytes_type bytes{};
    std::memcpy(bytes.data(), data, bytes.size());
    return ip::address_v6(bytes);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::variant<DnsQuestion, DnsMalformed>> parse_query(std::string_view message) {
  using Parsed = std::variant<DnsQuestion, DnsMalformed>;
  Reader reader{message};
  const auto header = read_header(reader);
  // Never an answer to an answer.
  if (!reader.good || (header.flags & kIsReply) != 0) return std::nullopt;
  const auto malformed = [&header](DnsCode code) {
    return std::optional<Parsed>(DnsMalformed{.id = header.id, .code = code});
  };
  if ((header.flags & 0x7800U) != 0) return malformed(DnsCode::not_implemented);
  if (header.questions != 1 || header.answers != 0 || header.authorities != 0 || header.others > 1)
    return malformed(DnsCode::format_error);
  DnsQuestion question{
      .id = header.id, .recursion_desired = (header.flags & kRecursionDesired) != 0, .edns = header.others == 1};
  auto name = read_name(reader, Pointers::refused);
  if (!name) return malformed(DnsCode::format_error);
  question.name = std::move(*name);
  question.type = static_cast<DnsType>(reader.number());
  question.internet = reader.number() == kInternet;
  if (!reader.good) return malformed(DnsCode::format_error);
  question.encoded = message.substr(kHeaderSize, reader.at - kHeaderSize);
  if (question.edns && !read_opt(reader)) return malformed(DnsCode::format_error);
  if (reader.at != message.size()) return malformed(DnsCode::format_error);
  return std::optional<Parsed>(std::move(question));
}

std::string encode_answer(const DnsQuestion& question, DnsCode code, const std::vector<ip::address>& addresses) {
  std::string records;
  std::uint16_t count = 0;
  for (const auto& address : addresses) {
    if (question.type != (address.is_v4() ? DnsType::a : DnsType::aaaa)) continue;
    put(records, 0xc000 | kHeaderSize);  // the name of the question
    put(records, static_cast<std::uint16_t>(question.type));
    put(records, kInternet);
    put(records, 0);
    put(records, kDnsTtl);
    const auto add = [&records](const auto& bytes) {
      put(records, static_cast<std::uint16_t>(bytes.size()));
      records.append(bytes.begin(), bytes.end());
    };
    if (address.is_v4())
      add(address.to_v4().to_bytes());
    else
      add(address.to_v6().to_bytes());
    ++count;
  }
  const auto asked = question.recursion_desired ? kRecursionDesired : std::uint16_t{0};
  const auto flags =
      static_cast<std::uint16_t>(kIsReply | kAuthoritative | asked | kRecursionAvailable | static_cast<unsigned>(code));
  std::string out = encode_header({.id = question.id,
                                   .flags = flags,
                                   .questions = 1,
                                   .answers = count,
                                   .others = static_cast<std::uint16_t>(question.edns ? 1 : 0)});
  out += question.encoded;
  out += records;
  if (question.edns) {
    out += '\0';
    put(out, static_cast<std::uint16_t>(DnsType::opt));
    put(out, kOwnUdpSize);
    out.append(6, '\0');  // code, version, flags, no options
  }
  return out;
}

std::string encode_answer(const DnsMalformed& malformed) {
  return encode_header(
      {.id = malformed.id, .flags = static_cast<std::uint16_t>(kIsReply | static_cast<unsigned>(malformed.code))});
}

std::string encode_query(std::uint16_t id, std::string_view name, DnsType type) {
  std::string out = encode_header({.id = id, .flags = kRecursionDesired, .questions = 1});
  while (!name.empty()) {
    const auto dot = std::min(name.find('.'), name.size());
    out += static_cast<char>(dot);
    out += name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  out += '\0';
  put(out, static_cast<std::uint16_t>(type));
  put(out, kInternet);
  return out;
}

std::optional<DnsReply> parse_reply(std::string_view message, std::uint16_t id, std::string_view name, DnsType type) {
  Reader reader{message};
  const auto header = read_header(reader);
  if (!reader.good || header.id != id || (header.flags & kIsReply) == 0 || (header.flags & 0x7800U) != 0 ||
      header.questions != 1)
    return std::nullopt;
  auto asked = read_name(reader, Pointers::refused);
  if (!asked) return std::nullopt;
  to_lower(*asked);
  if (*asked != name || reader.number() != static_cast<std::uint16_t>(type) || reader.number() != kInternet ||
      !reader.good)
    return std::nullopt;

  DnsReply reply{.code = static_cast<DnsCode>(header.flags & 0xfU), .truncated = (header.flags & kTruncated) != 0};
  if (reply.truncated || reply.code != DnsCode::none) return reply;
  std::vector<Resource> resources;
  for (std::size_t i = 0; i < std::min<std::size_t>(header.answers, kMaxDnsRecords); ++i) {
    auto resource = read_resource(reader);
    if (!resource) return std::nullopt;
    if (resource->klass == kInternet) resources.push_back(std::move(*resource));
  }
  std::string owner(name);
  for (std::size_t hops = 0; hops <= resources.size(); ++hops) {
    const auto alias = std::ranges::find_if(resources, [&owner](const Resource& resource) {
      return resource.type == static_cast<std::uint16_t>(DnsType::cname) && resource.owner == owner;
    });
    if (alias == resources.end()) break;
    Reader data{message, alias->begin};
    auto to = read_name(data, Pointers::followed);
    if (!to || data.at != alias->begin + alias->size) return std::nullopt;
    to_lower(*to);
    owner = std::move(*to);
  }
  for (const auto& resource : resources) {
    if (resource.owner != owner || resource.type != static_cast<std::uint16_t>(type) ||
        reply.addresses.size() == kMaxDnsAddresses)
      continue;
    if (const auto address = address_in(message, resource)) reply.addresses.push_back(*address);
  }
  return reply;
}

}  // namespace cove::egress
