#include "http/access_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace cove::http {
namespace {

std::string value(std::string_view text, std::size_t limit) {
  const bool cut = text.size() > limit;
  text = text.substr(0, limit);
  const bool plain = !cut && !text.empty() && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '=';
  });
  if (plain) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c >= ' ' && c < '\x7f') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (cut) out += "...";
  out += '"';
  return out;
}

}  // namespace

std::string to_log_line(const AccessRecord& record) {
  return fmt::format("id={} peer={} tenant={} method={} target={} status={} in={} out={} ms={:.3f} agent={}",
                     value(record.id, 64), value(record.peer, 64), value(record.tenant, 128), value(record.method, 32),
                     value(record.target, 1024), record.status, record.bytes_in, record.bytes_out,
                     static_cast<double>(record.duration.count()) / 1000.0, value(record.user_agent, 256));
}

}  // namespace cove::http
