#include "mcp/message.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;

bool usable_id(const json::value& id) {
  return id.is_string() || id.is_int64() || id.is_uint64();
}

Fault read_fault(const json::value& error) {
  Fault fault;
  if (!error.is_object()) return fault;
  const auto& object = error.as_object();
  if (const auto* code = object.if_contains("code"); code != nullptr && code->is_int64())
    fault.code = static_cast<Code>(code->as_int64());
  if (const auto* message = object.if_contains("message"); message != nullptr && message->is_string())
    fault.message = message->as_string().c_str();
  if (const auto* data = object.if_contains("data")) fault.data = *data;
  return fault;
}

json::object with_version() {
  return {{"jsonrpc", "2.0"}};
}

}  // namespace

tl::expected<Message, Unusable> read_message(const json::value& value, Strictness strictness) {
  Message message;
  const auto refuse = [&message](Code code, std::string why) {
    return tl::unexpected<Unusable>(Unusable{.fault = {.code = code, .message = std::move(why)}, .id = message.id});
  };
  if (!value.is_object()) return refuse(Code::invalid_request, "Invalid request: a message must be an object");
  const auto& object = value.as_object();
  const auto* id = object.if_contains("id");
  if (id != nullptr && usable_id(*id)) message.id = *id;
  const auto* version = object.if_contains("jsonrpc");
  const bool versioned = version != nullptr && version->is_string() && version->as_string() == "2.0";
  if (!versioned && (strictness == Strictness::strict || version != nullptr))
    return refuse(Code::invalid_request, "Invalid request: jsonrpc must be \"2.0\"");
  const auto* method = object.if_contains("method");
  if (method == nullptr && message.id != nullptr && (object.contains("result") || object.contains("error"))) {
    message.kind = Message::Kind::response;
    if (const auto* error = object.if_contains("error"))
      message.fault = read_fault(*error);
    else
      message.answer = object.at("result");
    return message;
  }
  if (method == nullptr || !method->is_string())
    return refuse(Code::invalid_request, "Invalid request: method must be a string");
  if (id != nullptr && !usable_id(*id))
    return refuse(Code::invalid_request, "Invalid request: id must be a string or an integer");
  message.kind = id == nullptr ? Message::Kind::notification : Message::Kind::request;
  message.method = std::string(method->as_string());
  if (const auto* params = object.if_contains("params"); params != nullptr && !params->is_null()) {
    if (!params->is_object()) return refuse(Code::invalid_params, "Invalid params: params must be an object");
    message.params = params->as_object();
  }
  return message;
}

json::object result_message(const json::value& id, json::object result) {
  auto message = with_version();
  message["id"] = id;
  message["result"] = std::move(result);
  return message;
}

json::object error_message(const json::value& id, const Fault& fault, UnknownId unknown) {
  auto message = with_version();
  if (!id.is_null() || unknown == UnknownId::null) message["id"] = id;
  json::object error{{"code", static_cast<int>(fault.code)}, {"message", fault.message}};
  if (!fault.data.is_null()) error["data"] = fault.data;
  message["error"] = std::move(error);
  return message;
}

json::object notification_message(std::string_view method, json::object params) {
  auto message = with_version();
  message["method"] = method;
  message["params"] = std::move(params);
  return message;
}

json::object request_message(const json::value& id, std::string_view method, json::object params) {
  auto message = with_version();
  message["id"] = id;
  message["method"] = method;
  message["params"] = std::move(params);
  return message;
}

}  // namespace cove::mcp
