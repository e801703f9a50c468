#include "fastapi/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "http/encoding.hpp"

namespace cove::fastapi {
namespace {

using Kind = Value::Kind;
using Limits = std::numeric_limits<std::int64_t>;

// Values out of range are clamped to the type.
std::optional<std::int64_t> clamped(std::string_view digits) {
  if (digits.starts_with('+')) digits.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (end != digits.data() + digits.size() || digits.empty() || failed == std::errc::invalid_argument)
    return std::nullopt;
  if (failed == std::errc::result_out_of_range) return digits.starts_with('-') ? Limits::min() : Limits::max();
  return number;
}

// As in Python's email package: a malformed type is text/plain.
bool is_json(std::string_view content_type) {
  if (content_type.empty()) return true;
  const auto kind = http::to_lower(http::trim(content_type.substr(0, content_type.find(';'))));
  if (std::ranges::count(kind, '/') != 1 || !kind.starts_with("application/")) return false;
  const auto subtype = std::string_view(kind).substr(12);
  return subtype == "json" || subtype.ends_with("+json");
}

}  // namespace

// Of what was sent; a caller knows the rest.
constexpr std::size_t kMaxEchoed = std::size_t{64} << 10;

std::string place(std::string_view above, std::string_view name) {
  return fmt::format("{},{}", above, json_text(name));
}

void Checker::complain(std::string_view type, std::string_view loc, std::string_view message, std::string_view input,
                       std::string_view ctx) {
  if (!list_.empty()) list_ += ',';
  list_ += fmt::format(R"({{"type":"{}","loc":[{}],"msg":{},"input":{})", type, loc, json_text(message),
                       input.size() > kMaxEchoed ? "null" : input);
  if (!ctx.empty()) list_ += fmt::format(R"(,"ctx":{})", ctx);
  list_ += '}';
}

bool Checker::object(const Value& body, std::string_view loc) {
  if (body.kind == Kind::object) return true;
  complain("model_attributes_type", loc, "Input should be a valid dictionary or object to extract fields from",
           to_json(body));
  return false;
}

const Value* Checker::member(const Value& body, std::string_view above, std::string_view name, Presence presence) {
  const auto* found = body.member(name);
  if (found == nullptr && presence == Presence::required)
    complain("missing", place(above, name), "Field required", to_json(body));
  return found;
}

void Checker::text(const Value* value, const std::string& loc, std::string& out) {
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

void Checker::whole(const Value* value, const std::string& loc, std::int64_t least, std::int64_t most,
                    std::int64_t& out) {
  if (value == nullptr) return;
  if (value->kind != Kind::integer) {
    complain("int_type", loc, "Input should be a valid integer", to_json(*value));
    return;
  }
  const auto number = clamped(value->text).value_or(0);
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

void Checker::integer(const Value* value, const std::string& loc, std::int64_t& out) {
  if (value == nullptr) return;
  if (value->kind == Kind::boolean) {
    out = value->flag ? 1 : 0;
  } else if (value->kind == Kind::integer) {
    out = clamped(value->text).value_or(0);
  } else if (value->kind == Kind::text) {
    if (const auto number = clamped(http::trim(value->text)))
      out = *number;
    else
      complain("int_parsing", loc, "Input should be a valid integer, unable to parse string as an integer",
               to_json(*value));
  } else if (value->kind == Kind::real) {
    double given = 0.5;
    const auto& text = value->text;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), given);
    if (failed == std::errc() && std::floor(given) == given && std::abs(given) < 9e18)
      out = static_cast<std::int64_t>(given);
    else
      complain("int_from_float", loc, "Input should be a valid integer, got a number with a fractional part",
               to_json(*value));
  } else {
    complain("int_type", loc, "Input should be a valid integer", to_json(*value));
  }
}

void Checker::boolean(const Value* value, const std::string& loc, bool& out) {
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

void Checker::texts(const Value* value, const std::string& loc, std::vector<std::string>& out) {
  if (value == nullptr) return;
  if (value->kind != Kind::array) {
    complain("list_type", loc, "Input should be a valid list", to_json(*value));
    return;
  }
  out.clear();
  for (std::size_t i = 0; i < value->items.size(); ++i)
    text(&value->items[i], fmt::format("{},{}", loc, i), out.emplace_back());
}

void Checker::dictionary(const Value* value, const std::string& loc, Value& out) {
  if (value == nullptr) return;
  if (value->kind != Kind::object)
    complain("dict_type", loc, "Input should be a valid dictionary", to_json(*value));
  else
    out = *value;
}

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
  // An empty body and null are the same.
  if (value.kind == Kind::null) {
    checker.complain("missing", kBody, "Field required", "null");
    return checker.problems();
  }
  return value;
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

}  // namespace cove::fastapi
