#include "doors/execute/requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "http/encoding.hpp"

namespace cove::doors::execute {
namespace {

using Kind = Value::Kind;
using std::chrono::milliseconds;

// Where in the body something is: "body","files",0
std::string place(std::string_view above, std::string_view name) {
  return fmt::format("{},{}", above, json_text(name));
}

constexpr std::string_view kBody = "\"body\"";

class Checker {
 public:
  void complain(std::string_view type, std::string_view loc, std::string_view message, std::string_view input,
                std::string_view ctx = {}) {
    if (!list_.empty()) list_ += ',';
    list_ += fmt::format(R"({{"type":"{}","loc":[{}],"msg":{},"input":{})", type, loc, json_text(message), input);
    if (!ctx.empty()) list_ += fmt::format(R"(,"ctx":{})", ctx);
    list_ += '}';
  }

  // Whether `body` is an object at all.
  bool object(const Value& body, std::string_view loc) {
    if (body.kind == Kind::object) return true;
    complain("model_attributes_type", loc, "Input should be a valid dictionary or object to extract fields from",
             to_json(body));
    return false;
  }

  // The member, if it is there; a complaint if it has to be.
  enum class Presence : std::uint8_t { required, optional };
  const Value* member(const Value& body, std::string_view above, std::string_view name, Presence presence) {
    const auto* found = body.member(name);
    if (found == nullptr && presence == Presence::required)
      complain("missing", place(above, name), "Field required", to_json(body));
    return found;
  }

  void text(const Value* value, const std::string& loc, std::string& out) {
    if (value == nullptr) return;
    if (value->kind != Kind::text) {
      complain("string_type", loc, "Input should be a valid string", to_json(*value));
    } else if (!valid_utf8(value->text)) {
      complain("string_unicode", loc, "Input should be a valid string, unable to parse raw data as a unicode string",
               to_json(*value));
    } else {
      out = value->text;
    }
  }

  // Numbers too large for the type are as large as it can be.
  void whole(const Value* value, const std::string& loc, std::int64_t least, std::int64_t most, std::int64_t& out) {
    if (value == nullptr) return;
    if (value->kind != Kind::integer) {
      complain("int_type", loc, "Input should be a valid integer", to_json(*value));
      return;
    }
    using Limits = std::numeric_limits<std::int64_t>;
    std::int64_t number = 0;
    const auto& digits = value->text;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc::result_out_of_range)
      number = digits.starts_with('-') ? Limits::min() : Limits::max();
    if (number < least) {
      complain("greater_than_equal", loc, fmt::format("Input should be greater than or equal to {}", least),
               to_json(*value), fmt::format(R"({{"ge":{}}})", least));
    } else if (number > most) {
      complain("less_than_equal", loc, fmt::format("Input should be less than or equal to {}", most), to_json(*value),
               fmt::format(R"({{"le":{}}})", most));
    } else {
      out = number;
    }
  }

  void boolean(const Value* value, const std::string& loc, bool& out) {
    if (value == nullptr) return;
    constexpr auto kYes = std::to_array<std::string_view>({"1", "on", "t", "true", "y", "yes"});
    constexpr auto kNo = std::to_array<std::string_view>({"0", "off", "f", "false", "n", "no"});
    const auto unclear = [&] {
      complain("bool_parsing", loc, "Input should be a valid boolean, unable to interpret input", to_json(*value));
    };
    const auto number = [&](double given) {
      if (given == 0 || given == 1)
        out = given == 1;
      else
        unclear();
    };
    switch (value->kind) {
      case Kind::boolean:
        out = value->flag;
        return;
      case Kind::text: {
        const auto word = http::to_lower(value->text);
        if (std::ranges::count(kYes, word) != 0)
          out = true;
        else if (std::ranges::count(kNo, word) != 0)
          out = false;
        else
          unclear();
        return;
      }
      case Kind::integer:
      case Kind::real: {
        double given = 0.5;
        const auto& text = value->text;
        const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), given);
        const bool known = ec == std::errc() && end == text.data() + text.size();
        if (value->kind == Kind::integer || (known && std::floor(given) == given)) return number(known ? given : 2);
        break;
      }
      default:
        break;
    }
    complain("bool_type", loc, "Input should be a valid boolean", to_json(*value));
  }

  void files(const Value* value, const std::string& loc, std::vector<FileReference>& out) {
    if (value == nullptr) return;
    if (value->kind != Kind::array) {
      complain("list_type", loc, "Input should be a valid list", to_json(*value));
      return;
    }
    for (std::size_t i = 0; i < value->items.size(); ++i) {
      const auto& item = value->items[i];
      const auto here = fmt::format("{},{}", loc, i);
      if (!object(item, here)) continue;
      FileReference reference;
      text(member(item, here, "path", Presence::required), place(here, "path"), reference.path);
      text(member(item, here, "file_id", Presence::required), place(here, "file_id"), reference.file_id);
      out.push_back(std::move(reference));
    }
  }

  [[nodiscard]] bool good() const { return list_.empty(); }
  [[nodiscard]] Problems problems() const { return {.list = "[" + list_ + "]"}; }

 private:
  std::string list_;
};

