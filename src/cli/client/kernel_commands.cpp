#include "cli/client/kernel_commands.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "cli/client/table.hpp"
#include "cli/console.hpp"
#include "cli/interrupt.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::sandbox_target;

constexpr int kCoveFailed = 125;

struct KernelArguments : ClientOptions {
  std::string id, kernel;
};

std::string kernels_at(const KernelArguments& arguments, const std::string& rest = {}) {
  auto target = sandbox_target(arguments.id, "/kernels").text();
  if (!arguments.kernel.empty()) target += "/" + client::encoded(arguments.kernel);
  return target + rest;
}

json::array list_of(const json::object& page, std::string_view name) {
  const auto* list = page.if_contains(name);
  return list != nullptr && list->is_array() ? list->as_array() : json::array();
}

struct CreateArguments : KernelArguments {
  Words environment;
};

Result<> create(const CreateArguments& arguments) {
  json::object body;
  COVE_TRY(auto environment, pairs("--env", arguments.environment));
  if (!environment.empty()) body["env"] = std::move(environment);
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask(json_request("POST", kernels_at(arguments), body)));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto kernel, object_of(answer.body));
  return put_line(text_of(kernel, "id"));
}

Result<> list(const KernelArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.target = kernels_at(arguments)}));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto page, object_of(answer.body));
  Table table({"ID", "LANGUAGE", "STATE", "AGE", "RUNS", "QUEUED", "NOTE"});
  const auto now = unix_millis() / 1000;
  for (const auto& item : list_of(page, "kernels")) {
    if (!item.is_object()) continue;
    const auto& kernel = item.as_object();
    const auto started = unix_seconds(text_of(kernel, "startedAt"));
    table.add({text_of(kernel, "id"), text_of(kernel, "language"), text_of(kernel, "state"),
               started ? coarse(std::chrono::seconds(std::max<std::int64_t>(0, now - *started))) : "-",
               std::to_string(number_of(kernel, "executions")), std::to_string(number_of(kernel, "queued")),
               text_of(kernel, "note")});
  }
  return put_line(table.text());
}

Result<> variables(const KernelArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.target = kernels_at(arguments, "/variables")}));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto page, object_of(answer.body));
  Table table({"NAME", "TYPE", "SHAPE", "VALUE"});
  for (const auto& item : list_of(page, "variables")) {
    if (!item.is_object()) continue;
    const auto& variable = item.as_object();
    const auto* shape = variable.if_contains("shape");
    auto value = text_of(variable, "preview");
    if (value.size() > 60) value = value.substr(0, 60) + "...";
    table.add({text_of(variable, "name"), text_of(variable, "type"),
               shape != nullptr && !shape->is_null() ? json::serialize(*shape) : "-", value});
  }
  return put_line(table.text());
}

// An order that answers with nothing, or with the kernel.
Result<> order(const KernelArguments& arguments, const std::string& method, const std::string& rest) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.method = method, .target = kernels_at(arguments, rest)}));
  if (arguments.json && !answer.body.empty()) return put_line(answer.body);
  return {};
}

struct ExecArguments : KernelArguments {
  std::string code, file, timeout;
};

Result<json::object> exec_body(const ExecArguments& arguments) {
  json::object body;
  COVE_TRY(body["code"], code_from(arguments.code, arguments.file));
  COVE_CHECK(set_timeout(body, arguments.timeout));
  body["colour"] = ::isatty(STDERR_FILENO) == 1;
  return body;
}

Result<> show(const json::object& event) {
  const auto type = text_of(event, "type");
  if (type == "stdout" || type == "stderr")
    return write_all(type == "stdout" ? STDOUT_FILENO : STDERR_FILENO, text_of(event, "data"));
  if (type == "error") {
    for (const auto& line : list_of(event, "traceback")) {
      if (line.is_string()) COVE_CHECK(write_all(STDERR_FILENO, std::string(line.as_string()) + "\n"));
    }
    return {};
  }
  const auto* data = event.if_contains("data");
  const bool shown = type == "display" || type == "update_display" || type == "result";
  if (!shown || data == nullptr || !data->is_object()) return {};
  return put_line(text_of(data->as_object(), "text/plain"));
}

int status_of(const json::object& end) {
  const auto reason = text_of(end, "reason");
  if (reason == "timeout") {
    tell("timed out after {} (raise --timeout to allow more)",
         format_duration(std::chrono::milliseconds(number_of(end, "durationMs"))));
    return 124;
  }
  if (reason == "exited") return text_of(end, "status") == "ok" ? 0 : 1;
  const auto note = text_of(end, "note");
  tell("{}{}", reason, note.empty() ? "" : ": " + note);
  return kCoveFailed;
}

