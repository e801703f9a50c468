#include "config/value.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>

#include "base/names.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace cove::config {
namespace {

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    if (const auto item = trimmed(take_until(text, ',')); !item.empty()) items.emplace_back(item);
  }
  return items;
}

std::string joined(const auto& items, std::string_view between) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += between;
    out += item;
  }
  return out;
}

std::string cores_text(std::uint64_t millis) {
  return fmt::format("{:g}", static_cast<double>(millis) / 1000);
}

// A number in the key's unit, as people write it.
std::string shown_number(const Key& key, std::uint64_t value) {
  switch (key.kind) {
    case Kind::size:
      return format_size(value);
    case Kind::duration:
      return format_duration(std::chrono::milliseconds(value));
    case Kind::cores:
      return cores_text(value);
    default:
      return std::to_string(value);
  }
}

Result<std::uint64_t> number_of(const Key& key, std::string_view text) {
  switch (key.kind) {
    case Kind::size:
      return parse_size(text);
    case Kind::duration: {
      COVE_TRY(const auto duration, parse_duration(text));
      return static_cast<std::uint64_t>(duration.count());
    }
    case Kind::cores: {
      const auto cores = number<double>(text);
      if (!cores || !(*cores >= 0) || *cores > 1e6)
        return fail(Errc::invalid, fmt::format("'{}' is not a number of cores; write 0.5 or 2", text));
      return static_cast<std::uint64_t>(std::llround(*cores * 1000));
    }
    default: {
      const auto count = number<std::uint64_t>(text);
      if (!count) return fail(Errc::invalid, fmt::format("'{}' is not a whole number", text));
      return *count;
    }
  }
}

Result<std::uint64_t> number_within(const Key& key, std::string_view text) {
  COVE_TRY(const auto value, number_of(key, text));
  if (value < key.least || (key.most != 0 && value > key.most))
    return fail(Errc::invalid, fmt::format("{} is not between {} and {}", text, shown_number(key, key.least),
                                           shown_number(key, key.most)));
  return value;
}

Result<bool> boolean(std::string_view text) {
  constexpr auto kYes = std::to_array<std::string_view>({"true", "1", "yes", "on"});
  constexpr auto kNo = std::to_array<std::string_view>({"false", "0", "no", "off"});
  const auto word = lower(text);
  if (std::ranges::count(kYes, word) != 0) return true;
  if (std::ranges::count(kNo, word) != 0) return false;
  return fail(Errc::invalid, fmt::format("'{}' is not true or false", text));
}

bool valid_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && number<std::uint16_t>(text).has_value();
}

// "name", "name:port", "[::1]:port", as in a Host header.
bool valid_host(std::string_view text) {
  if (text.starts_with('[')) {
    const auto bracket = text.find(']');
    if (bracket == std::string_view::npos) return false;
    in6_addr address{};
    if (::inet_pton(AF_INET6, std::string(text.substr(1, bracket - 1)).c_str(), &address) != 1) return false;
    const auto rest = text.substr(bracket + 1);
    return rest.empty() || (rest.starts_with(':') && valid_port(rest.substr(1)));
  }
  const auto name = take_until(text, ':');
  return !name.empty() && name.size() <= 253 && !name.starts_with('.') && !name.ends_with('.') &&
         std::ranges::all_of(
             name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_'; }) &&
         (text.empty() || valid_port(text));
}

bool valid_origin(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.starts_with(scheme)) return valid_host(text.substr(scheme.size()));
  }
  return false;
}

bool valid_endpoint(std::string_view text) {
  const auto colon = text.rfind(':');
  return valid_host(text) && colon != std::string_view::npos && valid_port(text.substr(colon + 1)) &&
         text.substr(colon + 1) != "0";
}

// A dotted name: it becomes an argument of an interpreter, and never an option.
bool valid_module(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  return !text.empty() && text.front() != '.' && std::all_of(text.begin(), text.end(), plain);
}

bool valid_listener(std::string_view text) {
  return parse_listener(text).has_value();
}

// What the items of a list must look like.
struct ItemRule {
  std::string_view key;
  bool (*valid)(std::string_view);
  bool any_case;
  std::string_view error;
};
constexpr auto kItemRules = std::to_array<ItemRule>({
    {"listeners", valid_listener, false, "is not a listener of a sandbox; write 127.0.0.1:8888=sandbox:NAME"},
    {"http.allowed_hosts", valid_host, true, "is not a host; write name or name:port, one host per item"},
    {"http.allowed_origins", valid_origin, true, "is not an origin; write https://name or https://name:port"},
    {"callbacks.allow", valid_endpoint, true, "is not an endpoint; write name:port"},
    {"dependencies.allow", valid_endpoint, true, "is not an endpoint; write name:port"},
    {"python.preload", valid_module, false, "is not a module; write its dotted name"},
});

Result<std::vector<std::string>> checked_items(const Key& key, std::vector<std::string> items) {
  const auto* rule = std::ranges::find(kItemRules, key.name, &ItemRule::key);
  if (rule == kItemRules.end()) return items;
  for (auto& item : items) {
    if (rule->any_case) item = lower(item);
    if (!rule->valid(item)) return fail(Errc::invalid, fmt::format("'{}' {}", item, rule->error));
  }
  return items;
}

// Which of the key's words it is: the place of the word is the number of the enumerator.
Result<std::size_t> choice_of(const Key& key, std::string_view text) {
  const auto found = std::ranges::find(key.choices, text);
  if (found == key.choices.end())
    return fail(Errc::invalid, fmt::format("'{}' is not one of {}", text, joined(key.choices, ", ")));
  return static_cast<std::size_t>(found - key.choices.begin());
}

template <typename T>
concept Enumeration = std::is_enum_v<T>;

