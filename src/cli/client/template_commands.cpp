#include "cli/client/template_commands.hpp"

#include <fcntl.h>

#include <chrono>
#include <memory>
#include <sstream>
#include <thread>

#include "base/io.hpp"
#include "base/units.hpp"
#include "cli/client/limit_options.hpp"
#include "cli/client/table.hpp"
#include "cli/console.hpp"
#include "client/address.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;

constexpr std::chrono::milliseconds kLookAgain{300};

struct NameArguments : ClientOptions {
  std::string name;
};

std::string template_at(const std::string& name, const std::string& rest = {}) {
  return fmt::format("/v1/templates/{}{}", client::encoded(name), rest);
}

std::string list_text(const json::object& object, std::string_view field) {
  std::string text;
  const auto* list = object.if_contains(field);
  if (list == nullptr || !list->is_array()) return text;
  for (const auto& item : list->as_array()) {
    if (item.is_string()) text += fmt::format("{}{}", text.empty() ? "" : ",", std::string_view(item.as_string()));
  }
  return text;
}

struct BuildArguments : NameArguments {
  std::string from, timeout, build_timeout;
  LimitOptions limits;
  Words packages, preload, environment;
  bool detach = false;
};

// The packages that were named, and those of every file named as @FILE: one a line, # begins a comment.
Result<json::array> packages_of(const Words& words) {
  json::array out;
  for (const auto& word : words) {
    if (!word.starts_with('@')) {
      out.emplace_back(word);
      continue;
    }
    const auto file = read_file_at(AT_FDCWD, word.substr(1));
    if (!file) return fail(Errc::invalid, fmt::format("--packages {}: {}", word, file.error().message));
    std::istringstream lines(*file);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream names(line.substr(0, line.find('#')));
      for (std::string name; names >> name;) out.emplace_back(name);
    }
  }
  return out;
}

Result<json::object> build_body(const BuildArguments& arguments) {
  const auto array = [](const Words& words) {
    json::array out;
    for (const auto& word : words) out.emplace_back(word);
    return out;
  };
  COVE_TRY(auto packages, packages_of(arguments.packages));
  json::object body{{"name", arguments.name}, {"packages", std::move(packages)}};
  if (!arguments.from.empty()) body["from"] = arguments.from;
  if (!arguments.preload.empty()) body["preload"] = array(arguments.preload);
  COVE_CHECK(set_limits(body, arguments.limits));
  COVE_CHECK(set_timeout(body, arguments.timeout));
  COVE_TRY(auto environment, pairs("--env", arguments.environment));
  if (!environment.empty()) body["env"] = std::move(environment);
  if (!arguments.build_timeout.empty()) {
    const auto time = parse_duration(arguments.build_timeout);
    if (!time) return fail(Errc::invalid, fmt::format("--build-timeout: {}", time.error().message));
    body["buildTimeoutSeconds"] = std::chrono::ceil<std::chrono::seconds>(*time).count();
  }
  return body;
}

// What the build says, on standard error as it comes; then how it ended.
Result<> wait_for(client::Client& client, const BuildArguments& arguments) {
  std::size_t shown = 0;
  while (true) {
    COVE_TRY(const auto answer, client.ask({.target = template_at(arguments.name)}));
    if (!arguments.json) {
      COVE_TRY(const auto log, client.ask({.target = template_at(arguments.name, fmt::format("/log?from={}", shown))}));
      shown += log.body.size();
      COVE_CHECK(write_all(STDERR_FILENO, printable(log.body)));
    }
    COVE_TRY(const auto built, object_of(answer.body));
    const auto status = text_of(built, "status");
    if (status == "building") {
      std::this_thread::sleep_for(kLookAgain);
      continue;
    }
    if (arguments.json) COVE_CHECK(put_line(answer.body));
    if (status != "ready")
      return fail(Errc::io,
                  fmt::format("template {} could not be built: {}", arguments.name, text_of(built, "reason")));
    if (arguments.json) return {};
    return put_line(fmt::format("{}  {}  {}", text_of(built, "name"),
                                format_size(static_cast<std::uint64_t>(number_of(built, "sizeBytes"))),
                                list_text(built, "languages")));
  }
}