constexpr auto kNoMost = std::numeric_limits<std::int64_t>::max();

// As Python's email package reads it: what has no kind and subtype is text.
bool is_json(std::string_view content_type) {
  if (content_type.empty()) return true;
  const auto kind = http::to_lower(http::trim(content_type.substr(0, content_type.find(';'))));
  if (std::ranges::count(kind, '/') != 1 || !kind.starts_with("application/")) return false;
  const auto subtype = std::string_view(kind).substr(12);
  return subtype == "json" || subtype.ends_with("+json");
}

}  // namespace

std::variant<Value, Problems, std::monostate> read_body(std::string_view body, std::string_view content_type) {
  Checker checker;
  if (!body.empty() && !is_json(content_type)) {
    checker.complain("model_attributes_type", kBody,
                     "Input should be a valid dictionary or object to extract fields from", json_text(body));
    return checker.problems();
  }
  Value value;
  if (!body.empty()) {
    auto parsed = parse_json(body);
    if (std::holds_alternative<Unreadable>(parsed)) return std::monostate();
    if (const auto* malformed = std::get_if<Malformed>(&parsed)) {
      checker.complain("json_invalid", fmt::format("{},{}", kBody, malformed->position), "JSON decode error", "{}",
                       fmt::format(R"({{"error":{}}})", json_text(malformed->message)));
      return checker.problems();
    }
    value = std::get<Value>(std::move(parsed));
  }
  // Nothing and null are the same.
  if (value.kind == Kind::null) {
    checker.complain("missing", kBody, "Field required", "null");
    return checker.problems();
  }
  return value;
}

std::variant<ExecuteRequest, Problems> parse_execute(const Value& body) {
  using enum Checker::Presence;
  Checker checker;
  ExecuteRequest request;
  if (!checker.object(body, kBody)) return checker.problems();
  checker.text(checker.member(body, kBody, "code", required), place(kBody, "code"), request.code);
  const auto* input = body.member("stdin");
  if (input != nullptr && input->kind != Kind::null)
    checker.text(input, place(kBody, "stdin"), request.input.emplace());
  std::int64_t timeout = request.timeout.count();
  checker.whole(body.member("timeout_ms"), place(kBody, "timeout_ms"), 1, kNoMost, timeout);
  request.timeout = milliseconds(timeout);
  checker.boolean(body.member("last_line_interactive"), place(kBody, "last_line_interactive"), request.echo);
  checker.files(body.member("files"), place(kBody, "files"), request.files);
  if (!checker.good()) return checker.problems();
  return request;
}

std::variant<SessionRequest, Problems> parse_session(const Value& body) {
  Checker checker;
  SessionRequest request;
  if (!checker.object(body, kBody)) return checker.problems();
  checker.files(body.member("files"), place(kBody, "files"), request.files);
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
  std::int64_t timeout = request.timeout.count();
  checker.whole(body.member("timeout_ms"), place(kBody, "timeout_ms"), 1, kNoMost, timeout);
  request.timeout = milliseconds(timeout);
  if (!checker.good()) return checker.problems();
  return request;
}

Problems missing_file() {
  Checker checker;
  checker.complain("missing", place(kBody, "file"), "Field required", "null");
  return checker.problems();
}

Problems file_is_text(std::string_view text) {
  Checker checker;
  checker.complain("value_error", place(kBody, "file"), "Value error, Expected UploadFile, received: <class 'str'>",
                   json_text(text), R"({"error":{}})");
  return checker.problems();
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
