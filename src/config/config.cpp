#include "config/config.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "base/io.hpp"
#include "base/nearest.hpp"
#include "base/units.hpp"
#include "config/keys.hpp"
#include "config/public_index.hpp"
#include "config/toml.hpp"
#include "config/value.hpp"

namespace cove::config {
namespace {

constexpr std::uint64_t kLeastDisk = 256U << 10;
constexpr std::size_t kFileLimit = std::size_t{1} << 20;

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

// Suggests the known key that was probably meant: the right name in the wrong table, or a typo.
std::string suggestion(std::string_view name) {
  std::string_view best;
  std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const auto& key : keys()) {
    const auto apart = last_part(key.name) == last_part(name) ? std::size_t{1} : edit_distance(key.name, name);
    if (apart < least) {
      least = apart;
      best = key.name;
    }
  }
  return best.empty() ? "" : fmt::format("; did you mean {}?", best);
}

// Why other servers could not be found under this address; "" if nothing is wrong with its form.
std::string_view wrong_base_url(std::string_view url) {
  const bool tls = url.starts_with("https://");
  if (!tls && !url.starts_with("http://")) return "it must begin with http:// or https://";
  if (std::ranges::any_of(url, [](char c) { return c <= ' ' || c >= 0x7f; }))
    return "it has a blank, or a character outside ASCII";
  if (url.find_first_of("?#") != url.npos) return "it may have no query and no fragment";
  url.remove_prefix(std::string_view(tls ? "https://" : "http://").size());
  auto host = url.substr(0, url.find('/'));
  if (host.find('@') != host.npos) return "it must not have a user or password";
  const auto bracket = host.find(']');
  if (const auto colon = host.find(':', bracket == host.npos ? 0 : bracket); colon != host.npos) {
    const auto port = host.substr(colon + 1);
    if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != port.npos ||
        std::stoi(std::string(port)) < 1 || std::stoi(std::string(port)) > 65535)
      return "the port must be 1 to 65535";
    host = host.substr(0, colon);
  }
  return host.empty() ? "it has no host" : "";
}

// Collects values and errors, so that all errors are reported at once.
class Loader {
 public:
  void take_default(const Key& key, const std::string& state_dir) {
    if (key.name == "state_dir")
      config.state_dir = state_dir;
    else if (!key.fallback.empty())
      note(key, "the default", put(config, key, key.fallback));
  }

  void take_text(const Key& key, std::string source, std::string_view text) {
    note(key, std::move(source), put(config, key, text));
  }

  void take_table(const toml::table& table, const std::string& above, const std::string& file) {
    for (const auto& [word, node] : table) {
      const auto name = above.empty() ? std::string(word.str()) : fmt::format("{}.{}", above, word.str());
      const auto source = fmt::format("{}:{}", file, node.source().begin.line);
      if (const auto* key = find_key(name); key != nullptr)
        take_node(*key, source, node);
      else if (node.is_table() && above == "tools")
        take_tool_server(std::string(word.str()), *node.as_table());
      else if (node.is_table() && is_section(name))
        take_table(*node.as_table(), name, file);
      else
        report(name, source, "there is no such key" + suggestion(name));
    }
  }

  // What it says is checked by whoever knows servers.
  void take_tool_server(std::string name, const toml::table& table) {
    std::ostringstream text;
    text << toml::json_formatter(table);
    config.tools.named[std::move(name)] = text.str();
  }

  void check_together();
  Result<Config> finish() {
    if (!errors_.empty()) return fail(Errc::invalid, errors_);
    return std::move(config);
  }

  Config config;

 private:
  static bool is_section(std::string_view name) {
    return std::ranges::any_of(keys(), [&](const Key& key) { return key.section() == name; });
  }

  void take_node(const Key& key, const std::string& source, const toml::node& node);
  void note(const Key& key, std::string source, const Result<>& done) {
    if (!done) report(key.name, source, done.error().message);
    sources_[std::string(key.name)] = std::move(source);
  }
  void report(std::string_view key, std::string_view source, std::string_view why) {
    if (!errors_.empty()) errors_.push_back('\n');
    errors_ += fmt::format("{} ({}): {}", key, source, why);
    invalid_.emplace(key);
  }
  void no_more_than(std::string_view name, std::string_view limit, auto value, auto most);
  [[nodiscard]] std::string described(std::string_view name) const {
    return fmt::format("{} ({}, {})", name, shown(config, *find_key(name)), sources_.at(std::string(name)));
  }

