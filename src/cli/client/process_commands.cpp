#include "cli/client/process_commands.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <thread>

#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/client/table.hpp"
#include "cli/client/terminal_session.hpp"
#include "cli/console.hpp"
#include "cli/interrupt.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::sandbox_target;

constexpr int kCoveFailed = 125;

struct ExecArguments : ClientOptions {
  std::string id, workdir, timeout;
  Words environment;
  Words command;
  bool input = false;
  bool terminal = false;
  bool detach = false;
};

Result<json::object> exec_body(const ExecArguments& arguments) {
  json::object body{{"cmd", json::value_from(arguments.command)}};
  if (!arguments.workdir.empty()) body["workdir"] = arguments.workdir;
  COVE_TRY(auto environment, pairs("--env", arguments.environment));
  if (!environment.empty()) body["env"] = std::move(environment);
  COVE_CHECK(set_timeout(body, arguments.timeout));
  return body;
}

// What an event says, on the stream it belongs to. The end of the process, when it is that.
Result<std::optional<json::object>> show(const json::object& event) {
  const auto type = text_of(event, "type");
  if (type == "end") return std::optional(event);
  // Event 1 is `started`: no output is lost with it.
  if (type == "gap" && number_of(event, "to") > 1)
    tell("output from event {} to {} is no longer available", number_of(event, "from"), number_of(event, "to"));
  if (type != "stdout" && type != "stderr") return std::optional<json::object>();
  const auto bytes =
      event.contains("base64") ? from_base64(text_of(event, "base64")).value_or("") : text_of(event, "data");
  COVE_CHECK(write_all(type == "stdout" ? STDOUT_FILENO : STDERR_FILENO, bytes));
  return std::optional<json::object>();
}

// Follows a process to its end.
Result<json::object> follow(client::EventStream& events) {
  while (true) {
    COVE_TRY(const auto event, events.next());
    if (!event) return fail(Errc::unavailable, "the server closed the stream before the command ended");
    COVE_TRY(const auto object, object_of(event->data));
    COVE_TRY(auto end, show(object));
    if (end) return std::move(*end);
  }
}

int status_of(const json::object& end) {
  const auto reason = text_of(end, "reason");
  if (reason == "timeout") {
    tell("timed out after {} (raise --timeout to allow more)",
         format_duration(std::chrono::milliseconds(number_of(end, "durationMs"))));
    return 124;
  }
  tell_note(end);
  if (reason == "sandbox_gone") tell("the sandbox ended");
  if (reason == "shutdown") tell("the server is shutting down");
  return static_cast<int>(number_of(end, "exitCode")) & 0xff;
}

// Passes our standard input on to a process, on a thread and a connection of its own.
class InputPump {
 public:
  InputPump(client::Options options, std::string target)
      : stop_(::eventfd(0, EFD_CLOEXEC)), client_(std::move(options)), target_(std::move(target)) {
    client_.set_waiting({.interrupt_fd = stop_.get()});
    thread_ = std::thread([this] { run(); });
  }
  ~InputPump() {
    [[maybe_unused]] const auto told = ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  InputPump(const InputPump&) = delete;
  InputPump& operator=(const InputPump&) = delete;

 private:
  void run() {
    std::vector<char> chunk(64U << 10);
    while (true) {
      std::array<pollfd, 2> polls{
          {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}, {.fd = stop_.get(), .events = POLLIN, .revents = 0}}};
      if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return;
      if (polls[1].revents != 0) return;
      if (polls[0].revents == 0) continue;
      const auto n = ::read(STDIN_FILENO, chunk.data(), chunk.size());
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      const bool over = n <= 0;
      // What the process does not want is not an error of ours.
      if (!client_.ask({.method = "POST",
                        .target = target_ + (over ? "?eof=true" : ""),
                        .content_type = "application/octet-stream",
                        .body = std::string(chunk.data(), over ? 0 : static_cast<std::size_t>(n))}))
        return;
      if (over) return;
    }
  }

