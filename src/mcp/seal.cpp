#include "mcp/seal.hpp"

#include <array>
#include <span>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"

namespace cove::mcp {

namespace json = boost::json;

Seal::Seal() : key_(32, '\0') {
  fill_random(std::as_writable_bytes(std::span(key_)));
}

std::string Seal::close(const json::object& state, std::chrono::milliseconds life) const {
  const json::object content{{"until", (boot_time() + life).count()}, {"state", state}};
  auto text = to_base64url(json::serialize(content));
  const auto mark = hmac_sha256_hex(key_, text);
  return text + "." + mark;
}

std::optional<json::object> Seal::open(std::string_view sealed) const {
  const auto dot = sealed.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto text = sealed.substr(0, dot);
  if (!equal_in_constant_time(hmac_sha256_hex(key_, text), sealed.substr(dot + 1))) return std::nullopt;
  // From here on it is what we wrote.
  auto content = json::parse(from_base64url(text).value()).as_object();
  if (content.at("until").as_int64() < boot_time().count()) return std::nullopt;
  return std::move(content.at("state").as_object());
}

}  // namespace cove::mcp