  std::map<std::string, std::string> sources_;
  std::set<std::string, std::less<>> invalid_;
  std::string errors_;
};

// The scalars of TOML as text; what a kind cannot be written as is refused by name.
std::optional<std::string> scalar(Kind kind, const toml::node& node) {
  if (const auto* text = node.as_string(); text != nullptr)
    return kind == Kind::boolean || kind == Kind::count ? std::nullopt : std::optional(text->get());
  if (const auto* value = node.as_boolean(); value != nullptr)
    return kind == Kind::boolean ? std::optional<std::string>(value->get() ? "true" : "false") : std::nullopt;
  const bool numeric = kind == Kind::count || kind == Kind::cores || kind == Kind::size || kind == Kind::duration;
  if (const auto* whole = node.as_integer(); whole != nullptr && numeric) return std::to_string(whole->get());
  if (const auto* real = node.as_floating_point(); real != nullptr && (kind == Kind::cores || kind == Kind::duration))
    return fmt::format("{}", real->get());
  return std::nullopt;
}

std::string_view wanted(Kind kind) {
  switch (kind) {
    case Kind::boolean:
      return "must be true or false";
    case Kind::count:
      return "must be a whole number";
    case Kind::cores:
      return "must be a number of cores, such as 0.5 or 2";
    case Kind::size:
      return "must be a size, such as \"512M\", or a number of bytes";
    case Kind::duration:
      return "must be a duration, such as \"30s\", or a number of seconds";
    case Kind::list:
      return "must be a list of strings, such as [\"a\", \"b\"]";
    case Kind::map:
      return "must be a table of strings, such as \"python:3.10\" = \"host\"";
    default:
      return "must be a string";
  }
}

void Loader::take_node(const Key& key, const std::string& source, const toml::node& node) {
  if (key.kind == Kind::list && node.is_array()) {
    std::vector<std::string> items;
    for (const auto& item : *node.as_array()) {
      if (!item.is_string()) return report(key.name, source, wanted(key.kind));
      items.push_back(item.as_string()->get());
    }
    return note(key, source, put(config, key, std::move(items)));
  }
  if (key.kind == Kind::map && node.is_table()) {
    std::map<std::string, std::string> entries;
    for (const auto& [name, item] : *node.as_table()) {
      if (!item.is_string()) return report(key.name, source, wanted(key.kind));
      entries.emplace(name.str(), item.as_string()->get());
    }
    return note(key, source, put(config, key, std::move(entries)));
  }
  const auto text = key.kind == Kind::list || key.kind == Kind::map ? std::nullopt : scalar(key.kind, node);
  if (!text) return report(key.name, source, wanted(key.kind));
  note(key, source, put(config, key, *text));
}

void Loader::no_more_than(std::string_view name, std::string_view limit, auto value, auto most) {
  if (value <= most || invalid_.contains(name) || invalid_.contains(limit)) return;
  report(name, sources_.at(std::string(name)),
         fmt::format("{} is more than {}", shown(config, *find_key(name)), described(limit)));
}

