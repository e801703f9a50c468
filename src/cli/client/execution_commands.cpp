#include "cli/client/execution_commands.hpp"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/clock.hpp"
#include "base/io.hpp"
#include "base/text.hpp"
#include "cli/client/table.hpp"
#include "cli/console.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::sandbox_target;

constexpr std::chrono::milliseconds kLookAgain{200};
constexpr std::chrono::milliseconds kNoMoreYet{1000};
constexpr int kWait = 60;  // seconds that one question waits for an end

struct ExecutionArguments : ClientOptions {
  std::string id, execution;
};

std::string executions_at(const ExecutionArguments& arguments, const std::string& rest = {}) {
  auto target = sandbox_target(arguments.id, "/executions").text();
  if (!arguments.execution.empty()) target += "/" + client::encoded(arguments.execution);
  return target + rest;
}

struct SubmitArguments : ExecutionArguments {
  std::string code, file, language, timeout, event, kernel, callback, secret;
  Words arguments, environment;
};

Result<json::object> submit_body(const SubmitArguments& arguments) {
  json::object body;
  COVE_TRY(body["code"], code_from(arguments.code, arguments.file));
  COVE_CHECK(set_timeout(body, arguments.timeout));
  COVE_TRY(auto environment, pairs("--env", arguments.environment));
  if (!environment.empty()) body["env"] = std::move(environment);
  if (!arguments.language.empty()) body["language"] = arguments.language;
  if (!arguments.arguments.empty()) body["args"] = json::value_from(arguments.arguments);
  if (!arguments.kernel.empty()) body["kernel"] = arguments.kernel;
  if (!arguments.event.empty()) {
    boost::system::error_code failed;
    body["event"] = json::parse(arguments.event, failed);
    if (failed) return fail(Errc::invalid, fmt::format("--event is not JSON: {}", failed.message()));
  }
  if (!arguments.callback.empty()) {
    json::object callback{{"url", arguments.callback}};
    if (!arguments.secret.empty()) callback["secret"] = arguments.secret;
    body["callback"] = std::move(callback);
  } else if (!arguments.secret.empty()) {
    return fail(Errc::invalid, "--secret needs --callback");
  }
  return body;
}

Result<> submit(const SubmitArguments& arguments) {
  COVE_TRY(const auto body, submit_body(arguments));
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask(json_request("POST", executions_at(arguments), body)));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto execution, object_of(answer.body));
  return put_line(text_of(execution, "id"));
}

struct ListArguments : ExecutionArguments {
  std::string status;
};

Result<> list(const ListArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  auto target = sandbox_target(arguments.id, "/executions").with("limit", "1000");
  if (!arguments.status.empty()) target.with("status", arguments.status);
  COVE_TRY(const auto answer, client.ask({.target = target.text()}));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto page, object_of(answer.body));
  Table table({"ID", "STATUS", "LANGUAGE", "AGE", "MS", "EXIT", "REASON"});
  const auto now = unix_millis() / 1000;
  const auto* executions = page.if_contains("executions");
  if (executions == nullptr || !executions->is_array())
    return fail(Errc::io, "the response is not from a Cove server: check --url");
  for (const auto& item : executions->as_array()) {
    if (!item.is_object()) continue;
    const auto& one = item.as_object();
    const auto made = unix_seconds(text_of(one, "createdAt"));
    const auto* exit = one.if_contains("exitCode");
    table.add({text_of(one, "id"), text_of(one, "status"), text_of(one, "language"),
               made ? coarse(std::chrono::seconds(std::max<std::int64_t>(0, now - *made))) : "-",
               one.contains("durationMs") ? std::to_string(number_of(one, "durationMs")) : "-",
               exit != nullptr && exit->is_int64() ? std::to_string(exit->as_int64()) : "-", text_of(one, "reason")});
  }
  return put_line(table.text());
}

struct GetArguments : ExecutionArguments {
  bool wait = false;
  bool follow = false;
};

Result<json::object> fetch(client::Client& client, const GetArguments& arguments) {
  const auto rest = arguments.wait ? fmt::format("?wait={}", kWait) : std::string();
  while (true) {
    COVE_TRY(const auto answer, client.ask({.target = executions_at(arguments, rest)}));
    COVE_TRY(auto execution, object_of(answer.body));
    const auto* ended = execution.if_contains("endedAt");
    if (!arguments.wait || (ended != nullptr && !ended->is_null())) return execution;
  }
}

void tell_of_cut(const json::object& execution) {
  for (const std::string stream : {"stdout", "stderr"}) {
    const auto* cut = execution.if_contains(stream + "Truncated");
    if (cut == nullptr || !cut->is_bool() || !cut->as_bool()) continue;
    const auto* written = execution.if_contains(stream + "Bytes");
    const auto shown = text_of(execution, stream).size();
    if (written != nullptr)
      tell("output truncated: {} of {} bytes of {} were kept", shown, number_of(execution, stream + "Bytes"), stream);
    else
      tell("output truncated: the first {} bytes of {} were kept", shown, stream);
  }
}

