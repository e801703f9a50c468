#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "fastapi/checker.hpp"

namespace cove::doors::workspace {

using fastapi::json_text;
using fastapi::Problems;
using fastapi::Value;

// The request bodies of this door, and the errors of malformed ones.

struct SessionRequest {
  std::optional<std::string> size;
};
struct CleanupRequest {
  bool force = false;
};
struct FileRequest {
  std::string content;
  std::string filename;
  std::int64_t mode = 0644;
};
struct CommandRequest {
  std::string command;
  std::vector<std::string> arguments;
};
struct ScriptRequest {
  std::string code;
  std::string filename;
  std::vector<std::string> arguments;
  std::string type = "python";  // "" for null
  std::vector<std::string> outputs;
};
struct HandlerRequest {
  std::string code;
  Value event;
  Value context;
};

struct DocumentRequest {
  std::string docid;
  std::string savename;
  std::string rev;
};
struct EfastRequest {
  std::vector<Value> files;  // objects; document_of() reads them
  std::string url;
  std::string save_path;
  std::string token;
  std::int64_t timeout = 0;  // seconds; 0: as the server is configured
};

template <typename T>
using Parsed = std::variant<T, Problems>;
Parsed<SessionRequest> parse_session(const Value& body);
Parsed<CleanupRequest> parse_cleanup(const Value& body);
Parsed<FileRequest> parse_file(const Value& body);
Parsed<CommandRequest> parse_command(const Value& body);
Parsed<ScriptRequest> parse_script(const Value& body);
Parsed<HandlerRequest> parse_handler(const Value& body);
Parsed<EfastRequest> parse_efast(const Value& body);
// Errc::invalid with the messages that clients know.
Result<DocumentRequest> document_of(const Value& file, std::size_t index);

// Query parameters; absent ones have their default.
using Query = std::vector<std::pair<std::string, std::string>>;
Parsed<bool> flag_of(const Query& query, std::string_view name, bool usual);
Parsed<std::vector<std::int64_t>> numbers_of(const Query& query,
                                             const std::vector<std::pair<std::string_view, std::int64_t>>& usual);

// A path inside a session, normalized: "a/b" for "/a//b/", "" for the session's root. Errc::invalid with the messages
// that clients know.
Result<std::string> session_path(std::string_view path);

// In the format of tmpfs's `size=`: bytes, with k, M, G and so on, or "10%" of `whole`. 0 is all of it.
Result<std::uint64_t> tmpfs_size(std::string_view text, std::uint64_t whole);

// Text after the last dot of a name, or "unknown".
std::string type_of(std::string_view name);
// From the last dot of the last component on, in lower case, as Python's splitext has it: "" for ".bashrc".
std::string extension_of(std::string_view path);
// By extension alone.
bool is_text_file(std::string_view path);
// The media type for a file that browsers may preview; nullopt for others.
std::optional<std::string> preview_type(std::string_view path);

}  // namespace cove::doors::workspace
