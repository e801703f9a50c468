#include "doors/execute/requests.hpp"

#include <fmt/format.h>

#include <limits>

#include "base/text.hpp"

namespace cove::doors::execute {
namespace {

using fastapi::Checker;
using fastapi::kBody;
using fastapi::place;
using std::chrono::milliseconds;

constexpr auto kNoMax = std::numeric_limits<std::int64_t>::max();

void check_files(Checker& checker, const Value* value, const std::string& loc, std::vector<FileReference>& out) {
  if (value == nullptr) return;
  if (value->kind != Value::Kind::array) {
    checker.complain("list_type", loc, "Input should be a valid list", to_json(*value));
    return;
  }
  for (std::size_t i = 0; i < value->items.size(); ++i) {
    const auto& item = value->items[i];
    const auto here = fmt::format("{},{}", loc, i);
    if (!checker.object(item, here)) continue;
    FileReference reference;
    checker.text(checker.member(item, here, "path", Checker::Presence::required), place(here, "path"), reference.path);
    checker.text(checker.member(item, here, "file_id", Checker::Presence::required), place(here, "file_id"),
                 reference.file_id);
    out.push_back(std::move(reference));
  }
}

// Leaves `timeout` as it is when the body has none.
void check_timeout(Checker& checker, const Value& body, milliseconds& timeout) {
  std::int64_t given = timeout.count();
  checker.whole(body.member("timeout_ms"), place(kBody, "timeout_ms"), 1, kNoMax, given);
  timeout = milliseconds(given);
}

}  // namespace

std::variant<ExecuteRequest, Problems> parse_execute(const Value& body) {
  using enum Checker::Presence;
  Checker checker;
  ExecuteRequest request;
  if (!checker.object(body, kBody)) return checker.problems();
  checker.text(checker.member(body, kBody, "code", required), place(kBody, "code"), request.code);
  const auto* input = body.member("stdin");
  if (input != nullptr && input->kind != Value::Kind::null)
    checker.text(input, place(kBody, "stdin"), request.input.emplace());
  check_timeout(checker, body, request.timeout);
  checker.boolean(body.member("last_line_interactive"), place(kBody, "last_line_interactive"), request.echo);
  check_files(checker, body.member("files"), place(kBody, "files"), request.files);
  if (!checker.good()) return checker.problems();
  return request;
}

std::variant<SessionRequest, Problems> parse_session(const Value& body) {
  Checker checker;
  SessionRequest request;
  if (!checker.object(body, kBody)) return checker.problems();
  check_files(checker, body.member("files"), place(kBody, "files"), request.files);
  std::int64_t ttl = request.ttl.count();
  checker.whole(body.member("ttl_seconds"), place(kBody, "ttl_seconds"), 1, 86'400, ttl);
  request.ttl = std::chrono::seconds(ttl);
  if (!checker.good()) return checker.problems();
  return request;
}

std::variant<BashRequest, Problems> parse_bash(const Value& body) {
  using enum Checker::Presence;
  Checker checker;
  BashRequest request;
  if (!checker.object(body, kBody)) return checker.problems();
  checker.text(checker.member(body, kBody, "cmd", required), place(kBody, "cmd"), request.command);
  check_timeout(checker, body, request.timeout);
  if (!checker.good()) return checker.problems();
  return request;
}

std::variant<std::string, Problems> staged_path(std::string_view path, Entrypoint entrypoint) {
  const auto wrong = [](std::string_view sentence) { return Problems{.list = json_text(sentence)}; };
  if (path.starts_with('/')) return wrong("File paths must be relative.");
  if (path.find('\0') != std::string_view::npos) return wrong("File paths must not contain NUL.");
  std::string out;
  while (!path.empty()) {
    const auto part = take_until(path, '/');
    if (part == "..") return wrong("File paths must not contain '..'.");
    if (part.empty() || part == ".") continue;
    if (!out.empty()) out += '/';
    out += part;
  }
  if (out.empty()) return wrong("File path must not be empty.");
  if (out == "__main__.py" && entrypoint == Entrypoint::reserved)
    return wrong("File path '__main__.py' is reserved for the execution entrypoint.");
  return out;
}

}  // namespace cove::doors::execute
