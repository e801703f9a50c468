#include "mcp/client/transport.hpp"

#include "base/text.hpp"
#include "json/shape.hpp"

namespace cove::mcp::client {
namespace {

constexpr std::size_t kMaxParts = 1'000'000;  // of one message: a parsed part takes many times the memory of its text

}  // namespace

Result<boost::json::value> parse_text(std::string_view text, std::size_t max_depth) {
  const auto shape = cove::json::shape_of(text);
  if (shape.elements > kMaxParts) return fail(Errc::over_limit, fmt::format("it has over {} parts", kMaxParts));
  boost::json::parse_options options;
  options.max_depth = max_depth;
  boost::system::error_code wrong;
  auto value = boost::json::parse(boost::json::string_view(text.data(), text.size()), wrong, {}, options);
  if (wrong == boost::json::error::too_deep)
    return fail(Errc::over_limit, fmt::format("it is nested deeper than {}", max_depth));
  if (wrong) return fail(Errc::invalid, fmt::format("it is no JSON ({})", wrong.message()));
  return value;
}

std::string shown(std::string_view text, std::size_t most) {
  const bool cut = text.size() > most;
  auto out = replace_invalid_utf8(text.substr(0, most));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto byte = static_cast<unsigned char>(out[i]);
    const auto next = i + 1 < out.size() ? static_cast<unsigned char>(out[i + 1]) : 0U;
    if (byte < 0x20 || byte == 0x7f) out[i] = byte == '\n' || byte == '\t' ? ' ' : '?';
    if (byte == 0xc2 && next < 0xa0) out.replace(i, 2, "?");  // the second set of control characters
  }
  return cut ? out + "…" : out;
}

}  // namespace cove::mcp::client
