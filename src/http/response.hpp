#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cove::http {

struct Response {
  unsigned status = 200;
  std::string content_type = "application/json";  // "": no such header
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // control bytes in values are sent as blanks
  std::string error_code;  // of error_response: the body is made of this and `body`, the sentence, when it is sent
};

Response json_response(unsigned status, const boost::json::value& value);
Response text_response(unsigned status, std::string text);
// 204, without a body.
Response no_content();
// {"error": sentence, "code": code, "requestId": …}; the id is filled in when it is sent.
Response error_response(unsigned status, std::string_view code, std::string_view sentence);

// "Not Found"; never empty.
std::string_view reason_phrase(unsigned status);

// One server-sent event; `data` may have several lines. Line ends in `event` are dropped.
std::string sse_event(std::optional<std::uint64_t> id, std::string_view event, std::string_view data);
// The comment that keeps a quiet stream alive.
std::string sse_comment();

}  // namespace cove::http