  UniqueFd stop_;
  client::Client client_;
  std::string target_;
  std::thread thread_;
};

int failed(const ExecArguments& arguments, const Error& error, Interrupt& interrupt) {
  if (client::interrupted(error)) return 128 + std::max(1, interrupt.take());
  if (error.sys_errno == EPIPE) return 128 + SIGPIPE;  // whoever read our output has left
  return report_error(arguments, error, status_of_refusal(error));
}

// A command whose input is ours: started as a process, fed and followed.
int exec_with_input(const ExecArguments& arguments, client::Client& client, const json::object& body,
                    Interrupt& interrupt) {
  auto request = body;
  request["stdin"] = "open";
  const auto processes = sandbox_target(arguments.id, "/processes").text();
  const auto started = client.ask(json_request("POST", processes, request));
  if (!started) return failed(arguments, started.error(), interrupt);
  const auto process = object_of(started->body);
  if (!process) return report_error(arguments, process.error(), kCoveFailed);
  const auto one = processes + "/" + client::encoded(text_of(*process, "id"));
  auto end = [&]() -> Result<json::object> {
    COVE_TRY(auto events, client.follow({.target = one + "/events"}));
    const InputPump pump(client.options(), one + "/stdin");
    return follow(events);
  }();
  const int status = end ? status_of(*end) : failed(arguments, end.error(), interrupt);
  // Ends what Ctrl-C left, and the server need not remember what has ended.
  client.set_waiting({});
  [[maybe_unused]] const auto forgotten = client.send({.method = "DELETE", .target = one});
  return status;
}

int exec(const ExecArguments& arguments) {
  if (arguments.command.empty())
    return report_error(arguments, {.code = Errc::invalid, .message = "a command is required (see cove exec --help)"},
                        kCoveFailed);
  const auto body = exec_body(arguments);
  if (!body) return report_error(arguments, body.error(), kCoveFailed);
  if (arguments.terminal) {
    auto client = connect(arguments);
    if (!client) return report_error(arguments, client.error(), kCoveFailed);
    auto with_term = *body;
    if (const char* term = std::getenv("TERM"); term != nullptr) {
      auto environment = with_term.contains("env") ? with_term["env"].as_object() : json::object();
      if (!environment.contains("TERM")) environment["TERM"] = term;
      with_term["env"] = std::move(environment);
    }
    const auto status = terminal_session(*client, {.sandbox = arguments.id, .body = std::move(with_term)});
    return status ? *status : report_error(arguments, status.error(), status_of_refusal(status.error()));
  }
  Interrupt interrupt;
  auto client = connect(arguments, {.interrupt_fd = interrupt.fd()});
  if (!client) return report_error(arguments, client.error(), kCoveFailed);
  if (arguments.detach) {
    const auto answer = client->ask(json_request("POST", sandbox_target(arguments.id, "/processes").text(), *body));
    if (!answer) return failed(arguments, answer.error(), interrupt);
    const auto process = object_of(answer->body);
    if (!process) return report_error(arguments, process.error(), kCoveFailed);
    const auto put = put_line(arguments.json ? answer->body : text_of(*process, "id"));
    return put ? 0 : report_error(arguments, put.error(), kCoveFailed);
  }
  if (arguments.input && !arguments.json) return exec_with_input(arguments, *client, *body, interrupt);
  auto request = json_request("POST", sandbox_target(arguments.id, "/exec").text(), *body);
  if (!arguments.json) {
    auto events = client->follow(std::move(request));
    if (!events) return failed(arguments, events.error(), interrupt);
    const auto end = follow(*events);
    return end ? status_of(*end) : failed(arguments, end.error(), interrupt);
  }
  if (arguments.input) {
    auto with_input = *body;
    const auto input = read_all(STDIN_FILENO);
    if (!input) return report_error(arguments, input.error(), kCoveFailed);
    with_input["stdinBase64"] = base64(*input);
    request.body = json::serialize(with_input);
  }
  const auto answer = client->ask(request);
  if (!answer) return failed(arguments, answer.error(), interrupt);
  const auto result = object_of(answer->body);
  if (!result) return report_error(arguments, result.error(), kCoveFailed);
  const auto put = put_line(json::serialize(*result));
  return put ? static_cast<int>(number_of(*result, "exitCode")) & 0xff
             : report_error(arguments, put.error(), kCoveFailed);
}

