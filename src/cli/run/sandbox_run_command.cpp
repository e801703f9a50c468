#include "cli/run/sandbox_run_command.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <ctime>
#include <filesystem>

#include "base/io.hpp"
#include "base/text.hpp"
#include "cli/run/one_shot.hpp"
#include "cli/run/sandbox_run_report.hpp"
#include "guest/channel.hpp"
#include "guest/environment.hpp"
#include "handler/handler_outcome.hpp"
#include "host/state_dir.hpp"
#include "keeper/keeper.hpp"

namespace cove::cli {
namespace {

namespace fs = std::filesystem;
using fastapi::Value;
using std::chrono::milliseconds;

constexpr std::size_t kScriptLimit = std::size_t{8} << 20;
constexpr std::uint64_t kOutputLimit = 16U << 20;
constexpr std::uint64_t kMemory = 262144ULL << 10;
constexpr int kUsage = 2;
constexpr int kTimedOut = 4;

struct Options {
  std::string script;
  std::string event = "{}";
  std::string event_file;
  std::string context = "{}";
  std::string context_file;
  int timeout = 300;
  bool verbose = false;
  bool quiet = false;
  bool profile = false;
  std::string output;
  std::string format = "pretty";
  std::string log_level = "WARNING";
};

void describe(App& app, Options& options) {
  app.add_option("script_path", options.script,
                 "Python script with a function handler(event) or handler(event, context)")
      ->required();
  auto* event = app.add_option("-e,--event", options.event, "What the handler is called with, as JSON (default {})");
  app.add_option("-f,--event-file", options.event_file, "A file with that JSON")->excludes(event);
  auto* context =
      app.add_option("-c,--context", options.context, "What it is told about its call, as JSON (default {})");
  app.add_option("--context-file", options.context_file, "A file with that JSON")->excludes(context);
  app.add_option("-t,--timeout", options.timeout, "Seconds it may take (default 300)")->between(1, 3600);
  app.add_flag("-v,--verbose", options.verbose, "Show everything that is known");
  app.add_flag("-q,--quiet", options.quiet, "Show the result alone");
  app.add_flag("-p,--profile", options.profile, "Show time and memory");
  app.add_option("-o,--output", options.output, "Write the result to a file as well");
  app.add_option("--format", options.format, "pretty, json or yaml")->one_of({"pretty", "json", "yaml"});
  app.add_option("--log-level", options.log_level, "Accepted for compatibility; nothing is logged")
      ->one_of({"DEBUG", "INFO", "WARNING", "ERROR"});
  app.set_version_flag("--version", "sandbox-run 1.0.0");
}

// Something of ours went wrong, and with which status that is told.
struct Trouble {
  int status = 1;
  std::string message;
};
template <typename T>
using Attempt = tl::expected<T, Trouble>;

tl::unexpected<Trouble> trouble(int status, std::string message) {
  return tl::unexpected<Trouble>(Trouble{.status = status, .message = std::move(message)});
}

Attempt<std::string> script_of(const Options& options) {
  struct stat st{};
  if (::stat(options.script.c_str(), &st) != 0)
    return trouble(kUsage, fmt::format("Script file not found: {}", options.script));
  if (!S_ISREG(st.st_mode)) return trouble(kUsage, fmt::format("Path is not a file: {}", options.script));
  if (fs::path(options.script).extension() != ".py")
    return trouble(1, fmt::format("Script must be a Python file (.py): {}", options.script));
  auto code = read_file_at(AT_FDCWD, options.script, kScriptLimit);
  if (!code) return trouble(kUsage, fmt::format("Failed to read script file: {}", code.error().message));
  if (!valid_utf8(*code)) return trouble(1, fmt::format("Script is not UTF-8: {}", options.script));
  if (code->find_first_not_of(" \t\r\n\f\v") == std::string::npos) return trouble(1, "Script file is empty");
  return *code;
}

// An object, from the command line or from a file.
Attempt<Value> object_of(std::string_view what, std::string text, const std::string& file) {
  if (!file.empty()) {
    auto content = read_file_at(AT_FDCWD, file, kScriptLimit);
    if (!content && content.error().sys_errno == ENOENT)
      return trouble(kUsage, fmt::format("File not found: {}", file));
    if (!content) return trouble(kUsage, content.error().message);
    text = std::move(*content);
  }
  const auto where = file.empty() ? fmt::format("Invalid {} JSON", what) : fmt::format("Invalid JSON in file {}", file);
  auto parsed = fastapi::parse_json(text);
  if (const auto* malformed = std::get_if<fastapi::Malformed>(&parsed))
    return trouble(kUsage, fmt::format("{}: {}: char {}", where, malformed->message, malformed->position));
  auto* value = std::get_if<Value>(&parsed);
  if (value == nullptr) return trouble(kUsage, where);
  if (value->kind != Value::Kind::object) return trouble(kUsage, fmt::format("{}: it must be an object", where));
  return std::move(*value);
}

// What is left of --timeout when the event asks for less; and whether it did.
struct TimeLimit {
  milliseconds limit;
  bool of_event = false;
};
Attempt<TimeLimit> time_limit(const Options& options, const Value& event) {
  const TimeLimit usual{.limit = std::chrono::seconds(options.timeout)};
  const auto* asked = event.member("__timeout");
  if (asked == nullptr) return usual;
  double seconds = 0;
  const auto& text = asked->text;
  const bool numeric = asked->kind == Value::Kind::integer || asked->kind == Value::Kind::real;
  if (!numeric || std::from_chars(text.data(), text.data() + text.size(), seconds).ec == std::errc::invalid_argument)
    return trouble(kUsage, "event.__timeout must be a number of seconds");
  if (seconds <= 0 || seconds >= static_cast<double>(options.timeout)) return usual;
  return TimeLimit{.limit = std::chrono::ceil<milliseconds>(std::chrono::duration<double>(seconds)), .of_event = true};
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts)};
}

