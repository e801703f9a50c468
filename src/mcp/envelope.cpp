#include "mcp/envelope.hpp"

#include "base/principal.hpp"
#include "base/text.hpp"
#include "json/fields.hpp"
#include "mcp/call.hpp"

#include <fmt/format.h>

namespace cove::mcp {

namespace json = boost::json;

std::string envelope_key(std::string_view name) {
  return fmt::format("io.modelcontextprotocol/{}", name);
}

const json::object* meta_of(const json::object& params) {
  const auto* meta = params.if_contains("_meta");
  return meta != nullptr ? meta->if_object() : nullptr;
}

bool has_envelope(const json::object& params) {
  const auto* meta = meta_of(params);
  return meta != nullptr && meta->contains(envelope_key("protocolVersion"));
}

Or<Envelope> read_envelope(const json::object& params) {
  const auto* meta = meta_of(params);
  if (meta == nullptr) return tl::unexpected<Fault>(missing_envelope());
  const auto* version = meta->if_contains(envelope_key("protocolVersion"));
  const auto* capabilities = meta->if_contains(envelope_key("clientCapabilities"));
  if (version == nullptr || !version->is_string() || capabilities == nullptr || !capabilities->is_object())
    return tl::unexpected<Fault>(missing_envelope());
  if (version->as_string() != name_of(kModern))
    return fault(Code::unsupported_version,
                 fmt::format("Unsupported protocol version: {}", std::string_view(version->as_string())),
                 json::object{{"supported", json::array{name_of(kModern)}}, {"requested", *version}});
  Envelope envelope{.capabilities = capabilities->as_object()};
  const auto* level = meta->if_contains(envelope_key("logLevel"));
  if (level != nullptr && (!level->is_string() || !find_level(std::string_view(level->as_string()))))
    return fault(Code::invalid_params,
                 fmt::format("Invalid params: _meta {} must be one of {}", envelope_key("logLevel"), level_names()));
  if (const auto* info = meta->if_contains(envelope_key("clientInfo")); info != nullptr && info->is_object())
    envelope.client = client_of(info->as_object());
  if (level != nullptr) envelope.log_level = std::string(level->as_string());
  return envelope;
}

std::string client_of(const json::object& info) {
  const auto version = cove::json::text_of(info, "version");
  return one_line(cove::json::text_of(info, "name") + (version.empty() ? "" : " ") + version, kClientName);
}

Fault missing_envelope() {
  return {.code = Code::invalid_params,
          .message = fmt::format("Invalid params: _meta must have {} (a string) and {} (an object)",
                                 envelope_key("protocolVersion"), envelope_key("clientCapabilities"))};
}

void add_envelope(json::object& result, json::object server_info) {
  if (!result.contains("resultType")) result["resultType"] = "complete";
  auto& meta = result["_meta"];
  if (!meta.is_object()) meta = json::object();
  meta.as_object()[envelope_key("serverInfo")] = std::move(server_info);
}

}  // namespace cove::mcp