bool ended(const json::object& execution) {
  const auto* at = execution.if_contains("endedAt");
  return at != nullptr && !at->is_null();
}

// The output of one that runs: all that there is, or all until its end.
Result<> show_live(const GetArguments& arguments) {
  // The events that are there come at once; a moment of silence means that there are no more of them yet.
  const client::Waiting waiting{.patience = arguments.follow ? std::chrono::milliseconds(0) : kNoMoreYet};
  COVE_TRY(auto client, connect(arguments, waiting));
  const auto silent = [&](const Error& error) { return error.sys_errno == ETIMEDOUT && !arguments.follow; };
  auto events = client.follow({.target = executions_at(arguments, "/events?from=1")});
  if (!events && silent(events.error())) return {};
  if (!events) return tl::unexpected<Error>(events.error());
  while (true) {
    const auto event = events->next();
    if (!event && silent(event.error())) return {};
    if (!event) return tl::unexpected<Error>(event.error());
    if (!*event) return {};
    COVE_TRY(const auto object, object_of((*event)->data));
    const auto type = text_of(object, "type");
    if (type == "end") return {};
    if (type != "stdout" && type != "stderr") continue;
    const auto bytes =
        object.contains("base64") ? from_base64(text_of(object, "base64")).value_or("") : text_of(object, "data");
    COVE_CHECK(write_all(type == "stdout" ? STDOUT_FILENO : STDERR_FILENO, bytes));
  }
}

Result<> get(GetArguments arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(auto execution, fetch(client, arguments));
  const bool live = !ended(execution) && !arguments.json;
  if (live) COVE_CHECK(show_live(arguments));
  if (live && arguments.follow) {
    arguments.wait = true;
    COVE_TRY(execution, fetch(client, arguments));
  }
  if (arguments.json) return put_line(json::serialize(execution));
  if (!live) {
    COVE_CHECK(write_all(STDOUT_FILENO, text_of(execution, "stdout")));
    COVE_CHECK(write_all(STDERR_FILENO, text_of(execution, "stderr")));
  }
  const auto* value = execution.if_contains("returnValue");
  if (value != nullptr) COVE_CHECK(put_line(json::serialize(*value)));
  tell_of_cut(execution);
  const auto* exit = execution.if_contains("exitCode");
  const auto* error = execution.if_contains("error");
  if (const auto note = text_of(execution, "note"); !note.empty()) tell("{}", note);
  tell("{}{}{}", text_of(execution, "status"),
       exit != nullptr && exit->is_int64() ? fmt::format(", exit code {}", exit->as_int64()) : "",
       error != nullptr && error->is_string() ? fmt::format(": {}", text_of(execution, "error")) : "");
  return {};
}

Result<> cancel(const ExecutionArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.method = "DELETE", .target = executions_at(arguments)}));
  return {};
}

struct InstallArguments : ClientOptions {
  std::string id, index, timeout;
  Words packages;
  bool detach = false;
};

// "name", "name==1.2" and "name>=1,<2": people write them in one word.
json::object package_of(const std::string& word) {
  const auto at = word.find_first_of("=<>~!");
  json::object package{{"name", word.substr(0, at)}};
  if (at != std::string::npos) package["version"] = word.substr(at);
  return package;
}

// Until it is over; every change of its status is told.
Result<json::object> watch(client::Client& client, const std::string& target, bool quiet) {
  std::string before;
  while (true) {
    COVE_TRY(const auto answer, client.ask({.target = target}));
    COVE_TRY(auto status, object_of(answer.body));
    const auto now = text_of(status, "status");
    if (now != "pending" && now != "installing") return status;
    if (!quiet && now != before) tell("{}", now);
    before = now;
    std::this_thread::sleep_for(kLookAgain);
  }
}

