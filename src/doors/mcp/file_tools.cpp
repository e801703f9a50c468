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

// --- write_file

Result<std::string> content_of(const json::object& arguments) {
  COVE_TRY(auto content, required_text(arguments, "content"));
  COVE_TRY(const auto encoding, text_argument(arguments, "encoding"));
  if (!encoding || *encoding == "utf-8") return content;
  if (*encoding != "base64") return fail(Errc::invalid, "Invalid argument: encoding must be utf-8 or base64");
  std::erase(content, '\n');
  auto bytes = from_base64(content, Padding::optional);
  if (!bytes) return fail(Errc::invalid, "Invalid argument: content is not base64");
  return std::move(*bytes);
}

Task<Or<>> write_file(ToolContext& context, Call& call, json::object arguments) {
  const auto target = session_argument(arguments, context.languages);
  if (!target) co_return tool_error(target.error().message);
  const auto path = workspace_path(arguments, Root::refused);
  if (!path) co_return tool_error(path.error().message);
  auto content = content_of(arguments);
  if (!content) co_return tool_error(content.error().message);
  const auto append = flag_argument(arguments, "append");
  if (!append) co_return tool_error(append.error().message);
  const auto session = co_await context.sessions.open(call, target->name, target->language);
  if (!session) co_return tool_error(session.error().message);
  SessionFiles files(*session, call);
  const auto mode = *append ? sandbox::WriteMode::append : sandbox::WriteMode::replace;
  const auto written = co_await files.write(*path, std::move(*content), mode);
  if (!written) co_return tool_error(file_error_text(written.error()));
  auto result = answer(fmt::format("/workspace/{} now has {} bytes.\nSession: {}", *path, written->size, session->id),
                       {{"session_id", session->id},
                        {"path", *path},
                        {"size", written->size},
                        {"uri", workspace_uri(session->id, *path)}});
  result["content"].as_array().push_back(link_block(session->id, *path, written->size));
  co_return result;
}

// --- list_files and delete_file

struct TreeRequest {
  SessionArgument session;
  std::string path;
  sandbox::Recursive recursive = sandbox::Recursive::no;
};

Result<TreeRequest> parse_tree(const ToolContext& context, const json::object& arguments, Root root) {
  TreeRequest request;
  COVE_TRY(request.session, session_argument(arguments, context.languages));
  COVE_TRY(request.path, workspace_path(arguments, root));
  COVE_TRY(const auto recursive, flag_argument(arguments, "recursive"));
  if (recursive) request.recursive = sandbox::Recursive::yes;
  return request;
}

json::object shown(const sandbox::FileEntry& entry) {
  json::object one{{"path", entry.path}, {"type", entry.type}, {"size", entry.size}, {"modified", entry.modified}};
  if (entry.type == "symlink") one["target"] = entry.target;
  if (entry.not_utf8) one["not_utf8"] = true;
  return one;
}

std::string line_of(const sandbox::FileEntry& entry) {
  if (entry.not_utf8) return fmt::format("{}  {} (its name is not UTF-8)\n", entry.path, entry.type);
  if (entry.type == "directory") return entry.path + "/\n";
  if (entry.type == "symlink") return fmt::format("{} -> {}\n", entry.path, entry.target);
  return fmt::format("{}  {}\n", entry.path, entry.type == "file" ? fmt::format("{} bytes", entry.size) : entry.type);
}

Task<Or<>> list_files(ToolContext& context, Call& call, json::object arguments) {
  const auto request = parse_tree(context, arguments, Root::allowed);
  if (!request) co_return tool_error(request.error().message);
  const auto session = co_await context.sessions.open_existing(call, request->session);
  if (!session) co_return tool_error(session.error().message);
  SessionFiles files(*session, call);
  const auto listing = co_await files.list(request->path, request->recursive);
  if (!listing) co_return tool_error(file_error_text(listing.error()));
  json::array entries;
  std::string text;
  for (const auto& entry : listing->entries) {
    entries.push_back(shown(entry));
    text += line_of(entry);
  }
  if (text.empty()) text = "(empty)\n";
  if (listing->truncated)
    text += fmt::format("[truncated: {} more; list a subdirectory to see them]\n", listing->left_out);
  text += "Session: " + session->id;
  json::object facts{{"session_id", session->id},
                     {"path", request->path},
                     {"entries", std::move(entries)},
                     {"truncated", listing->truncated}};
  if (listing->truncated) facts["left_out"] = listing->left_out;
  co_return answer(std::move(text), std::move(facts));
}