Result<> build(const BuildArguments& arguments) {
  COVE_TRY(const auto body, build_body(arguments));
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask(json_request("POST", "/v1/templates", body)));
  if (arguments.detach) return put_line(arguments.json ? answer.body : arguments.name);
  return wait_for(client, arguments);
}

Result<> list(const ClientOptions& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.target = "/v1/templates"}));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto page, object_of(answer.body));
  Table table({"NAME", "STATUS", "SIZE", "LANGUAGES", "PACKAGES"});
  const auto* all = page.if_contains("templates");
  for (const auto& item : all != nullptr && all->is_array() ? all->as_array() : json::array()) {
    if (!item.is_object()) continue;
    const auto& one = item.as_object();
    const auto size = number_of(one, "sizeBytes");
    table.add({text_of(one, "name"), text_of(one, "status"),
               size == 0 ? "-" : format_size(static_cast<std::uint64_t>(size)), list_text(one, "languages"),
               list_text(one, "packages")});
  }
  return put_line(table.text());
}

Result<> show(const NameArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.target = template_at(arguments.name)}));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto object, object_of(answer.body));
  return put_line(pretty(object));
}

Result<> show_log(const NameArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.target = template_at(arguments.name, "/log")}));
  if (arguments.json) return put_line(json::serialize(json::object{{"log", answer.body}}));
  return write_all(STDOUT_FILENO, printable(answer.body));
}

Result<> remove(const NameArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.method = "DELETE", .target = template_at(arguments.name)}));
  return put_line(arguments.json ? json::serialize(json::object{{"name", arguments.name}, {"deleted", true}})
                                 : arguments.name);
}

void add_build(App& all, Commands& commands) {
  auto* command = all.add_subcommand("build", "Build a template from Debian packages and print the build log");
  const auto a = std::make_shared<BuildArguments>();
  command->add_option("name", a->name, "Name of the template")->required();
  command
      ->add_option("--packages", a->packages,
                   "Debian packages, separated by commas, or @FILE with one a line; repeatable")
      ->delimiter(',');
  command->add_option("--from", a->from,
                      "Template to inherit packages and defaults from (default: host, which adds none)");
  command
      ->add_option("--preload", a->preload,
                   "Python modules that its interpreters import ahead of time (default: the server's)")
      ->delimiter(',');
  describe(*command, a->limits);
  command->add_option("--timeout", a->timeout, "Default timeout of an execution, such as 30s")->group("Limits");
  again(command->add_option("-e,--env", a->environment,
                            "Environment variable NAME=VALUE for every process in it; repeatable"));
  command->add_option("--build-timeout", a->build_timeout, "Timeout of the build, such as 10m (default: the server's)");
  command->add_flag("-d,--detach", a->detach, "Return at once; the build continues in the background");
  command->footer(
      "Examples:\n  cove template build science --packages @packaging/science.packages --memory 1G\n"
      "  cove template build web --from science --packages nodejs");
  describe(*command, *a, "NAME");
  commands.push_back({command, [a](const AfterDashes&) { return told(*a, build(*a)); }});
}

}  // namespace

void add_template_commands(App& app, Commands& commands) {
  auto* all = app.add_subcommand("template", "Manage templates: the file systems that sandboxes start from");
  all->require_subcommand(1);
  all->footer("Examples:\n  cove template list\n  cove create demo --template science\n  cove template delete science");
  add_build(*all, commands);
  {
    auto* command = all->add_subcommand("list", "List templates");
    const auto a = std::make_shared<ClientOptions>();
    describe(*command, *a, "");
    commands.push_back({command, [a](const AfterDashes&) { return told(*a, list(*a)); }});
  }
  const auto with_name = [&](const char* word, const char* what, Result<> (*run)(const NameArguments&)) {
    auto* command = all->add_subcommand(word, what);
    const auto a = std::make_shared<NameArguments>();
    command->add_option("name", a->name, "Template name, from cove template list")->required();
    describe(*command, *a, "NAME");
    commands.push_back({command, [a, run](const AfterDashes&) { return told(*a, run(*a)); }});
  };
  with_name("show", "Show the details of a template, including package versions", show);
  with_name("log", "Print the build log of a template", show_log);
  with_name("delete", "Delete a template that no sandbox uses; a running build is cancelled", remove);
}

}  // namespace cove::cli
