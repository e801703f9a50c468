#include "http/response.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <boost/json.hpp>

#include "base/text.hpp"

namespace cove::http {

Response json_response(unsigned status, const boost::json::value& value) {
  Response response;
  response.status = status;
  response.body = boost::json::serialize(value);
  return response;
}

Response text_response(unsigned status, std::string text) {
  Response response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text);
  return response;
}

Response no_content() {
  return {.status = 204, .content_type = ""};
}

Response error_response(unsigned status, std::string_view code, std::string_view sentence) {
  Response response;
  response.status = status;
  response.body = replace_invalid_utf8(sentence);
  response.error_code = code;
  return response;
}

std::string_view reason_phrase(unsigned status) {
  // Beast 1.81 says "Payload Too Large" and the like; what it does not know it calls "<unknown-status>".
  const auto known = boost::beast::http::int_to_status(status);
  if (known == boost::beast::http::status::unknown) return "Status";
  const auto text = boost::beast::http::obsolete_reason(known);
  return {text.data(), text.size()};
}

std::string sse_event(std::optional<std::uint64_t> id, std::string_view event, std::string_view data) {
  std::string out;
  out.reserve(data.size() + event.size() + 48);
  if (id) out += fmt::format("id: {}\n", *id);
  if (!event.empty()) {
    out += "event: ";
    std::ranges::copy_if(event, std::back_inserter(out), [](char c) { return c != '\n' && c != '\r'; });
    out += '\n';
  }
  // CR, LF and CR LF all end a line of an event stream; each line of the data gets its own field.
  for (;;) {
    const auto end = data.find_first_of("\r\n");
    out += "data: ";
    out += data.substr(0, end);
    out += '\n';
    if (end == std::string_view::npos) break;
    const bool pair = data[end] == '\r' && end + 1 < data.size() && data[end + 1] == '\n';
    data.remove_prefix(end + (pair ? 2 : 1));
  }
  out += '\n';
  return out;
}

std::string sse_comment() {
  return ":\n\n";
}

}  // namespace cove::http