void Loader::check_together() {
  auto& sandbox = config.sandbox;
  if (sandbox.max_cpu_millis == 0) sandbox.max_cpu_millis = 1000 * std::max(1U, std::thread::hardware_concurrency());
  no_more_than("sandbox.memory", "sandbox.max_memory", sandbox.memory_bytes, sandbox.max_memory_bytes);
  if (const auto disk = sandbox.disk_bytes; disk != 0 && disk < kLeastDisk && !invalid_.contains("sandbox.disk"))
    report("sandbox.disk", sources_["sandbox.disk"],
           fmt::format("{} is less than {}; 0 means half of the memory", format_size(disk), format_size(kLeastDisk)));
  no_more_than("sandbox.disk", "sandbox.max_disk", sandbox.disk_bytes, sandbox.max_disk_bytes);
  no_more_than("sandbox.inodes", "sandbox.max_inodes", sandbox.inodes, sandbox.max_inodes);
  no_more_than("sandbox.pids", "sandbox.max_pids", sandbox.pids, sandbox.max_pids);
  no_more_than("sandbox.cpus", "sandbox.max_cpus", sandbox.cpu_millis, sandbox.max_cpu_millis);
  no_more_than("sandbox.ttl", "sandbox.max_ttl", sandbox.ttl, sandbox.max_ttl);
  no_more_than("exec.timeout", "exec.max_timeout", config.exec.timeout, config.exec.max_timeout);
  no_more_than("dependencies.timeout", "dependencies.max_timeout", config.dependencies.timeout,
               config.dependencies.max_timeout);
  if (auto& index = config.dependencies.index; index == kPublicIndex) {
    if (auto url = public_index())
      index = std::move(*url);
    else
      report("dependencies.index", sources_["dependencies.index"], url.error().message);
  }
  if (const auto& index = config.dependencies.index; !index.empty() && !invalid_.contains("dependencies.index") &&
                                                     !index.starts_with("http://") && !index.starts_with("https://"))
    report("dependencies.index", sources_["dependencies.index"],
           fmt::format("'{}' is neither \"public\" nor an http or https URL", index));
  if (const auto& url = config.workspace.efast_url; !url.empty() && !wrong_base_url(url).empty())
    report("workspace.efast_url", sources_["workspace.efast_url"],
           fmt::format("'{}' is no address of a document store: {}", url, wrong_base_url(url)));
  // Files live in the sandbox's memory: if both limits were equal, a full disk would kill it instead of failing a
  // write.
  if (sandbox.disk_bytes >= sandbox.memory_bytes && !invalid_.contains("sandbox.disk") &&
      !invalid_.contains("sandbox.memory"))
    report("sandbox.disk", sources_["sandbox.disk"],
           fmt::format("{} must be below {}", format_size(sandbox.disk_bytes), described("sandbox.memory")));
  if (!config.files.directory.empty() && !config.files.directory.starts_with('/') &&
      !invalid_.contains("files.directory"))
    report("files.directory", sources_["files.directory"],
           fmt::format("'{}' is not an absolute path", config.files.directory));
  if (!config.outbound.ca_file.empty() && !config.outbound.ca_file.starts_with('/') &&
      !invalid_.contains("outbound.ca_file"))
    report("outbound.ca_file", sources_["outbound.ca_file"],
           fmt::format("'{}' is not an absolute path", config.outbound.ca_file));
  if (config.listeners.size() > kMaxListeners)
    report("listeners", sources_["listeners"], fmt::format("there are more than {}", kMaxListeners));
  const auto& oauth = config.oauth;
  const std::array<std::pair<const char*, bool>, 3> parts{
      {{"oauth.authorization_servers", oauth.authorization_servers.empty()},
       {"oauth.resource", oauth.resource.empty()},
       {"oauth.keys_file", oauth.keys_file.empty()}}};
  const auto missing = std::ranges::count(parts, true, &std::pair<const char*, bool>::second);
  for (const auto& [key, empty] : parts) {
    if (empty && missing < 3) report(key, sources_[key], "must be set, since other keys of [oauth] are");
  }
  if (oauth.configured() && !oauth.resource.starts_with("http://") && !oauth.resource.starts_with("https://"))
    report("oauth.resource", sources_["oauth.resource"],
           fmt::format("'{}' is not an http or https URL", oauth.resource));
  if (!config.state_dir.starts_with('/') && !invalid_.contains("state_dir"))
    report("state_dir", sources_["state_dir"], fmt::format("'{}' is not an absolute path", config.state_dir));
}

// The value of a variable that other servers use, as the key's text. Nothing for a choice that does not exist here:
// such variables may be meant for other programs.
std::optional<std::string> text_for_key(const Alias& alias, const std::string& text) {
  const auto& key = *find_key(alias.key);
  if (key.kind != Kind::choice)
    return text + std::string(std::isdigit(static_cast<unsigned char>(text.back())) != 0 ? alias.unit : "");
  std::string word(text);
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "warning") word = "warn";
  if (word == "critical") word = "error";
  if (word == "plain") word = "text";
  return std::ranges::count(key.choices, word) != 0 ? std::optional(word) : std::nullopt;
}