struct Call {
  std::string code;
  Value event;
  Value context;
  TimeLimit time;
};

Attempt<HandlerReport> run(const Options& options, const Call& call) {
  const auto began = Clock::now();
  block_cancel_signals();
  auto keeper = keeper::Keeper::start({.state_dir = host::default_state_dir()});
  if (!keeper) return trouble(1, keeper.error().message);
  const jail::Limits limits{.memory_bytes = kMemory,
                            .disk_bytes = kMemory / 4 * 3,
                            .inodes = 65536,
                            .pids = 12,  // ten, init, and what watches over the handler
                            .cpu_millis = 2000};
  auto shot = OneShot::create(keeper->link(), {.limits = limits});
  if (!shot) return trouble(1, shot.error().message);
  const auto environment = guest::base_environment(share_of(limits));
  auto first = guest::first_message("handler", environment);
  first["code"] = call.code;
  first["event"] = to_json(call.event);
  first["context"] = to_json(call.context);
  Feed feed;
  feed.records = guest::records_of(boost::json::serialize(first));
  const wire::Spawn spawn{.after_exit = wire::AfterExit::end_sandbox,
                          .channel = wire::Channel::open,
                          .output_limit = {.bytes = kOutputLimit},
                          .directory = "/",
                          .argv = {"/usr/bin/python3", "-I", "-B", "/cove/python/cold.py"},
                          .environment = environment};
  const auto end = shot->run(spawn, feed, call.time.limit);
  if (!end) return trouble(1, end.error().message);
  if (end->not_started)
    return trouble(1, fmt::format("Python cannot be started: {}", std::strerror(end->not_started->sys_errno)));
  const auto counted = shot->destroy();
  if (!counted) return trouble(1, counted.error().message);
  if (shot->cancel_signal() != 0) return trouble(130, "Interrupted by user");
  guest::Evidence evidence{.stopped_by_us = shot->stopped_by_us(),
                           .exit_seen = end->exited.has_value(),
                           .oom_kills = counted->oom_kills,
                           .pids_refused = counted->pids_refused};
  if (end->exited) {
    evidence.exit_code = end->exited->exit_code;
    evidence.signal = end->exited->signal;
  }
  const auto reason = guest::judge(evidence);
  if (reason == guest::Reason::timeout && !call.time.of_event)
    return trouble(kTimedOut, fmt::format("Execution timed out after {} seconds", options.timeout));
  const handler::HandlerEnd ended{.reason = reason, .exit_status = guest::exit_status(reason, evidence)};
  const auto outcome =
      handler::outcome_of(ended, guest::last_of({feed.received.begin(), feed.received.end()}, handler::kResultLimit));
  HandlerReport report{.exit_code = outcome.exit_code,
                       .out = replace_invalid_utf8(feed.out.captured),
                       .err = replace_invalid_utf8(feed.err.captured) + outcome.note,
                       .result = std::get<Value>(fastapi::parse_json(outcome.result_json)),
                       .duration_ms = std::chrono::duration<double, std::milli>(Clock::now() - began).count(),
                       .cpu_ms = static_cast<double>(end->exited ? end->exited->cpu_usec : counted->cpu_usec) / 1000,
                       .peak_mb = static_cast<double>(counted->memory_peak_bytes) / (1U << 20)};
  if (reason == guest::Reason::timeout) report.err += "Execution timed out: event.__timeout\n";
  if (reason == guest::Reason::oom) report.err += "Killed: the memory limit of 262144 KB was reached\n";
  if (options.verbose) report.timestamp = now_text();
  return report;
}

