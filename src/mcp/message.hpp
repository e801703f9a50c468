#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace cove::mcp {

// JSON-RPC's own codes, and the protocol's.
enum class Code : int {
  parse_error = -32700,
  invalid_request = -32600,
  method_not_found = -32601,
  invalid_params = -32602,
  internal = -32603,
  no_session = -32000,
  session_not_found = -32001,
  resource_not_found = -32002,  // legacy
  header_mismatch = -32020,     // modern, as the next two
  missing_capability = -32021,
  unsupported_version = -32022,
};

// An answer that is an error of the protocol's. What a model can act on is an answer of a tool instead.
struct Fault {
  Code code = Code::internal;
  std::string message;
  boost::json::value data = nullptr;  // null: none
};
template <typename T = boost::json::object>
using Or = tl::expected<T, Fault>;

inline tl::unexpected<Fault> fault(Code code, std::string message, boost::json::value data = nullptr) {
  return tl::unexpected<Fault>(Fault{.code = code, .message = std::move(message), .data = std::move(data)});
}

struct Message {
  enum class Kind { request, notification, response };
  Kind kind = Kind::notification;
  boost::json::value id = nullptr;  // a string or a number, of requests and responses
  std::string method;               // of requests and notifications
  boost::json::object params;
  boost::json::value answer = nullptr;  // of a response: its result; of one that is an error, null
  Fault fault;                          // of a response that is an error
};

enum class Strictness { strict, lenient };  // lenient: `jsonrpc` may be missing

// What cannot be answered as what it is, and the id to answer with if it had a usable one.
struct Unusable {
  Fault fault;
  boost::json::value id = nullptr;
};
tl::expected<Message, Unusable> read_message(const boost::json::value& value, Strictness strictness);

enum class UnknownId { null, omitted };
boost::json::object result_message(const boost::json::value& id, boost::json::object result);
boost::json::object error_message(const boost::json::value& id, const Fault& fault, UnknownId unknown);
boost::json::object notification_message(std::string_view method, boost::json::object params);
boost::json::object request_message(const boost::json::value& id, std::string_view method, boost::json::object params);

}  // namespace cove::mcp
