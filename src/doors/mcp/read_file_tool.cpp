#include <fmt/format.h>

#include "base/text.hpp"
#include "doors/mcp/arguments.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/session_files.hpp"
#include "doors/mcp/tool.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Or;

constexpr std::uint64_t kUsualRead = std::uint64_t{64} << 10;
constexpr std::uint64_t kMaxRead = std::uint64_t{512}
                                   << 10;  // an answer has it twice, and JSON may need six bytes for one
constexpr std::uint64_t kMaxImage = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxScanned = std::uint64_t{64} << 20;  // read at most, to find a line

struct ReadRequest {
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t limit = kUsualRead;
  std::optional<std::uint64_t> first_line;
  std::uint64_t last_line = UINT64_MAX;
  bool whole = true;  // neither lines nor a range of bytes were given
};

Result<ReadRequest> parse_read(const json::object& arguments) {
  ReadRequest request;
  COVE_TRY(request.path, workspace_path(arguments, Root::refused));
  COVE_TRY(const auto offset, integer_argument(arguments, "offset", {.min = 0, .max = std::uint64_t{1} << 50}));
  COVE_TRY(const auto limit, integer_argument(arguments, "limit", {.min = 1, .max = kMaxRead}));
  COVE_TRY(const auto first, integer_argument(arguments, "first_line", {.min = 1, .max = std::uint64_t{1} << 50}));
  COVE_TRY(const auto last, integer_argument(arguments, "last_line", {.min = 1, .max = std::uint64_t{1} << 50}));
  if ((first || last) && offset)
    return fail(Errc::invalid, "Invalid argument: offset cannot be combined with first_line or last_line");
  request.whole = !offset && !limit && !first && !last;
  request.offset = offset.value_or(0);
  request.limit = limit.value_or(kUsualRead);
  if (first || last) request.first_line = first.value_or(1);
  request.last_line = last.value_or(UINT64_MAX);
  if (request.first_line && *request.first_line > request.last_line)
    return fail(Errc::invalid, "Invalid argument: last_line is before first_line");
  return request;
}

// Picks a range of lines out of a file that is read piece by piece.
class LineRange {
 public:
  LineRange(std::uint64_t first, std::uint64_t last, std::uint64_t most) : first_(first), last_(last), most_(most) {}

  // False when no more pieces are needed.
  bool take(std::string_view piece) {
    scanned += piece.size();
    while (!piece.empty()) {
      const auto end = piece.find('\n');
      const auto part = piece.substr(0, end == std::string_view::npos ? end : end + 1);
      if (line_ >= first_) {
        text += part.substr(0, most_ - text.size());
        last_taken = line_;
        if (text.size() == most_) cut = true;
      }
      piece.remove_prefix(part.size());
      if (end != std::string_view::npos) ++line_;
      if (line_ > last_ || cut) return false;
    }
    return scanned < kMaxScanned;
  }

  std::string text;
  std::uint64_t scanned = 0;
  std::uint64_t last_taken = 0;  // 0: the file has no such line
  bool cut = false;

 private:
  std::uint64_t first_;
  std::uint64_t last_;
  std::uint64_t most_;
  std::uint64_t line_ = 1;
};

std::string_view image_type(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n")) return "image/png";
  if (bytes.starts_with("\xFF\xD8\xFF")) return "image/jpeg";
  if (bytes.starts_with("GIF8")) return "image/gif";
  if (bytes.starts_with("RIFF") && bytes.substr(8).starts_with("WEBP")) return "image/webp";
  return {};
}

bool is_text(std::string_view bytes) {
  return valid_utf8(bytes) && bytes.find('\0') == std::string_view::npos;
}

json::object facts_of(const Session& session, const ReadRequest& request, std::uint64_t size) {
  return {{"session_id", session.id}, {"path", request.path}, {"size", size}, {"mime_type", mime_of(request.path)}};
}

json::object with_note(json::object result, std::string note) {
  auto& content = result["content"].as_array();
  if (content.front().as_object().at("text").as_string().empty()) content.clear();
  if (!note.empty()) content.push_back(text_block(std::move(note)));
  if (content.empty()) content.push_back(text_block("(empty)"));
  return result;
}

Task<json::object> read_lines(SessionFiles& files, const Session& session, const ReadRequest& request) {
  LineRange lines(*request.first_line, request.last_line, request.limit);
  const auto size =
      co_await files.read_through(request.path, [&](std::string_view piece) { return lines.take(piece); });
  if (!size) co_return tool_error(file_error_text(size.error()));
  if (lines.scanned >= kMaxScanned && lines.last_taken == 0)
    co_return tool_error(fmt::format("first_line is not in the first {} bytes: use offset instead.", kMaxScanned));
  if (lines.last_taken == 0)
    co_return tool_error(fmt::format("first_line is after the end of /workspace/{}.", request.path));
  if (lines.cut) lines.text.resize(lines.text.size() - unfinished_utf8(lines.text));
  if (!is_text(lines.text)) co_return tool_error("The file is not text: read it with offset and limit.");
  auto facts = facts_of(session, request, *size);
  facts["encoding"] = "utf-8";
  facts["content"] = lines.text;
  facts["first_line"] = *request.first_line;
  facts["last_line"] = lines.last_taken;
  facts["truncated"] = lines.cut;
  std::string note;
  if (lines.cut) note = fmt::format("[cut off in line {}: raise limit, or read fewer lines]", lines.last_taken);
  co_return with_note(answer(lines.text, std::move(facts)), std::move(note));
}