// One for each type a field can have.
struct Reader {
  const Key& key;
  std::string_view text;

  Result<> operator()(std::string& out) const {
    if (text.empty() && key.name == "state_dir") return fail(Errc::invalid, "must not be empty");
    out = text;
    return {};
  }
  Result<> operator()(Endpoint& out) const { return store(out, parse_endpoint(text)); }
  Result<> operator()(bool& out) const { return store(out, boolean(text)); }
  Result<> operator()(Enumeration auto& out) const {
    COVE_TRY(const auto chosen, choice_of(key, text));
    out = static_cast<std::remove_reference_t<decltype(out)>>(chosen);
    return {};
  }
  template <typename T>
    requires std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>
  Result<> operator()(T& out) const {
    COVE_TRY(const auto value, number_within(key, text));
    out = static_cast<T>(value);
    return {};
  }
  Result<> operator()(std::chrono::milliseconds& out) const {
    COVE_TRY(const auto value, number_within(key, text));
    out = std::chrono::milliseconds(value);
    return {};
  }
  Result<> operator()(std::vector<std::string>& out) const { return store(out, checked_items(key, split(text))); }
  Result<> operator()(std::map<std::string, std::string>& out) const {
    out.clear();
    for (const auto& item : split(text)) {
      const auto equals = item.rfind('=');
      if (equals == std::string::npos) return fail(Errc::invalid, fmt::format("'{}' is not IMAGE=TEMPLATE", item));
      out[item.substr(0, equals)] = item.substr(equals + 1);
    }
    return check(out);
  }

  static Result<> check(const std::map<std::string, std::string>& images) {
    for (const auto& [image, name] : images) {
      if (image.empty()) return fail(Errc::invalid, "an image must have a name");
      if (!is_template_name(name))
        return fail(Errc::invalid, fmt::format("'{}' (for image '{}') is not a template name", name, image));
    }
    return {};
  }

 private:
  template <typename T>
  static Result<> store(T& out, Result<T> value) {
    if (!value) return tl::unexpected<Error>(value.error());
    out = std::move(*value);
    return {};
  }
};

auto with_field(const Key& key, auto use) {
  return std::visit([&](auto field) { return use(field); }, key.field);
}

// Fields are reached through a function that takes a Config to change; it only hands out a reference.
const auto& read(auto field, const Config& config) {
  return field(const_cast<Config&>(config));
}

}  // namespace

Result<> put(Config& config, const Key& key, std::string_view text) {
  return with_field(key, [&](auto field) { return Reader{key, text}(field(config)); });
}

Result<> put(Config& config, const Key& key, std::vector<std::string> items) {
  COVE_TRY(std::get<std::vector<std::string>& (*)(Config&)>(key.field)(config), checked_items(key, std::move(items)));
  return {};
}

Result<> put(Config& config, const Key& key, std::map<std::string, std::string> entries) {
  COVE_CHECK(Reader::check(entries));
  std::get<std::map<std::string, std::string>& (*)(Config&)>(key.field)(config) = std::move(entries);
  return {};
}

std::string shown(const Config& config, const Key& key) {
  return with_field(key, [&](auto field) -> std::string {
    const auto& value = read(field, config);
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::same_as<T, std::string>)
      return value;
    else if constexpr (std::same_as<T, Endpoint>)
      return value.text();
    else if constexpr (std::same_as<T, bool>)
      return value ? "true" : "false";
    else if constexpr (std::is_enum_v<T>)
      return std::string(key.choices.at(static_cast<std::size_t>(value)));
    else if constexpr (std::same_as<T, std::chrono::milliseconds>)
      return format_duration(value);
    else if constexpr (std::integral<T>)
      return shown_number(key, value);
    else if constexpr (std::same_as<T, std::vector<std::string>>)
      return joined(value, ",");
    else {
      std::vector<std::string> entries;
      for (const auto& [name, entry] : value) entries.push_back(name + "=" + entry);
      return joined(entries, ",");
    }
  });
}

bool same(const Config& a, const Config& b, const Key& key) {
  return with_field(key, [&](auto field) { return read(field, a) == read(field, b); });
}

void copy(const Config& from, Config& to, const Key& key) {
  with_field(key, [&](auto field) { field(to) = read(field, from); });
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto wrong = [&] {
    return fail(Errc::invalid,
                fmt::format("'{}' is not an address; write 127.0.0.1:8000, 0.0.0.0:8000 or [::1]:8000", text));
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  auto host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  Endpoint endpoint{.host = std::string(host)};
  in6_addr address{};
  if (!valid_port(text.substr(colon + 1)) ||
      ::inet_pton(bracketed ? AF_INET6 : AF_INET, endpoint.host.c_str(), &address) != 1)
    return wrong();
  endpoint.port = *number<std::uint16_t>(text.substr(colon + 1));
  return endpoint;
}

Result<SandboxListener> parse_listener(std::string_view text) {
  constexpr std::string_view kMark = "=sandbox:";
  const auto mark = text.find(kMark);
  if (mark == std::string_view::npos)
    return fail(Errc::invalid, fmt::format("'{}' names no sandbox; write 127.0.0.1:8888=sandbox:NAME", text));
  SandboxListener listener{.endpoint = {}, .sandbox = std::string(text.substr(mark + kMark.size()))};
  COVE_TRY(listener.endpoint, parse_endpoint(text.substr(0, mark)));
  if (listener.sandbox.empty() || listener.sandbox.size() > 255)
    return fail(Errc::invalid, fmt::format("'{}': the name of a sandbox has 1 to 255 bytes", text));
  return listener;
}

bool Endpoint::loopback() const {
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six) != 0;
}

std::string Endpoint::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

}  // namespace cove::config
