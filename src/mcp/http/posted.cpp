#include "mcp/http/posted.hpp"

#include <algorithm>

namespace cove::mcp_http {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepth = 256;

// What is neither is answered too: with what is wrong with it.
Posted::Kind kind_of(const json::value& value) {
  const auto* object = value.if_object();
  if (object == nullptr) return Posted::Kind::request;
  if (object->contains("method")) return object->contains("id") ? Posted::Kind::request : Posted::Kind::notification;
  const bool answers = object->contains("result") || object->contains("error");
  return answers ? Posted::Kind::response : Posted::Kind::request;
}

}  // namespace

std::optional<Posted> read_posted(std::string_view body) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (body.starts_with(kByteOrderMark)) body.remove_prefix(kByteOrderMark.size());
  json::parse_options options;
  options.max_depth = kDepth;
  boost::system::error_code failed;
  Posted posted{.value = json::parse(body, failed, {}, options)};
  if (failed) return std::nullopt;
  if (const auto* batch = posted.value.if_array()) {
    const bool asks =
        std::ranges::any_of(*batch, [](const auto& element) { return kind_of(element) == Posted::Kind::request; });
    posted.kind = asks ? Posted::Kind::request : Posted::Kind::notification;
    return posted;
  }
  posted.kind = kind_of(posted.value);
  const auto* object = posted.value.if_object();
  if (object == nullptr) return posted;
  if (const auto* said = object->if_contains("id")) posted.id = *said;
  if (const auto* said = object->if_contains("method"); said != nullptr && said->is_string())
    posted.method = std::string(said->as_string());
  if (const auto* said = object->if_contains("params"); said != nullptr && said->is_object())
    posted.params = said->as_object();
  return posted;
}

}  // namespace cove::mcp_http
