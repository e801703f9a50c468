#include "cli/client/kernel_commands.hpp"

#include <unistd.h>

#include <memory>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "cli/client/kernel_cell.hpp"
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
  std::string language;
  Words environment;
};

Result<> create(const CreateArguments& arguments) {
  json::object body;
  COVE_TRY(auto environment, pairs("--env", arguments.environment));
  if (!environment.empty()) body["env"] = std::move(environment);
  if (!arguments.language.empty()) body["language"] = arguments.language;
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
  std::string code, file, timeout, save_dir;
};

Result<json::object> exec_body(const ExecArguments& arguments) {
  json::object body;
  COVE_TRY(body["code"], code_from(arguments.code, arguments.file));
  COVE_CHECK(set_timeout(body, arguments.timeout));
  body["colour"] = ::isatty(STDERR_FILENO) == 1;
  return body;
}

void tell_of_cut(const json::object& end) {
  const auto* cut = end.if_contains("truncated");
  if (cut == nullptr || !cut->is_object()) return;
  const auto& lost = cut->as_object();
  const auto out = number_of(lost, "stdoutBytes");
  const auto err = number_of(lost, "stderrBytes");
  if (out + err > 0)
    tell("output truncated: {} bytes of stdout and {} of stderr past the limit were dropped", out, err);
  if (const auto displays = number_of(lost, "displays"); displays > 0)
    tell("output truncated: {} displays past the limit were dropped", displays);
}

int status_of(const json::object& end) {
  const auto reason = text_of(end, "reason");
  tell_of_cut(end);
  if (reason == "timeout") {
    tell("timed out after {} (raise --timeout to allow more)",
         format_duration(std::chrono::milliseconds(number_of(end, "durationMs"))));
    return 124;
  }
  const auto note = text_of(end, "note");
  if (reason == "exited") {
    if (!note.empty()) tell("{}", note);
    return text_of(end, "status") == "ok" ? 0 : 1;
  }
  tell("{}{}", reason, note.empty() ? "" : ": " + note);
  return kCoveFailed;
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
  // Where the code itself comes from standard input, nothing is left there to answer with.
  const bool asks =
      (!arguments.code.empty() || (!arguments.file.empty() && arguments.file != "-")) && ::isatty(STDIN_FILENO) == 1;
  const auto end =
      run_cell(*client, *body, {.kernel = kernels_at(arguments), .save_dir = arguments.save_dir, .answers_input = asks},
               interrupt);
  return end ? status_of(*end) : failed(end.error());
}

// The newest kernel that lives, or a new one.
Result<std::string> some_kernel(client::Client& client, const KernelArguments& arguments) {
  COVE_TRY(const auto answer, client.ask({.target = kernels_at(arguments)}));
  COVE_TRY(const auto page, object_of(answer.body));
  std::string id;
  for (const auto& item : list_of(page, "kernels")) {
    if (item.is_object() && text_of(item.as_object(), "state") != "dead") id = text_of(item.as_object(), "id");
  }
  if (!id.empty()) return id;
  COVE_TRY(const auto made, client.ask(json_request("POST", kernels_at(arguments), {})));
  COVE_TRY(const auto kernel, object_of(made.body));
  return text_of(kernel, "id");
}

int attach(ExecArguments arguments) {
  Interrupt interrupt;
  auto client = connect(arguments, {.interrupt_fd = interrupt.fd()});
  if (!client) return report_error(arguments, client.error(), kCoveFailed);
  if (arguments.kernel.empty()) {
    const auto found = some_kernel(*client, arguments);
    if (!found) return report_error(arguments, found.error(), kCoveFailed);
    arguments.kernel = *found;
  }
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (terminal)
    tell("kernel {} of {}. Ctrl-C interrupts the code, Ctrl-D leaves; the kernel keeps its state", arguments.kernel,
         arguments.id);
  int status = 0;
  const auto done = kernel_prompt(*client,
                                  {.kernel = kernels_at(arguments),
                                   .save_dir = arguments.save_dir,
                                   .answers_input = terminal,
                                   .interrupt_goes_to_code = terminal},
                                  interrupt, [&](const json::object& end) { status = status_of(end); });
  if (done) return terminal ? 0 : status;
  return client::interrupted(done.error()) ? 128 + std::max(1, interrupt.take())
                                           : report_error(arguments, done.error(), kCoveFailed);
}

}  // namespace

void add_kernel_commands(App& app, Commands& commands) {
  auto* all = app.add_subcommand("kernel", "Manage kernels: interpreters in a sandbox that keep their state");
  all->require_subcommand(1);
  all->footer(
      "Examples:\n"
      "  cove kernel create demo\n"
      "  cove kernel exec demo k1 -c 'x = 6*7; x'\n"
      "  cove kernel vars demo k1");
  const auto name = [](App* command, KernelArguments& a) {
    command->add_option("id", a.id, "Sandbox id")->required();
    command->add_option("kernel", a.kernel, "Kernel id, such as k1, from cove kernel ls")->required();
  };
  const auto add = [&](App* command, const std::shared_ptr<KernelArguments>& a, const std::string& words, auto run) {
    describe(*command, *a, words);
    commands.push_back({command, [a, run](const AfterDashes&) {
                          const auto done = run(*a);
                          return done ? 0 : report_error(*a, done.error());
                        }});
  };
  {
    auto* command = all->add_subcommand("create", "Start a kernel and print its id");
    const auto a = std::make_shared<CreateArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("-l,--language,--lang", a->language, "python or javascript (default: python)");
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
    command->add_option("--save", a->save_dir, "Directory to write pictures to, as figure-1.png and so on");
    command->footer(
        "Exit status: 0 success, 1 the code raised an error, 124 timeout, 125 the kernel died or Cove "
        "failed.\n"
        "Examples:\n"
        "  cove kernel exec demo k1 -c 'import pandas as pd; df = pd.read_csv(\"data.csv\"); df.describe()'\n"
        "  cove kernel exec demo k1 cell.py\n"
        "  cove kernel exec demo k1 --save plots -c 'import matplotlib.pyplot as plt; plt.plot([1, 4, 9]); "
        "plt.show()'\n"
        "  echo 'print(x)' | cove kernel exec demo k1");
    describe(*command, *a, "ID KERNEL [FILE]");
    commands.push_back({command, [a](const AfterDashes&) { return exec(*a); }});
  }
  {
    auto* command = all->add_subcommand("attach", "Type code into a kernel, line by line");
    const auto a = std::make_shared<ExecArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("kernel", a->kernel, "Kernel id (default: the newest, or a new one)");
    command->add_option("--save", a->save_dir, "Directory to write pictures to, as figure-1.png and so on");
    command->footer(
        "What is typed goes on over several lines while it is incomplete; an empty line ends it.\n"
        "Examples:\n  cove kernel attach demo\n  cove kernel attach demo k1 --save plots");
    describe(*command, *a, "ID [KERNEL]");
    commands.push_back({command, [a](const AfterDashes&) { return attach(*a); }});
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