Task<Or<>> delete_file(ToolContext& context, Call& call, json::object arguments) {
  const auto request = parse_tree(context, arguments, Root::refused);
  if (!request) co_return tool_error(request.error().message);
  const auto session = co_await context.sessions.open_existing(call, request->session);
  if (!session) co_return tool_error(session.error().message);
  SessionFiles files(*session, call);
  const auto removed = co_await files.remove(request->path, request->recursive);
  if (!removed) co_return tool_error(file_error_text(removed.error()));
  co_return answer(fmt::format("Deleted /workspace/{}.\nSession: {}", request->path, session->id),
                   {{"session_id", session->id}, {"path", request->path}, {"deleted", true}});
}

}  // namespace

Tool write_file_tool(const config::Languages& languages) {
  Tool tool;
  tool.definition = {
      {"name", "write_file"},
      {"title", "Write a file"},
      {"description",
       "Writes a file into a session's workspace, /workspace, which is the working directory of code in that session. "
       "Creates missing directories. Replaces an existing file, or adds to its end if append is true. The file is kept "
       "until the session ends."},
      {"inputSchema", session_schema(languages,
                                     {{"path", property("string", "Relative to /workspace")},
                                      {"content", property("string", "The whole content")},
                                      {"encoding", one_of({"utf-8", "base64"}, "base64 for binary data")},
                                      {"append", property("boolean", "Add to the end of an existing file")}},
                                     {"path", "content"})},
      {"outputSchema", schema({{"session_id", property("string", "")},
                               {"path", property("string", "Relative to /workspace")},
                               {"size", property("integer", "Size of the file in bytes")},
                               {"uri", property("string", "Resource URI of the file")}},
                              {"session_id", "path", "size", "uri"})},
      {"annotations", annotations({.idempotent = true})}};
  tool.run = write_file;
  tool.makes_files = true;
  return tool;
}

Tool list_files_tool(const config::Languages& languages) {
  const auto entry = schema({{"path", property("string", "Relative to /workspace")},
                             {"type", one_of({"file", "directory", "symlink", "other"}, "")},
                             {"size", property("integer", "Bytes")},
                             {"modified", property("string", "Time of the last change, as 2026-01-31T12:00:00.000Z")},
                             {"target", property("string", "Target of a symlink")},
                             {"not_utf8", property("boolean", "The real name has other bytes than shown")}},
                            {"path", "type", "size"});
  Tool tool;
  tool.definition = {
      {"name", "list_files"},
      {"title", "List files"},
      {"description",
       "Lists a directory in a session's workspace; with recursive, its subdirectories too. Returns at most 1000 "
       "entries, sorted by name."},
      {"inputSchema",
       session_schema(languages,
                      {{"path", property("string", "Relative to /workspace; the workspace itself if omitted")},
                       {"recursive", property("boolean", "Include subdirectories")}},
                      {})},
      {"outputSchema", schema({{"session_id", property("string", "")},
                               {"path", property("string", "The listed directory, relative to /workspace")},
                               {"entries", list_of(entry, "")},
                               {"truncated", property("boolean", "There are more entries")},
                               {"left_out", property("integer", "How many more")}},
                              {"session_id", "path", "entries", "truncated"})},
      {"annotations", annotations({.read_only = true, .idempotent = true})}};
  tool.run = list_files;
  return tool;
}

Tool delete_file_tool(const config::Languages& languages) {
  Tool tool;
  tool.definition = {
      {"name", "delete_file"},
      {"title", "Delete a file"},
      {"description",
       "Deletes a file, a link or an empty directory in a session's workspace; with recursive, a directory and "
       "everything in it. This cannot be undone."},
      {"inputSchema", session_schema(languages,
                                     {{"path", property("string", "Relative to /workspace")},
                                      {"recursive", property("boolean", "Delete a directory with everything in it")}},
                                     {"path"})},
      {"outputSchema", schema({{"session_id", property("string", "")},
                               {"path", property("string", "Relative to /workspace")},
                               {"deleted", property("boolean", "")}},
                              {"session_id", "path", "deleted"})},
      {"annotations", annotations({.destructive = true, .idempotent = true})}};
  tool.run = delete_file;
  tool.makes_files = true;
  return tool;
}

}  // namespace cove::doors::mcp