// Says how a line for a shell is given when one was taken for the name of a program.
int with_hint(const ExecArguments& arguments, int status) {
  const bool line =
      arguments.command.size() == 1 && arguments.command.front().find_first_of(" \t|&;<>$*`(") != std::string::npos;
  if (status == 127 && line) tell("for a shell line: cove exec {} -- bash -c '…'", arguments.id);
  return status;
}

// bash where there is one, for its keys and its history. The prompt says which sandbox this is: all have one host name.
Words usual_shell(std::string_view id) {
  constexpr std::string_view kStart =
      "command -v bash >/dev/null 2>&1 && export PS1=\"$USER@$0:\\w\\$ \" && exec bash -i; "
      "export PS1=\"$USER@$0\\$ \"; exec sh -i";
  return {"sh", "-c", std::string(kStart), std::string(id)};
}

struct LogArguments : ClientOptions {
  std::string id, process;
  std::uint64_t from = 1;
  bool follow = false;
};

Result<> show_or_print(const LogArguments& arguments, const json::object& event) {
  if (arguments.json) return put_line(json::serialize(event));
  COVE_TRY(const auto end, show(event));
  return {};
}

Result<> logs(const LogArguments& arguments, client::Client& client) {
  const auto events =
      sandbox_target(arguments.id, "/processes/").text() + client::encoded(arguments.process) + "/events";
  if (arguments.follow) {
    COVE_TRY(auto stream,
             client.follow({.target = client::Target(events).with("from", std::to_string(arguments.from)).text()}));
    while (true) {
      COVE_TRY(const auto event, stream.next());
      if (!event) return {};
      COVE_TRY(const auto object, object_of(event->data));
      COVE_CHECK(show_or_print(arguments, object));
    }
  }
  for (auto from = arguments.from;;) {
    COVE_TRY(const auto answer,
             client.ask({.target = client::Target(events).with("from", std::to_string(from)).text()}));
    COVE_TRY(const auto page, object_of(answer.body));
    const auto* list = page.if_contains("events");
    const auto next = static_cast<std::uint64_t>(number_of(page, "next"));
    if (list == nullptr || !list->is_array() || list->as_array().empty() || next <= from) return {};
    for (const auto& event : list->as_array()) {
      if (event.is_object()) COVE_CHECK(show_or_print(arguments, event.as_object()));
    }
    from = next;
  }
}

std::string command_text(const json::object& process) {
  std::string text;
  const auto* words = process.if_contains("cmd");
  if (words == nullptr || !words->is_array()) return text;
  for (const auto& word : words->as_array()) {
    if (word.is_string()) text += (text.empty() ? "" : " ") + std::string(word.as_string());
  }
  return text;
}

struct PsArguments : ClientOptions {
  std::string id;
};

Result<> ps(const PsArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.target = sandbox_target(arguments.id, "/processes").text()}));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto page, object_of(answer.body));
  Table table({"ID", "STATE", "TIME", "EXIT", "TTY", "COMMAND"});
  const auto* list = page.if_contains("processes");
  for (const auto& item : list != nullptr && list->is_array() ? list->as_array() : json::array()) {
    if (!item.is_object()) continue;
    const auto& process = item.as_object();
    const bool over = text_of(process, "state") == "exited";
    const auto* pty = process.if_contains("pty");
    table.add({text_of(process, "id"), text_of(process, "state"),
               coarse(std::chrono::seconds(number_of(process, "durationMs") / 1000)),
               over ? std::to_string(number_of(process, "exitCode")) : "-",
               pty != nullptr && pty->is_bool() && pty->as_bool() ? "yes" : "no", command_text(process)});
  }
  return put_line(table.text());
}

}  // namespace

