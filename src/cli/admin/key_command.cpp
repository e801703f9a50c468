#include "cli/admin/key_command.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/text.hpp"
#include "base/umask.hpp"
#include "base/units.hpp"
#include "cli/console.hpp"
#include "host/state_dir.hpp"
#include "server/front_home.hpp"
#include "store/secret.hpp"
#include "store/store.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr int kFailed = 1;
constexpr int kSenseless = 2;
constexpr std::size_t kTenantLimit = 64;
constexpr std::size_t kNoteLimit = 256;

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string timestamp(std::int64_t at_unix_ms) {
  const auto seconds = static_cast<time_t>(at_unix_ms / 1000);
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string word_of(Errc code) {
  switch (code) {
    case Errc::invalid:
      return "invalid";
    case Errc::not_found:
      return "not_found";
    case Errc::denied:
      return "denied";
    case Errc::over_limit:
      return "over_limit";
    case Errc::unsupported:
      return "unsupported";
    case Errc::unavailable:
    case Errc::conflict:
    case Errc::quota:
      return "unavailable";
    default:
      return "io";
  }
}

int report(const KeyArguments& arguments, const Error& error, int status) {
  tell("{}", error.message);
  if (arguments.json) [[maybe_unused]]
    const auto put = put_line(json::serialize(json::object{{"error", error.message}, {"code", word_of(error.code)}}));
  return status;
}

// --- What was asked for, checked ---

Result<std::string> tenant_of(const std::string& text) {
  const bool good =
      !text.empty() && text.size() <= kTenantLimit && std::isalnum(static_cast<unsigned char>(text.front())) != 0 &&
      std::ranges::all_of(
          text, [](unsigned char c) { return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'); });
  if (!good)
    return fail(Errc::invalid, fmt::format("--tenant: '{}' is not a name of 1 to {} letters, digits and - _ . that "
                                           "begins with a letter or digit",
                                           text, kTenantLimit));
  return text;
}

// Empty: no limit of its own, which is 0.
Result<std::uint32_t> count_of(const char* option, const std::string& text) {
  if (text.empty()) return 0U;
  std::uint32_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size() || value == 0)
    return fail(Errc::invalid,
                fmt::format("{}: '{}' is not a whole number above 0; leave it out for no limit", option, text));
  return value;
}

Result<store::KeyQuotas> quotas_of(const KeyArguments& arguments) {
  store::KeyQuotas quotas;
  COVE_TRY(quotas.max_sandboxes, count_of("--max-sandboxes", arguments.max_sandboxes));
  COVE_TRY(quotas.executions_per_minute, count_of("--executions-per-minute", arguments.executions_per_minute));
  COVE_TRY(quotas.concurrent_executions, count_of("--concurrent-executions", arguments.concurrent_executions));
  if (!arguments.max_memory.empty()) {
    const auto bytes = parse_size(arguments.max_memory);
    if (!bytes) return fail(Errc::invalid, fmt::format("--max-memory: {}", bytes.error().message));
    if (*bytes == 0) return fail(Errc::invalid, "--max-memory: must be more than 0; leave it out for no limit");
    quotas.max_memory_bytes = *bytes;
  }
  return quotas;
}

Result<store::KeyRow> new_row(const KeyArguments& arguments) {
  store::KeyRow row{.created_unix_ms = unix_ms(), .note = arguments.note, .operates = arguments.operates};
  COVE_TRY(row.tenant, tenant_of(arguments.tenant));
  COVE_TRY(row.quotas, quotas_of(arguments));
  if (row.note.size() > kNoteLimit || !valid_utf8(row.note) ||
      std::ranges::any_of(row.note, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return fail(Errc::invalid, fmt::format("--note: must be one line of at most {} bytes of UTF-8", kNoteLimit));
  return row;
}

// --- The database ---

std::string state_dir_of(const KeyArguments& arguments) {
  return arguments.state_dir.empty() ? host::default_state_dir() : arguments.state_dir;
}

Result<> make_state_dir(const std::string& path) {
  const UmaskScope umask(022);
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) return fail_errno(ec.value(), "make directory {}", path);
  return {};
}

// Whoever owns the front's directory could have put anything there, so root has no business in it: the rest of this
// process is its owner's, and what it makes too.
Result<std::unique_ptr<store::Store>> open_store(const server::FrontHome& home) {
  COVE_TRY(const auto path, home.enter());
  auto store = store::Store::open(path, store::OnBroken::refuse);
  if (store) return store;
  // By the name that the caller knows it by.
  auto error = store.error();
  if (const auto at = error.message.find(path); at != std::string::npos)
    error.message.replace(at, path.size(), home.path());
  return tl::unexpected<Error>(std::move(error));
}

// --- What is shown ---

json::object to_json(const store::KeyRow& row) {
  const auto limit = [](std::uint64_t value) { return value == 0 ? json::value(nullptr) : json::value(value); };
  return {{"id", row.id},
          {"tenant", row.tenant},
          {"prefix", row.prefix},
          {"createdAt", timestamp(row.created_unix_ms)},
          {"revokedAt", row.revoked_unix_ms ? json::value(timestamp(*row.revoked_unix_ms)) : json::value(nullptr)},
          {"quotas",
           {{"maxSandboxes", limit(row.quotas.max_sandboxes)},
            {"maxMemoryBytes", limit(row.quotas.max_memory_bytes)},
            {"executionsPerMinute", limit(row.quotas.executions_per_minute)},
            {"concurrentExecutions", limit(row.quotas.concurrent_executions)}}},
          {"operator", row.operates},
          {"note", row.note}};
}

// Characters, not bytes: notes are UTF-8.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string table_of(const std::vector<store::KeyRow>& rows) {
  const auto limit = [](std::uint64_t value) { return value == 0 ? std::string("-") : std::to_string(value); };
  std::vector<std::vector<std::string>> lines = {
      {"ID", "TENANT", "KEY", "STATE", "RIGHTS", "CREATED", "SANDBOXES", "MEMORY", "EXECS/MIN", "AT ONCE", "NOTE"}};
  for (const auto& row : rows) {
    const auto& quotas = row.quotas;
    lines.push_back({row.id, row.tenant, row.prefix + "…", row.revoked_unix_ms ? "revoked" : "active",
                     row.operates ? "operator" : "tenant", timestamp(row.created_unix_ms), limit(quotas.max_sandboxes),
                     quotas.max_memory_bytes == 0 ? "-" : format_size(quotas.max_memory_bytes),
                     limit(quotas.executions_per_minute), limit(quotas.concurrent_executions), printable(row.note)});
  }
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    if (!out.empty()) out.push_back('\n');
    for (std::size_t i = 0; i < line.size(); ++i) {
      out += line[i];
      if (i + 1 < line.size() && !(i + 2 == line.size() && line.back().empty()))
        out.append(widths[i] - width(line[i]) + 2, ' ');
    }
  }
  return out;
}

// --- The three actions. Their error is a failure; a senseless wish was refused before ---

Result<> create(const KeyArguments& arguments, store::KeyRow row) {
  const auto state_dir = state_dir_of(arguments);
  COVE_CHECK(make_state_dir(state_dir));
  COVE_TRY(const auto home, server::FrontHome::make(state_dir));
  // Before there is one: whatever becomes of the database, a server asks for keys from now on.
  if (const auto required = server::require_keys(state_dir); !required && required.error().sys_errno != EACCES)
    return required;
  COVE_TRY(const auto store, open_store(home));
  const auto key = store::new_key();
  row.id = store::new_key_id();
  row.hash = store::sha256_hex(key);
  row.prefix = store::shown_prefix(key);
  COVE_CHECK(store->keys().create(row));
  auto object = to_json(row);
  object["key"] = key;
  // A key that nobody could read is worth nothing, and must not stay valid.
  if (auto put = put_line(arguments.json ? json::serialize(object) : key); !put) {
    [[maybe_unused]] const auto revoked = store->keys().revoke(row.id, unix_ms());
    return put;
  }
  if (!arguments.json) {
    tell("this is the key of tenant {}. It is shown only once: store it now", row.tenant);
    tell("to use it:    curl -H 'Authorization: Bearer KEY' http://127.0.0.1:8000/v1/sandboxes");
    tell("to revoke it: cove key revoke {}", row.id);
  }
  return {};
}

Result<> list(const KeyArguments& arguments) {
  const auto dir = state_dir_of(arguments);
  std::vector<store::KeyRow> rows;
  COVE_TRY(const auto home, server::FrontHome::find(dir));
  if (home) {
    COVE_TRY(const auto store, open_store(*home));
    const auto tenant = arguments.tenant.empty() ? std::nullopt : std::optional(arguments.tenant);
    COVE_TRY(rows, store->keys().list(tenant));
  }
  if (arguments.json) {
    json::array keys;
    for (const auto& row : rows) keys.push_back(to_json(row));
    return put_line(json::serialize(json::object{{"keys", std::move(keys)}}));
  }
  if (rows.empty()) {
    tell("there are no keys{} in {}; create one with cove key create --tenant NAME",
         arguments.tenant.empty() ? "" : " of tenant " + arguments.tenant, dir);
    return {};
  }
  return put_line(table_of(rows));
}

Result<> revoke(const KeyArguments& arguments) {
  const auto dir = state_dir_of(arguments);
  const auto unknown = [&] {
    return fail(Errc::not_found, fmt::format("there is no key '{}' in {}; see cove key list", arguments.id, dir));
  };
  COVE_TRY(const auto home, server::FrontHome::find(dir));
  if (!home) return unknown();
  COVE_TRY(const auto store, open_store(*home));
  const auto row = store->keys().revoke(arguments.id, unix_ms());
  if (!row && row.error().code == Errc::not_found) return unknown();
  if (!row) return tl::unexpected<Error>(row.error());
  if (arguments.json) return put_line(json::serialize(to_json(*row)));
  return put_line(fmt::format("{} of tenant {} is revoked (since {}); running servers refuse it from now on", row->id,
                              row->tenant, timestamp(*row->revoked_unix_ms)));
}

void describe(App& command, KeyArguments& arguments) {
  command.require_subcommand(0, 1);
  command.footer(
      "A key belongs to a tenant and carries its quotas. On a loopback address a server needs no key until the first "
      "one is\n"
      "created; from then on it requires one, even after the last was revoked. On any other address it does not start "
      "without\n"
      "keys. Running servers see every change at once.\n"
      "Exit status: 0 success, 1 failure, 2 usage error.\n"
      "Examples:\n"
      "  cove key create --tenant ci --max-sandboxes 20 --max-memory 8G --executions-per-minute 600\n"
      "  KEY=$(cove key create --tenant ci)\n"
      "  cove key list\n"
      "  cove key revoke key_abcdefghijklmnop");
  const auto common = [&](App* action, KeyAction which) {
    action->add_option("--state-dir", arguments.state_dir,
                       "State directory of the server (default " + host::default_state_dir() + ")");
    action->add_flag("--json", arguments.json, "Print one JSON object instead of text");
    action->callback([&arguments, which] { arguments.action = which; });
  };
  auto* create = command.add_subcommand("create", "Create a key and print it; it cannot be shown again");
  create
      ->add_option("--tenant", arguments.tenant,
                   "Tenant that the key belongs to; tenants cannot see each other's sandboxes")
      ->required();
  create->add_option("--max-sandboxes", arguments.max_sandboxes,
                     "Maximum number of sandboxes (default: the server's limit)");
  create->add_option("--max-memory", arguments.max_memory,
                     "Memory of all its sandboxes together, such as 4G (default: no limit)");
  create->add_option("--executions-per-minute", arguments.executions_per_minute,
                     "Maximum number of executions started per minute (default: no limit)");
  create->add_option("--concurrent-executions", arguments.concurrent_executions,
                     "Maximum number of concurrent executions (default: the server's limit)");
  create->add_flag("--operator", arguments.operates,
                   "Also allow building and deleting templates, which all tenants share");
  create->add_option("--note", arguments.note, "Comment to show in cove key list");
  common(create, KeyAction::create);
  auto* list = command.add_subcommand("list", "List keys by id and prefix; the secrets are not stored");
  list->add_option("--tenant", arguments.tenant, "List only this tenant's keys");
  common(list, KeyAction::list);
  auto* revoke = command.add_subcommand("revoke", "Revoke a key for good; the tenant's sandboxes keep running");
  revoke->add_option("id", arguments.id, "Key id (key_…), from cove key list")->required();
  common(revoke, KeyAction::revoke);
}

// A usage error: prints it and returns 2.
int refuse_key_command(const KeyArguments& arguments, const std::string& message) {
  return report(arguments, {.code = Errc::invalid, .message = message}, kSenseless);
}

}  // namespace