// The exit status.
Result<int> install(const InstallArguments& arguments) {
  json::object body;
  json::array packages;
  for (const auto& word : arguments.packages) packages.push_back(package_of(word));
  body["packages"] = std::move(packages);
  if (!arguments.index.empty()) body["indexUrl"] = arguments.index;
  COVE_CHECK(set_timeout(body, arguments.timeout));
  COVE_TRY(auto client, connect(arguments));
  const auto target = sandbox_target(arguments.id, "/dependencies").text();
  auto answered = client.ask(json_request("POST", target, body));
  // The server speaks of the field; who typed the command knows the flag.
  constexpr std::string_view kField = "indexUrl";
  if (!answered && answered.error().message.starts_with(kField)) {
    auto error = answered.error();
    error.message.replace(0, kField.size(), "--index");
    return tl::unexpected<Error>(std::move(error));
  }
  COVE_TRY(const auto begun, std::move(answered));
  if (arguments.detach && arguments.json) COVE_CHECK(put_line(begun.body));
  if (arguments.detach) return 0;
  COVE_TRY(const auto status, watch(client, target, arguments.json));
  if (arguments.json) COVE_CHECK(put_line(json::serialize(status)));
  const bool good = text_of(status, "status") == "completed";
  if (arguments.json) return good ? 0 : 1;
  if (!good) {
    COVE_CHECK(write_all(STDERR_FILENO, text_of(status, "output")));
    return fail(Errc::io, text_of(status, "error"));
  }
  const auto* installed = status.if_contains("installed");
  if (installed == nullptr || !installed->is_array()) return 0;
  for (const auto& item : installed->as_array()) {
    if (item.is_object())
      COVE_CHECK(
          put_line(fmt::format("{} {}", text_of(item.as_object(), "name"), text_of(item.as_object(), "version"))));
  }
  return 0;
}

template <typename Arguments, typename Run>
void add(Commands& commands, App* command, std::shared_ptr<Arguments> a, const std::string& words, Run run) {
  describe(*command, *a, words);
  commands.push_back({command, [a, run](const AfterDashes&) {
                        const auto done = run(*a);
                        return done ? 0 : report_error(*a, done.error());
                      }});
}

}  // namespace

void add_execution_commands(App& app, Commands& commands) {
  auto* all = app.add_subcommand("executions", "Run code in a sandbox in the background");
  all->require_subcommand(1);
  all->footer(
      "Examples:\n"
      "  cove executions submit demo train.py --timeout 30m --callback https://example.org/done\n"
      "  cove executions submit demo -c 'def handler(event): return event[\"n\"] + 1' --event '{\"n\": 1}'\n"
      "  cove executions get demo x… --wait");
  const auto name = [](App* command, ExecutionArguments& a) {
    command->add_option("id", a.id, "Sandbox id")->required();
    command->add_option("execution", a.execution, "Execution id, from cove executions ls")->required();
  };
  {
    auto* command = all->add_subcommand("submit", "Start code in the background and print its id");
    const auto a = std::make_shared<SubmitArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("file", a->file, "File with the code (default: standard input)");
    command->add_option("-c,--code", a->code, "Code to run");
    command->add_option("-l,--lang", a->language, "Language (default: python)");
    command->add_option("--timeout", a->timeout, "Timeout, such as 30s or 5m (default: the server's)");
    again(command->add_option("-a,--arg", a->arguments, "Argument for the program; repeatable"));
    again(command->add_option("-e,--env", a->environment, "Environment variable NAME=VALUE; repeatable"));
    command->add_option("--event", a->event, "Call handler(event) in the code with this JSON value");
    command->add_option("--kernel", a->kernel, "Run the code in this kernel");
    command->add_option("--callback", a->callback, "URL to notify when the execution ends");
    command->add_option("--secret", a->secret, "Secret to sign the callback with");
    add(commands, command, a, "ID [FILE]", submit);
  }
  {
    auto* command = all->add_subcommand("ls", "List the executions of a sandbox, newest first");
    const auto a = std::make_shared<ListArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("--status", a->status,
                        "List only executions with this status: pending, running, completed, failed, timeout, …");
    add(commands, command, a, "ID", list);
  }
  {
    auto* command = all->add_subcommand("get", "Show the status and result of an execution");
    const auto a = std::make_shared<GetArguments>();
    name(command, *a);
    command->add_flag("-w,--wait", a->wait, "Wait until it has ended");
    command->add_flag("-f,--follow", a->follow, "Print its output as it comes, until it has ended");
    add(commands, command, a, "ID EXECUTION", get);
  }
  {
    auto* command = all->add_subcommand("cancel", "Cancel an execution");
    const auto a = std::make_shared<ExecutionArguments>();
    name(command, *a);
    add(commands, command, a, "ID EXECUTION", cancel);
  }
  {
    auto* command = app.add_subcommand("install", "Install Python packages into a sandbox");
    const auto a = std::make_shared<InstallArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("packages", a->packages, "Requirements, such as six, six==1.16.0 or 'six>=1,<2'")->required();
    command->add_option("--index", a->index, "URL of the package index (default: the server's)");
    command->add_option("--timeout", a->timeout, "Timeout, such as 5m (default: the server's)");
    command->add_flag("-d,--detach", a->detach, "Return at once; the install continues in the background");
    command->footer(
        "Examples:\n  cove install demo six 'attrs>=22'\n  cove install demo --index https://index.example.org/simple "
        "tool");
    describe(*command, *a, "ID PACKAGE…");
    commands.push_back({command, [a](const AfterDashes&) {
                          const auto done = install(*a);
                          return done ? *done : report_error(*a, done.error());
                        }});
  }
}

}  // namespace cove::cli
