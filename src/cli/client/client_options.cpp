#include "cli/client/client_options.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/io.hpp"
#include "base/units.hpp"
#include "cli/client/completion_command.hpp"
#include "cli/client/execution_commands.hpp"
#include "cli/client/forward_command.hpp"
#include "cli/client/journal_commands.hpp"
#include "cli/client/kernel_commands.hpp"
#include "cli/client/network_command.hpp"
#include "cli/client/process_commands.hpp"
#include "cli/client/sandbox_commands.hpp"
#include "cli/client/template_commands.hpp"
#include "cli/client/tool_commands.hpp"
#include "cli/client/transfer_commands.hpp"
#include "cli/client/up_commands.hpp"
#include "cli/console.hpp"
#include "cli/variable.hpp"

namespace cove::cli {

namespace json = boost::json;

namespace {

void put_pretty(const json::value& value, std::string indent, std::string& out) {
  const auto deeper = indent + "  ";
  const auto children = [&](const auto& container, char open, char close, const auto& each) {
    if (container.empty()) return void(out += {open, close});
    out += open;
    bool first = true;
    for (const auto& child : container) {
      out += (std::exchange(first, false) ? "\n" : ",\n") + deeper;
      each(child);
    }
    out += "\n" + indent + close;
  };
  if (value.is_object()) {
    children(value.as_object(), '{', '}', [&](const auto& field) {
      out += json::serialize(json::string(field.key())) + ": ";
      put_pretty(field.value(), deeper, out);
    });
  } else if (value.is_array()) {
    children(value.as_array(), '[', ']', [&](const auto& item) { put_pretty(item, deeper, out); });
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

void describe(App& command, ClientOptions& options, const std::string& words) {
  const auto* above = command.parent();
  const bool nested = above != nullptr && above->parent() != nullptr;
  const auto name = nested ? fmt::format("{} {}", above->name(), command.name()) : command.name();
  command.usage(fmt::format("Usage: cove {} [OPTIONS] {}\n", name, words));
  describe_server(command, options, {.url = "URL of the server", .key = "API key, if the server requires one"});
  command.add_flag("--json", options.json, "Print the server's JSON")->group("Output");
}

void describe_server(App& command, ClientOptions& options, const ServerHelp& help) {
  add_option_with_variable(command, "--url", options.url, help.url, "COVE_URL")->group("Server");
  // Its value is never shown: help texts end up in bug reports.
  add_option_with_variable(command, "--key", options.key, help.key, "COVE_API_KEY")->group("Server");
}

Result<client::Client> connect(const ClientOptions& options, const client::Waiting& waiting) {
  auto address = client::parse_address(options.url);
  if (!address) return fail(Errc::invalid, fmt::format("--url: {}", address.error().message));
  for (const char c : options.key) {
    if (c <= ' ' || c == 0x7f) return fail(Errc::invalid, "--key: a key has no spaces or control characters");
  }
  return client::Client({.address = std::move(*address), .key = options.key, .waiting = waiting});
}

void add_client_commands(App& app, Commands& commands) {
  add_sandbox_commands(app, commands);
  add_process_commands(app, commands);
  add_forward_command(app, commands);
  add_network_command(app, commands);
  add_journal_commands(app, commands);
  add_kernel_commands(app, commands);
  add_execution_commands(app, commands);
  add_tool_commands(app, commands);
  add_template_commands(app, commands);
  add_transfer_commands(app, commands);
  add_up_commands(app, commands);
  add_completion_command(app, commands);
}

std::string pretty(const json::value& value) {
  std::string text;
  put_pretty(value, "", text);
  return text;
}

std::string in_flags(std::string_view sentence) {
  struct Name {
    std::string_view field;
    std::string_view flag;
  };
  constexpr auto kNames = std::to_array<Name>({{"memoryLimit", "--memory"},
                                               {"ephemeralStorageLimit", "--disk"},
                                               {"cpuLimit", "--cpus"},
                                               {"pidsLimit", "--pids"},
                                               {"ttlSeconds", "--ttl"},
                                               {"timeoutSeconds", "--timeout"},
                                               {"buildTimeoutSeconds", "--timeout"},
                                               {"installTimeoutSeconds", "--timeout"},
                                               {"indexUrl", "--index"},
                                               {"labels", "--label"},
                                               {"env", "--env"},
                                               {"image", "--image"},
                                               {"template", "--template"}});
  // A field is named at the beginning, or in a list; the same word elsewhere is just a word.
  constexpr auto kListed = std::string_view("not applied: ");
  const auto list = sentence.find(kListed);
  std::string out;
  for (std::size_t at = 0; at < sentence.size();) {
    const auto end = std::min(sentence.find_first_of(" ,;:.", at), sentence.size());
    const auto word = sentence.substr(at, end - at);
    const auto known = std::ranges::find(kNames, word, &Name::field);
    const bool camel = std::ranges::any_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
    const bool named = known != kNames.end() && (camel || at == 0 || (list != std::string_view::npos && at > list));
    out += named ? known->flag : word;
    if (end < sentence.size()) out += sentence[end];
    at = end + 1;
  }
  const std::string_view patch = "PATCH changes them";
  if (const auto found = out.find(patch); found != std::string::npos)
    out.replace(found, patch.size(), "cove update changes them");
  return out;
}

int report_error(const ClientOptions& options, const Error& error, int status) {
  if (client::interrupted(error)) return 130;
  const auto message = in_flags(error.message);
  tell("{}", message);
  if (options.json) [[maybe_unused]]
    const auto put = put_line(json::serialize(json::object{{"error", message}}));
  return status;
}

int told(const ClientOptions& options, const Result<>& done) {
  return done ? 0 : report_error(options, done.error());
}

Result<json::object> object_of(const std::string& body) {
  boost::system::error_code failed;
  auto value = json::parse(body, failed);
  if (failed || !value.is_object()) return fail(Errc::io, "the response is not from a Cove server: check --url");
  return std::move(value.as_object());
}

void tell_note(const json::object& end) {
  constexpr auto kNoted = std::to_array<std::string_view>({"exited", "signalled", "oom", "pids", "disk"});
  const auto note = text_of(end, "note");
  if (!note.empty() && std::ranges::find(kNoted, text_of(end, "reason")) != kNoted.end()) tell("{}", note);
}

std::int64_t number_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  boost::system::error_code failed;
  const auto number = value == nullptr ? 0 : value->to_number<std::int64_t>(failed);
  return failed ? 0 : number;
}

client::Request json_request(std::string method, std::string target, const json::object& body) {
  return {.method = std::move(method),
          .target = std::move(target),
          .content_type = "application/json",
          .body = json::serialize(body)};
}

Result<std::string> code_from(const std::string& code, const std::string& file) {
  if (!code.empty() && !file.empty()) return fail(Errc::invalid, "give --code or a file, not both");
  if (!code.empty()) return code;
  if (file.empty() || file == "-") return read_all(STDIN_FILENO);
  const UniqueFd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) return fail_errno(errno, "{}", file);
  return read_all(opened.get());
}

Result<> set_timeout(json::object& body, const std::string& text) {
  if (text.empty()) return {};
  const auto timeout = parse_duration(text);
  if (!timeout) return fail(Errc::invalid, fmt::format("--timeout: {}", timeout.error().message));
  if (timeout->count() == 0) return fail(Errc::invalid, "--timeout: must be more than 0");
  body["timeoutSeconds"] = std::chrono::duration<double>(*timeout).count();
  return {};
}

Result<json::object> pairs(std::string_view option, const Words& texts) {
  json::object object;
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail(Errc::invalid, fmt::format("{}: '{}' is not NAME=VALUE", option, text));
    object[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return object;
}

Option* again(Option* option) {
  return option->expected(1)->take_all()->allow_extra_args(false);
}

}  // namespace cove::cli
