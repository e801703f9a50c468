#include "doors/workspace/requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/text.hpp"
#include "http/encoding.hpp"
#include "http/mime.hpp"

namespace cove::doors::workspace {
namespace {

using fastapi::Checker;
using fastapi::kBody;
using fastapi::place;
using Kind = Value::Kind;
using Presence = Checker::Presence;

// Null counts as absent.
const Value* given(const Value& body, std::string_view name) {
  const auto* value = body.member(name);
  return value == nullptr || value->kind == Kind::null ? nullptr : value;
}

Value empty_object() {
  Value value;
  value.kind = Kind::object;
  return value;
}

Value text_value(std::string text) {
  Value value;
  value.kind = Kind::text;
  value.text = std::move(text);
  return value;
}

// Checks that the body is an object and lets `fill` read it.
template <typename T, typename Fill>
Parsed<T> parsed(const Value& body, Fill fill) {
  Checker checker;
  T request;
  if (checker.object(body, kBody)) fill(checker, request);
  if (!checker.good()) return checker.problems();
  return request;
}

std::string_view base_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Parsed<SessionRequest> parse_session(const Value& body) {
  return parsed<SessionRequest>(body, [&](Checker& checker, SessionRequest& request) {
    const auto* size = given(body, "size");
    if (size != nullptr) checker.text(size, place(kBody, "size"), request.size.emplace());
  });
}

Parsed<CleanupRequest> parse_cleanup(const Value& body) {
  return parsed<CleanupRequest>(body, [&](Checker& checker, CleanupRequest& request) {
    checker.boolean(given(body, "force"), place(kBody, "force"), request.force);
  });
}

Parsed<FileRequest> parse_file(const Value& body) {
  return parsed<FileRequest>(body, [&](Checker& checker, FileRequest& request) {
    checker.text(checker.member(body, kBody, "content", Presence::required), place(kBody, "content"), request.content);
    checker.text(checker.member(body, kBody, "filename", Presence::required), place(kBody, "filename"),
                 request.filename);
    checker.integer(given(body, "mode"), place(kBody, "mode"), request.mode);
    if (request.mode == 0) request.mode = 0644;
  });
}

Parsed<CommandRequest> parse_command(const Value& body) {
  return parsed<CommandRequest>(body, [&](Checker& checker, CommandRequest& request) {
    checker.text(checker.member(body, kBody, "command", Presence::required), place(kBody, "command"), request.command);
    checker.texts(given(body, "args"), place(kBody, "args"), request.arguments);
  });
}

Parsed<ScriptRequest> parse_script(const Value& body) {
  return parsed<ScriptRequest>(body, [&](Checker& checker, ScriptRequest& request) {
    checker.text(checker.member(body, kBody, "code", Presence::required), place(kBody, "code"), request.code);
    checker.text(given(body, "filename"), place(kBody, "filename"), request.filename);
    checker.texts(given(body, "args"), place(kBody, "args"), request.arguments);
    const auto* type = body.member("script_type");
    if (type != nullptr && type->kind == Kind::null)
      request.type.clear();
    else
      checker.text(type, place(kBody, "script_type"), request.type);
    checker.texts(given(body, "output_params"), place(kBody, "output_params"), request.outputs);
  });
}

Parsed<HandlerRequest> parse_handler(const Value& body) {
  return parsed<HandlerRequest>(body, [&](Checker& checker, HandlerRequest& request) {
    request.event = request.context = empty_object();
    checker.text(checker.member(body, kBody, "handler_code", Presence::required), place(kBody, "handler_code"),
                 request.code);
    checker.dictionary(body.member("event"), place(kBody, "event"), request.event);
    checker.dictionary(given(body, "context"), place(kBody, "context"), request.context);
  });
}

Parsed<EfastRequest> parse_efast(const Value& body) {
  return parsed<EfastRequest>(body, [&](Checker& checker, EfastRequest& request) {
    const auto* files = checker.member(body, kBody, "file_params", Presence::required);
    const auto loc = place(kBody, "file_params");
    if (files != nullptr && files->kind != Kind::array) {
      checker.complain("list_type", loc, "Input should be a valid list", to_json(*files));
    } else if (files != nullptr) {
      for (std::size_t i = 0; i < files->items.size(); ++i)
        checker.dictionary(&files->items[i], fmt::format("{},{}", loc, i), request.files.emplace_back());
    }
    checker.text(given(body, "efast_url"), place(kBody, "efast_url"), request.url);
    checker.text(given(body, "save_path"), place(kBody, "save_path"), request.save_path);
    checker.text(given(body, "token"), place(kBody, "token"), request.token);
    const auto* timeout = given(body, "timeout");
    checker.integer(timeout, place(kBody, "timeout"), request.timeout);
    if (request.timeout < 0)
      checker.complain("greater_than_equal", place(kBody, "timeout"),
                       "Input should be greater than or equal to 0; 0 is the server's default", to_json(*timeout));
  });
}

Result<DocumentRequest> document_of(const Value& file, std::size_t index) {
  if (file.member("docid") == nullptr)
    return fail(Errc::invalid, fmt::format("Missing docid in file_params[{}]", index));
  DocumentRequest document{.docid = "", .savename = fmt::format("downloaded_file_{}", index), .rev = ""};
  using Field = std::pair<std::string_view, std::string*>;
  for (const auto& [name, out] :
       {Field{"docid", &document.docid}, Field{"savename", &document.savename}, Field{"rev", &document.rev}}) {
    const auto* value = given(file, name);
    if (value == nullptr && name != "docid") continue;
    if (value == nullptr || value->kind != Kind::text || !valid_utf8(value->text))
      return fail(Errc::invalid, fmt::format("{} in file_params[{}] must be a string", name, index));
    *out = value->text;
  }
  if (document.savename.find("..") != std::string::npos)
    return fail(Errc::invalid, fmt::format("Invalid filename: {} (cannot contain '..')", document.savename));
  return document;
}

Parsed<bool> flag_of(const Query& query, std::string_view name, bool usual) {
  Checker checker;
  bool out = usual;
  const auto found = std::ranges::find(query, name, [](const auto& one) -> const std::string& { return one.first; });
  if (found != query.end()) {
    const auto value = text_value(found->second);
    checker.boolean(&value, place("\"query\"", name), out);
  }
  if (!checker.good()) return checker.problems();
  return out;
}

Parsed<std::vector<std::int64_t>> numbers_of(const Query& query,
                                             const std::vector<std::pair<std::string_view, std::int64_t>>& usual) {
  Checker checker;
  std::vector<std::int64_t> out;
  for (const auto& [name, number] : usual) {
    auto& value = out.emplace_back(number);
    const auto found = std::ranges::find(query, name, [](const auto& one) -> const std::string& { return one.first; });
    if (found == query.end()) continue;
    const auto text = text_value(found->second);
    checker.integer(&text, place("\"query\"", name), value);
  }
  if (!checker.good()) return checker.problems();
  return out;
}

Result<std::string> session_path(std::string_view path) {
  if (path.find('\0') != std::string_view::npos) return fail(Errc::invalid, "child path cannot contain NUL");
  std::string out;
  for (bool first = true; !path.empty();) {
    const auto part = take_until(path, '/');
    if (part.empty() || part == ".") continue;
    if (part == "..")
      return fail(Errc::invalid, first ? "child path cannot start with '.' or '..'" : "child path cannot contain '..'");
    first = false;
    if (!out.empty()) out += '/';
    out += part;
  }
  if (out.size() > 4000) return fail(Errc::invalid, "child path is longer than 4000 bytes");
  return out;
}

Result<std::uint64_t> tmpfs_size(std::string_view text, std::uint64_t whole) {
  const auto refuse = [&] {
    return fail(Errc::invalid, fmt::format("size must be a number of bytes, with k, M or G behind it, or a percentage: "
                                           "'{}' is none",
                                           replace_invalid_utf8(text.substr(0, 64))));
  };
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed == std::errc::invalid_argument) return refuse();
  const auto unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  if (failed == std::errc::result_out_of_range) return kMax;
  if (unit == "%")
    return number == 0 ? kMax
                       : static_cast<std::uint64_t>(static_cast<double>(whole) *
                                                    std::min<double>(static_cast<double>(number), 1e6) / 100);
  if (unit.size() > 1) return refuse();
  std::size_t shift = 0;
  if (!unit.empty()) {
    const auto at = std::string_view("kmgtpe").find(http::to_lower(unit));
    if (at == std::string_view::npos) return refuse();
    shift = 10 * (at + 1);
  }
  if (number == 0 || number > (kMax >> shift)) return kMax;
  return number << shift;
}

std::string type_of(std::string_view name) {
  const auto base = base_of(name);
  const auto dot = base.rfind('.');
  return dot == std::string_view::npos ? "unknown" : std::string(base.substr(dot + 1));
}

std::string extension_of(std::string_view path) {
  const auto base = base_of(path);
  const auto dot = base.rfind('.');
  if (dot == std::string_view::npos || base.substr(0, dot).find_first_not_of('.') == std::string_view::npos) return "";
  return http::to_lower(base.substr(dot));
}

bool is_text_file(std::string_view path) {
  constexpr auto kText = std::to_array<std::string_view>(
      {".txt", ".py",    ".js",  ".html", ".css", ".json", ".xml", ".csv", ".md",   ".sh", ".bash",
       ".zsh", ".fish",  ".c",   ".cpp",  ".h",   ".java", ".php", ".rb",  ".go",   ".rs", ".swift",
       ".kt",  ".scala", ".sql", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".log"});
  return std::ranges::count(kText, extension_of(path)) != 0;
}

std::optional<std::string> preview_type(std::string_view path) {
  constexpr auto kShown = std::to_array<std::string_view>({".html", ".txt", ".md", ".json", ".xml", ".csv", ".png",
                                                           ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".svg", ".ico"});
  const auto extension = extension_of(path);
  if (std::ranges::count(kShown, extension) == 0) return std::nullopt;
  const auto type = http::mime_of(extension);
  return type.starts_with("text/") ? fmt::format("{}; charset=utf-8", type) : std::string(type);
}

}  // namespace cove::doors::workspace