Result<json::object> follow(client::EventStream& events) {
  while (true) {
    COVE_TRY(const auto event, events.next());
    if (!event) return fail(Errc::unavailable, "the server closed the stream before the code ended");
    COVE_TRY(auto object, object_of(event->data));
    if (text_of(object, "type") == "end") return object;
    COVE_CHECK(show(object));
  }
}

int exec(const ExecArguments& arguments) {
  const auto body = exec_body(arguments);
  if (!body) return report_error(arguments, body.error(), kCoveFailed);
  Interrupt interrupt;
  auto client = connect(arguments, {.interrupt_fd = interrupt.fd()});
  if (!client) return report_error(arguments, client.error(), kCoveFailed);
  const auto failed = [&](const Error& error) {
    if (client::interrupted(error)) return 128 + std::max(1, interrupt.take());
    if (error.sys_errno == EPIPE) return 128 + SIGPIPE;  // whoever read our output has left
    return report_error(arguments, error, kCoveFailed);
  };
  auto request = json_request("POST", kernels_at(arguments, "/execute"), *body);
  if (arguments.json) {
    const auto answer = client->ask(request);
    if (!answer) return failed(answer.error());
    const auto result = object_of(answer->body);
    if (!result) return failed(result.error());
    const auto put = put_line(json::serialize(*result));
    return put ? status_of(*result) : failed(put.error());
  }
  auto events = client->follow(std::move(request));
  if (!events) return failed(events.error());
  const auto end = follow(*events);
  return end ? status_of(*end) : failed(end.error());
}

}  // namespace

void add_kernel_commands(CLI::App& app, Commands& commands) {
  auto* all = app.add_subcommand("kernel", "Manage kernels: interpreters in a sandbox that keep their state");
  all->require_subcommand(1);
  all->footer(
      "Examples:\n"
      "  cove kernel create demo\n"
      "  cove kernel exec demo k1 -c 'x = 6*7; x'\n"
      "  cove kernel vars demo k1");
  const auto name = [](CLI::App* command, KernelArguments& a) {
    command->add_option("id", a.id, "Sandbox id")->required();
    command->add_option("kernel", a.kernel, "Kernel id, such as k1, from cove kernel ls")->required();
  };
  const auto add = [&](CLI::App* command, const std::shared_ptr<KernelArguments>& a, std::string words, auto run) {
    describe(*command, *a, std::move(words));
    commands.push_back({command, [a, run](const AfterDashes&) {
                          const auto done = run(*a);
                          return done ? 0 : report_error(*a, done.error());
                        }});
  };
  {
    auto* command = all->add_subcommand("create", "Start a kernel and print its id");
    const auto a = std::make_shared<CreateArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    again(command->add_option("-e,--env", a->environment, "Environment variable NAME=VALUE; repeatable"));
    describe(*command, *a, "ID");
    commands.push_back({command, [a](const AfterDashes&) {
                          const auto done = create(*a);
                          return done ? 0 : report_error(*a, done.error());
                        }});
  }
  {
    auto* command = all->add_subcommand("ls", "List the kernels of a sandbox");
    const auto a = std::make_shared<KernelArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    add(command, a, "ID", list);
  }
  {
    auto* command = all->add_subcommand("exec", "Run code in a kernel and print its output");
    const auto a = std::make_shared<ExecArguments>();
    name(command, *a);
    command->add_option("file", a->file, "File with the code (default: standard input)");
    command->add_option("-c,--code", a->code, "Code to run");
    command->add_option("--timeout", a->timeout, "Timeout, such as 30s or 5m (default: the server's)");
    command->footer(
        "Exit status: 0 success, 1 the code raised an error, 124 timeout, 125 the kernel died or Cove "
        "failed.\n"
        "Examples:\n"
        "  cove kernel exec demo k1 -c 'import pandas as pd; df = pd.read_csv(\"data.csv\"); df.describe()'\n"
        "  cove kernel exec demo k1 cell.py\n"
        "  echo 'print(x)' | cove kernel exec demo k1");
    describe(*command, *a, "ID KERNEL [FILE]");
    commands.push_back({command, [a](const AfterDashes&) { return exec(*a); }});
  }
  const auto simple = [&](const char* word, const char* what, auto run) {
    auto* command = all->add_subcommand(word, what);
    const auto a = std::make_shared<KernelArguments>();
    name(command, *a);
    add(command, a, "ID KERNEL", run);
  };
  simple("vars", "Show the variables of a kernel", variables);
  simple("interrupt", "Interrupt the running code, as Ctrl-C does",
         [](const KernelArguments& a) { return order(a, "POST", "/interrupt"); });
  simple("restart", "Restart a kernel with a fresh interpreter",
         [](const KernelArguments& a) { return order(a, "POST", "/restart"); });
  simple("rm", "Delete a kernel", [](const KernelArguments& a) { return order(a, "DELETE", ""); });
}

}  // namespace cove::cli