Task<json::object> read_image(const Session& session, const ReadRequest& request, SessionFiles& files,
                              std::string_view type, std::uint64_t size) {
  auto facts = facts_of(session, request, size);
  facts["mime_type"] = type;
  facts["encoding"] = "image";
  facts["truncated"] = false;
  if (size > kMaxImage) {
    facts["truncated"] = true;
    auto result = answer(fmt::format("This image has {} bytes; images over {} bytes are not shown.", size, kMaxImage),
                         std::move(facts));
    result["content"].as_array().push_back(link_block(session.id, request.path, size));
    co_return result;
  }
  const auto piece = co_await files.read(request.path, 0, kMaxImage);
  if (!piece) co_return tool_error(file_error_text(piece.error()));
  auto result = answer(fmt::format("{} of {} bytes", type, piece->bytes.size()), std::move(facts));
  result["content"].as_array().push_back(image_block(piece->bytes, type));
  co_return result;
}

Task<json::object> read_piece(SessionFiles& files, const Session& session, const ReadRequest& request) {
  auto piece = co_await files.read(request.path, request.offset, request.limit);
  if (!piece) co_return tool_error(file_error_text(piece.error()));
  if (const auto type = image_type(piece->bytes); request.whole && !type.empty())
    co_return co_await read_image(session, request, files, type, piece->size);
  if (request.offset > piece->size)
    co_return tool_error(
        fmt::format("Invalid argument: offset is after the end of the file, which has {} bytes", piece->size));
  auto from = request.offset;
  auto& bytes = piece->bytes;
  // Text is cut between characters.
  std::size_t inside = 0;
  while (from > 0 && inside < bytes.size() && inside < 3 && (static_cast<unsigned char>(bytes[inside]) & 0xC0) == 0x80)
    ++inside;
  auto text = std::string_view(bytes).substr(inside);
  if (from + bytes.size() < piece->size) text.remove_suffix(unfinished_utf8(text));
  const bool readable = is_text(text) && (!text.empty() || bytes.empty());
  if (readable) {
    from += inside;
    bytes = std::string(text);
  }
  const auto next = from + bytes.size();
  auto facts = facts_of(session, request, piece->size);
  facts["encoding"] = readable ? "utf-8" : "base64";
  facts["content"] = readable ? bytes : base64(bytes);
  facts["offset"] = from;
  facts["truncated"] = next < piece->size;
  std::string note;
  if (next < piece->size) {
    facts["next_offset"] = next;
    note = fmt::format("[bytes {} to {} of {}: continue with offset {}]", from, next, piece->size, next);
  }
  co_return with_note(answer(readable ? bytes : "base64: " + base64(bytes), std::move(facts)), std::move(note));
}

Task<Or<>> read_file(ToolContext& context, Call& call, json::object arguments) {
  const auto target = session_argument(arguments, context.languages);
  if (!target) co_return tool_error(target.error().message);
  const auto request = parse_read(arguments);
  if (!request) co_return tool_error(request.error().message);
  const auto session = co_await context.sessions.open_existing(call, *target);
  if (!session) co_return tool_error(session.error().message);
  SessionFiles files(*session, call);
  if (request->first_line) co_return co_await read_lines(files, *session, *request);
  co_return co_await read_piece(files, *session, *request);
}

}  // namespace

Tool read_file_tool(const config::Languages& languages) {
  Tool tool;
  tool.definition = {
      {"name", "read_file"},
      {"title", "Read a file"},
      {"description",
       "Reads a file in a session's workspace. By default it returns the first 64 KiB. Select lines with first_line "
       "and last_line, or bytes with offset and limit (at most 512 KiB), and continue at next_offset. Binary data is "
       "returned as base64, an image of up to 1 MiB as an image."},
      {"inputSchema",
       session_schema(languages,
                      {{"path", property("string", "Relative to /workspace")},
                       {"first_line", property("integer", "Counted from 1")},
                       {"last_line", property("integer", "Inclusive")},
                       {"offset", property("integer", "First byte, counted from 0")},
                       {"limit", property("integer", "Maximum number of bytes, up to 524288; 65536 if omitted")}},
                      {"path"})},
      {"outputSchema",
       schema({{"session_id", property("string", "")},
               {"path", property("string", "Relative to /workspace")},
               {"size", property("integer", "Bytes of the whole file")},
               {"mime_type", property("string", "")},
               {"encoding", one_of({"utf-8", "base64", "image"}, "image: the image is a content block of its own")},
               {"content", property("string", "")},
               {"offset", property("integer", "Offset of the first byte in content")},
               {"next_offset", property("integer", "Where to continue; absent at the end of the file")},
               {"first_line", property("integer", "")},
               {"last_line", property("integer", "The last line in content")},
               {"truncated", property("boolean", "The file has more")}},
              {"session_id", "path", "size", "encoding", "truncated"})},
      {"annotations", annotations({.read_only = true, .idempotent = true})}};
  tool.run = read_file;
  return tool;
}

}  // namespace cove::doors::mcp
