#include "doors/mcp/workspace.hpp"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "sandbox/file_facts.hpp"
#include "sandbox/helper.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using sandbox::Helper;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFileTime{60};
constexpr std::size_t kMostEntries = 1000;
constexpr std::size_t kMostPathBytes = std::size_t{256} << 10;  // of a listing: an answer has each path three times
constexpr std::string_view kRoot = "/workspace";

std::string inside(std::string_view path) {
  return path.empty() ? std::string(kRoot) : fmt::format("{}/{}", kRoot, path);
}

tl::unexpected<Error> broken() {
  return fail(Errc::io, "the sandbox's file helper broke the protocol");
}

Result<json::object> parse_object(const std::string& text) {
  boost::system::error_code failed;
  auto value = json::parse(text, failed);
  if (failed || !value.is_object()) return broken();
  return std::move(value.as_object());
}

std::string text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

Result<WorkspaceEntry> read_entry(const json::object& object) {
  WorkspaceEntry entry{.path = text_of(object, "path"),
                       .type = text_of(object, "type"),
                       .modified = text_of(object, "mtime"),
                       .target = text_of(object, "target")};
  if (!entry.path.starts_with(kRoot)) return broken();
  entry.path.erase(0, std::min(entry.path.size(), kRoot.size() + 1));
  const auto* size = object.if_contains("size");
  boost::system::error_code failed;
  if (size != nullptr && size->is_number()) entry.size = size->to_number<std::uint64_t>(failed);
  if (failed) return broken();
  return entry;
}

}  // namespace

Workspace::Workspace(const Session& session, const cove::mcp::Call& call) : sandbox_(session.sandbox), call_(call) {}

std::function<bool()> Workspace::abandoned() const {
  return [&call = call_, until = Clock::now() + kFileTime] { return call.cancelled() || Clock::now() > until; };
}

Task<Result<std::string>> Workspace::run(std::vector<std::string> arguments, std::string input) {
  std::vector<std::string> all{"--within", std::string(kRoot)};
  all.insert(all.end(), std::make_move_iterator(arguments.begin()), std::make_move_iterator(arguments.end()));
  auto helper = co_await Helper::start(sandbox_, std::move(all), abandoned());
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  // One that takes no more has found fault; finish() says which.
  if (input.empty() || co_await (*helper)->write(std::move(input))) (*helper)->end_input();
  co_return co_await (*helper)->finish();
}

Task<Result<WorkspaceEntry>> Workspace::write(std::string path, std::string content, WriteMode mode) {
  std::vector<std::string> arguments{"write", inside(path), "0644"};
  if (mode == WriteMode::append) arguments.emplace_back("append");
  const auto said = co_await run(std::move(arguments), std::move(content));
  if (!said) co_return tl::unexpected<Error>(said.error());
  const auto object = parse_object(*said);
  if (!object) co_return tl::unexpected<Error>(object.error());
  co_return read_entry(*object);
}

Task<Result<WorkspacePiece>> Workspace::read(std::string path, std::uint64_t offset, std::uint64_t most) {
  std::vector<std::string> arguments{"read", inside(path), std::to_string(offset), std::to_string(most)};
  auto said = co_await run(std::move(arguments), {});
  if (!said) co_return tl::unexpected<Error>(said.error());
  const auto line = said->find('\n');
  if (line == std::string::npos) co_return broken();
  const auto facts = sandbox::parse_facts(said->substr(0, line));
  if (!facts) co_return tl::unexpected<Error>(facts.error());
  said->erase(0, line + 1);
  if (said->size() > most) co_return broken();
  co_return WorkspacePiece{.bytes = std::move(*said), .size = facts->size};
}

Task<Result<std::uint64_t>> Workspace::read_through(std::string path, std::function<bool(std::string_view)> take) {
  std::vector<std::string> arguments{"--within", std::string(kRoot), "read", inside(path)};
  auto helper = co_await Helper::start(sandbox_, std::move(arguments), abandoned());
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  (*helper)->end_input();
  const auto line = co_await (*helper)->read_line();
  if (!line) co_return tl::unexpected<Error>(line.error());
  const auto facts = sandbox::parse_facts(*line);
  if (!facts) co_return tl::unexpected<Error>(facts.error());
  while (true) {
    const auto bytes = co_await (*helper)->read();
    if (bytes.empty()) break;
    if (!take(bytes)) co_return facts->size;
  }
  const auto ended = co_await (*helper)->finish();
  if (!ended) co_return tl::unexpected<Error>(ended.error());
  co_return facts->size;
}

Task<Result<WorkspaceListing>> Workspace::list(std::string path, Depth depth) {
  std::vector<std::string> arguments{"list", inside(path), depth == Depth::all ? "1000" : "1",
                                     std::to_string(kMostEntries)};
  const auto said = co_await run(std::move(arguments), {});
  if (!said) co_return tl::unexpected<Error>(said.error());
  const auto object = parse_object(*said);
  if (!object) co_return tl::unexpected<Error>(object.error());
  const auto* entries = object->if_contains("entries");
  const auto* cut = object->if_contains("truncated");
  if (entries == nullptr || !entries->is_array() || cut == nullptr || !cut->is_bool()) co_return broken();
  WorkspaceListing listing{.entries = {}, .cut = cut->as_bool()};
  std::size_t bytes = 0;
  for (const auto& one : entries->as_array()) {
    if (!one.is_object()) co_return broken();
    auto entry = read_entry(one.as_object());
    if (!entry) co_return tl::unexpected<Error>(entry.error());
    bytes += entry->path.size() + entry->target.size();
    if (bytes > kMostPathBytes || listing.entries.size() == kMostEntries) {
      listing.cut = true;
      break;
    }
    listing.entries.push_back(std::move(*entry));
  }
  co_return listing;
}

Task<Result<>> Workspace::remove(std::string path, Depth depth) {
  std::vector<std::string> arguments{"remove", inside(path)};
  if (depth == Depth::all) arguments.emplace_back("recursive");
  const auto said = co_await run(std::move(arguments), {});
  if (!said) co_return tl::unexpected<Error>(said.error());
  co_return Result<>();
}

std::string file_trouble(const Error& error) {
  if (error.sys_errno == EXDEV)
    return fmt::format("{}. Only what is in the session's /workspace can be used.", error.message);
  switch (error.code) {
    case Errc::not_found:
      return fmt::format("{}. list_files shows what is there.", error.message);
    case Errc::over_limit:
      return fmt::format("{}. Delete files that are not needed any more.", error.message);
    default:
      return error.message + ".";
  }
}

}  // namespace cove::doors::mcp