void add_process_commands(App& app, Commands& commands) {
  const auto common = [](App* command, const std::shared_ptr<ExecArguments>& a) {
    command->prefix_command();  // from the command's name on, every word is its own
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("-w,--workdir", a->workdir, "Working directory in the sandbox (default /workspace)");
    again(command->add_option("-e,--env", a->environment, "Environment variable NAME=VALUE; repeatable"));
  };
  const auto words = [](App* command, const AfterDashes& after) {
    auto all = command->remaining();
    if (!all.empty() && after) all.emplace_back("--");  // the command was named before: they are its own
    if (after) all.insert(all.end(), after->begin(), after->end());
    return all;
  };
  {
    auto* command = app.add_subcommand("exec", "Run a command in a sandbox");
    const auto a = std::make_shared<ExecArguments>();
    common(command, a);
    command->add_option("--timeout", a->timeout,
                        "Timeout, such as 30s or 5m (default: the server's; none with -i or --detach)");
    command->add_flag("-i,--interactive", a->input, "Pass standard input to the command");
    command->add_flag("-t,--tty", a->terminal, "Run the command on this terminal");
    command->add_flag("-d,--detach", a->detach,
                      "Run it in the background and print its process id, for cove logs and cove ps");
    command->footer(
        "Exit status: the command's; 124 timeout, 125 Cove failed, 126 not executable, 127 not "
        "found.\n"
        "Examples:\n"
        "  cove exec demo python3 -c 'print(6*7)'\n"
        "  echo hello | cove exec -i demo tr a-z A-Z\n"
        "  cove exec --detach demo -- python3 -m http.server 8080\n"
        "  cove exec -t demo top");
    describe(*command, *a, "ID CMD…");
    commands.push_back({command, [a, command, words](const AfterDashes& after) {
                          a->command = words(command, after);
                          return with_hint(*a, exec(*a));
                        }});
  }
  {
    auto* command = app.add_subcommand("shell", "Open a shell in a sandbox");
    const auto a = std::make_shared<ExecArguments>();
    common(command, a);
    command->footer("Examples:\n  cove shell demo\n  cove shell demo --workdir /tmp\n  cove shell demo python3");
    describe(*command, *a, "ID [CMD…]");
    commands.push_back({command, [a, command, words](const AfterDashes& after) {
                          a->command = words(command, after);
                          if (a->command.empty()) a->command = usual_shell(a->id);
                          a->terminal = true;
                          return exec(*a);
                        }});
  }
  {
    auto* command = app.add_subcommand("ps", "List the processes of a sandbox");
    const auto a = std::make_shared<PsArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->footer("Example:\n  cove ps demo");
    describe(*command, *a, "ID");
    commands.push_back({command, [a](const AfterDashes&) {
                          const auto done = ps(*a);
                          return done ? 0 : report_error(*a, done.error());
                        }});
  }
  {
    auto* command = app.add_subcommand("logs", "Show the output of a process");
    const auto a = std::make_shared<LogArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("process", a->process, "Process id, such as p1, from cove ps")->required();
    command->add_flag("-f,--follow", a->follow, "Keep printing until the process ends");
    command->add_option("--from", a->from, "Number of the first event to show")->capture_default_str();
    command->footer("Examples:\n  cove logs demo p3\n  cove logs -f demo $(cove exec -d demo make)");
    describe(*command, *a, "ID PROCESS");
    commands.push_back({command, [a](const AfterDashes&) {
                          auto client = connect(*a);
                          const auto done =
                              client ? logs(*a, *client) : Result<>(tl::unexpected<Error>(client.error()));
                          return done ? 0 : report_error(*a, done.error());
                        }});
  }
}

}  // namespace cove::cli
