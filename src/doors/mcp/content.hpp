#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

namespace cove::doors::mcp {

// The blocks that an answer is made of.
boost::json::object text_block(std::string text);
boost::json::object image_block(std::string_view bytes, std::string_view mime);
// A file of a session, which can be read as a resource.
boost::json::object link_block(std::string_view session_id, std::string_view path, std::uint64_t size);
std::string workspace_uri(std::string_view session_id, std::string_view path);
// By the end of the name; application/octet-stream for what is not known.
std::string_view mime_of(std::string_view path);

// An answer that says the same twice: for people and models, and by the tool's output schema.
boost::json::object answer(std::string text, boost::json::object structured);
// An answer that says what was wrong, and what to do about it.
boost::json::object sorry(std::string sentence);

}  // namespace cove::doors::mcp