Attempt<int> execute(const Options& options) {
  Call call;
  auto code = script_of(options);
  if (!code) return tl::unexpected<Trouble>(code.error());
  call.code = std::move(*code);
  auto event = object_of("event", options.event, options.event_file);
  if (!event) return tl::unexpected<Trouble>(event.error());
  call.event = std::move(*event);
  auto context = object_of("context", options.context, options.context_file);
  if (!context) return tl::unexpected<Trouble>(context.error());
  call.context = std::move(*context);
  const auto time = time_limit(options, call.event);
  if (!time) return tl::unexpected<Trouble>(time.error());
  call.time = *time;
  const bool pretty = options.format == "pretty";
  const auto say = [](int fd, std::string_view text) { return write_all(fd, text).has_value(); };
  if (!options.quiet) {
    // Where a program reads the result, nothing else stands beside it.
    auto header = fmt::format("Executing: {}\n", options.script);
    if (!options.event_file.empty()) header += fmt::format("Using event file: {}\n", options.event_file);
    if (!options.context_file.empty()) header += fmt::format("Using context file: {}\n", options.context_file);
    if (!say(pretty ? STDOUT_FILENO : STDERR_FILENO, header + std::string(50, '-') + "\n"))
      return trouble(1, "standard output cannot be written");
  }
  const auto report = run(options, call);
  if (!report) return tl::unexpected<Trouble>(report.error());
  const auto written = [&](bool colours) {
    return pretty ? pretty_report(*report, {.profile = options.profile, .verbose = options.verbose, .colours = colours})
           : options.format == "json" ? json_report(*report)
                                      : yaml_report(*report);
  };
  if (!say(STDOUT_FILENO, written(::isatty(STDOUT_FILENO) == 1) + "\n"))
    return trouble(1, "standard output cannot be written");
  if (!options.output.empty()) {
    const auto file = open_at(AT_FDCWD, options.output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!file || !write_all(file->get(), written(false)))
      return trouble(1, fmt::format("Error saving result to file: {}", options.output));
    if (!options.quiet)
      say(pretty ? STDOUT_FILENO : STDERR_FILENO, fmt::format("\nResult saved to: {}\n", options.output));
  }
  return report->exit_code;
}

}  // namespace

int sandbox_run_command(Words words) {
  App app("Calls the handler of a Python script once, in a sandbox of its own", "sandbox-run");
  Options options;
  describe(app, options);
  const auto parsed = app.parse(words);
  if (!parsed) {
    [[maybe_unused]] const auto told =
        write_all(STDERR_FILENO, fmt::format("sandbox-run: error: {} (--help shows how)\n", parsed.error().message));
    return kUsage;
  }
  if (*parsed == Parsed::shown) return 0;
  const auto status = execute(options);
  if (status) return *status;
  [[maybe_unused]] const auto told = write_all(STDERR_FILENO, fmt::format("Error: {}\n", status.error().message));
  return status.error().status;
}

}  // namespace cove::cli