int key_command(const KeyArguments& arguments) {
  Result<> done;
  switch (arguments.action) {
    case KeyAction::none:
      return refuse_key_command(arguments, "a subcommand is required: create, list or revoke (see cove key --help)");
    case KeyAction::create: {
      auto row = new_row(arguments);
      if (!row) return refuse_key_command(arguments, row.error().message);
      done = create(arguments, std::move(*row));
      break;
    }
    case KeyAction::list:
      done = list(arguments);
      break;
    case KeyAction::revoke:
      if (arguments.id.starts_with(store::kKeyPrefix))
        return refuse_key_command(arguments,
                                  "this is a key, not the id of one: give the id (see cove key list). The key is in "
                                  "your shell's history now: consider it leaked");
      done = revoke(arguments);
      break;
  }
  return done ? 0 : report(arguments, done.error(), kFailed);
}

void add_key_command(App& app, Commands& commands) {
  auto* command = app.add_subcommand("key", "Create, list and revoke the API keys of a server");
  const auto arguments = std::make_shared<KeyArguments>();
  describe(*command, *arguments);
  commands.push_back({command, [arguments](const AfterDashes&) { return key_command(*arguments); },
                      [arguments](const std::string& message, bool as_json) {
                        arguments->json = as_json;
                        return refuse_key_command(*arguments, message);
                      }});
}

}  // namespace cove::cli