// The endpoint in HOST and PORT, which other servers read. Shells set HOST to the machine's name, so only an address
// counts.
std::optional<std::string> bind_of(const Settings& environment) {
  const auto value = [&](const char* name) {
    const auto set = environment.find(name);
    return set == environment.end() ? std::string() : set->second;
  };
  auto host = value("HOST");
  const auto port = value("PORT");
  in6_addr address{};
  if (::inet_pton(AF_INET6, host.c_str(), &address) == 1)
    host = "[" + host + "]";
  else if (::inet_pton(AF_INET, host.c_str(), &address) != 1)
    host.clear();
  if (host.empty() && port.empty()) return std::nullopt;
  const std::string_view fallback = find_key("listen")->fallback;
  const auto colon = fallback.rfind(':');
  return fmt::format("{}:{}", host.empty() ? fallback.substr(0, colon) : host,
                     port.empty() ? fallback.substr(colon + 1) : port);
}

// The file to read, or "" for none.
Result<std::string> chosen_file(const LoadInput& input) {
  if (!input.file.empty()) return input.file;
  if (const auto set = input.environment.find("COVE_CONFIG"); set != input.environment.end() && !set->second.empty())
    return set->second;
  if (::access(input.default_file.c_str(), F_OK) == 0) return input.default_file;
  return "";
}

}  // namespace

Settings cove_environment() {
  Settings out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const auto name = text.substr(0, equals);
    if (name.starts_with("COVE_") || name == "HOST" || name == "PORT" ||
        std::ranges::any_of(aliases(), [&](const Alias& a) { return a.variable == name; }))
      out.emplace(name, text.substr(equals + 1));
  }
  return out;
}

Result<Config> load(const LoadInput& input) {
  Loader loader;
  for (const auto& key : keys()) loader.take_default(key, input.default_state_dir);
  COVE_TRY(loader.config.file, chosen_file(input));
  if (const auto& file = loader.config.file; !file.empty()) {
    COVE_TRY(const auto content,
             input.content ? Result<std::string>(*input.content) : read_file_at(AT_FDCWD, file, kFileLimit));
    const auto parsed = toml::parse(content);
    if (!parsed)
      return fail(Errc::invalid,
                  fmt::format("{}:{}: {}", file, parsed.error().source().begin.line, parsed.error().description()));
    loader.take_table(parsed.table(), "", file);
  }
  if (const auto bind = bind_of(input.environment)) loader.take_text(*find_key("listen"), "HOST and PORT", *bind);
  for (const auto& alias : aliases()) {
    const auto set = input.environment.find(alias.variable);
    if (set == input.environment.end() || set->second.empty()) continue;
    if (const auto text = text_for_key(alias, set->second))
      loader.take_text(*find_key(alias.key), std::string(alias.variable), *text);
  }
  for (const auto& key : keys()) {
    // An empty variable is how one is unset in many places that start programs.
    if (const auto set = input.environment.find(key.env()); set != input.environment.end() && !set->second.empty())
      loader.take_text(key, key.env(), set->second);
  }
  for (const auto& key : keys()) {
    if (const auto set = input.flags.find(key.name); set != input.flags.end())
      loader.take_text(key, key.flag(), set->second);
  }
  loader.check_together();
  return loader.finish();
}

ReloadPlan plan_reload(const Config& running, const Config& loaded) {
  ReloadPlan plan{.config = running};
  plan.config.file = loaded.file;
  for (const auto& key : keys()) {
    if (same(running, loaded, key)) continue;
    if (key.reload == Reload::restart) {
      plan.need_restart.emplace_back(key.name);
      continue;
    }
    copy(loaded, plan.config, key);
    plan.applied.emplace_back(key.name);
  }
  if (running.tools.named != loaded.tools.named) {
    plan.config.tools.named = loaded.tools.named;
    plan.applied.emplace_back("tools");
  }
  return plan;
}

}  // namespace cove::config
