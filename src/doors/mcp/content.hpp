#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "http/mime.hpp"

namespace cove::doors::mcp {

// Content blocks of an answer.
boost::json::object text_block(std::string text);
boost::json::object image_block(std::string_view bytes, std::string_view mime);
// A link to a session's file, which can be read as a resource.
boost::json::object link_block(std::string_view session_id, std::string_view path, std::uint64_t size);
std::string workspace_uri(std::string_view session_id, std::string_view path);
using http::mime_of;

// An answer with text for people and models, and the same facts by the tool's output schema.
boost::json::object answer(std::string text, boost::json::object structured);
// A tool's error as an answer: what was wrong, and what to do about it.
boost::json::object tool_error(std::string sentence);

}  // namespace cove::doors::mcp
