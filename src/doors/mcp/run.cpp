#include "doors/mcp/run.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/text.hpp"
#include "sandbox/helper.hpp"
#include "sandbox/lease.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Level;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLook{100};
constexpr std::chrono::seconds kHeartbeat{5};
constexpr std::size_t kTail = 1024;  // of output, in one word of progress
constexpr std::size_t kBatch = std::size_t{256} << 10;
constexpr std::size_t kImageLimit = std::size_t{1} << 20;

// Puts output together as lines, and tells of it while it comes, ten times a second at the most.
class Telling {
 public:
  Telling(Call& call, Ran& ran) : call_(call), ran_(ran) {}

  void add(Line::Stream stream, std::string_view text) {
    auto& whole = stream == Line::Stream::out ? ran_.out : ran_.err;
    whole += text;
    news_ += text;
    auto& part = stream == Line::Stream::out ? out_part_ : err_part_;
    part += text;
    for (auto at = part.find('\n'); at != std::string::npos; at = part.find('\n')) {
      ran_.lines.push_back({.stream = stream, .text = replace_invalid_utf8(part.substr(0, at))});
      part.erase(0, at + 1);
    }
    log(stream, text);
  }

  void tell() {
    const auto now = Clock::now();
    if (now < last_ + kLook || (news_.empty() && now < last_ + kHeartbeat)) return;
    last_ = now;
    if (news_.size() > kTail) news_.erase(0, news_.size() - kTail);
    call_.progress(news_.empty() ? "running" : replace_invalid_utf8(news_));
    news_.clear();
  }

  // A last line may have no end.
  void finish() {
    for (const auto stream : {Line::Stream::out, Line::Stream::err}) {
      auto& part = stream == Line::Stream::out ? out_part_ : err_part_;
      if (!part.empty()) ran_.lines.push_back({.stream = stream, .text = replace_invalid_utf8(part)});
    }
    ran_.out = replace_invalid_utf8(ran_.out);
    ran_.err = replace_invalid_utf8(ran_.err);
  }

 private:
  void log(Line::Stream stream, std::string_view text) {
    const auto* logger = stream == Line::Stream::out ? "execute_code.stdout" : "execute_code.stderr";
    call_.log(Level::info, logger, json::object{{"text", replace_invalid_utf8(text)}});
  }

  Call& call_;
  Ran& ran_;
  std::string news_;
  std::string out_part_;
  std::string err_part_;
  Clock::time_point last_ = Clock::now();
};

std::string text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

// --- in the session's interpreter

Task<Result<std::shared_ptr<sandbox::Kernel>>> interpreter_of(Services& services, const Session& session) {
  auto& kernels = services.registry.kernels();
  for (const auto& kernel : kernels.of(*session.sandbox)) {
    if (kernel->state() != sandbox::Kernel::State::dead) co_return kernel;
    co_await kernels.remove(session.sandbox, kernel);
  }
  co_return co_await kernels.start(session.sandbox, {});
}

void show(const json::object& content, Telling& telling, Ran& ran) {
  const auto* data = content.if_contains("data");
  if (data == nullptr || !data->is_object()) return;
  for (const auto* mime : {"image/png", "image/jpeg"}) {
    auto image = text_of(data->as_object(), mime);
    std::erase(image, '\n');
    if (image.empty() || image.size() > kImageLimit / 3 * 4) continue;
    ran.images.push_back({.mime = mime, .base64 = std::move(image)});
    return;
  }
  if (auto svg = text_of(data->as_object(), "image/svg+xml"); !svg.empty() && svg.size() <= kImageLimit) {
    ran.images.push_back({.mime = "image/svg+xml", .base64 = base64(svg)});
    return;
  }
  if (auto text = text_of(data->as_object(), "text/plain"); !text.empty())
    telling.add(Line::Stream::out, text.ends_with('\n') ? text : text + "\n");
}

void hear(const sandbox::ExecutionEvent& event, Telling& telling, Ran& ran) {
  if (event.type == "stdout" || event.type == "stderr") {
    telling.add(event.type == "stdout" ? Line::Stream::out : Line::Stream::err, text_of(event.content, "text"));
  } else if (event.type == "display" || event.type == "result") {
    show(event.content, telling, ran);
  } else if (event.type == "error") {
    ran.error_type = text_of(event.content, "ename");
    ran.error_message = text_of(event.content, "evalue");
    std::string trace;
    if (const auto* lines = event.content.if_contains("traceback"); lines != nullptr && lines->is_array()) {
      for (const auto& line : lines->as_array()) {
        if (line.is_string()) trace += std::string(line.as_string()) + "\n";
      }
    }
    if (ran.error_type != "SystemExit") telling.add(Line::Stream::err, trace);
  }
}

// sys.exit(3) is an exit with 3; sys.exit("text") says so and is one with 1.
int exit_code_of(const Ran& ran, Telling& telling) {
  if (ran.error_type.empty()) return 0;
  if (ran.error_type != "SystemExit") return 1;
  int code = 0;
  const auto& text = ran.error_message;
  if (text.empty() || text == "None") return 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), code);
  if (wrong == std::errc() && end == text.data() + text.size()) return code & 0xFF;
  telling.add(Line::Stream::err, text + "\n");
  return 1;
}

void judge(const sandbox::ExecutionEnd& end, Telling& telling, Ran& ran) {
  ran.duration = end.wall;
  ran.note = end.note;
  ran.exit_code = exit_code_of(ran, telling);
  if (ran.error_type == "SystemExit") ran.error_type.clear();
  switch (end.reason) {
    case sandbox::Reason::exited:
      return;
    case sandbox::Reason::timeout:
      ran.timed_out = true;
      ran.exit_code = -1;
      return;
    default:
      ran.exit_code = 128 + SIGKILL;
      ran.signal = "SIGKILL";
  }
}

Task<Result<Ran>> run_live(Services& services, Call& call, Session& session, RunRequest request) {
  const auto config = services.config();
  const auto kernel = co_await interpreter_of(services, session);
  if (!kernel) co_return tl::unexpected<Error>(kernel.error());
  sandbox::ExecuteRequest cell;
  cell.code = std::move(request.code);
  cell.timeout = request.timeout;
  cell.limits.output_bytes = config->exec.output_limit_bytes;
  const auto started = (*kernel)->execute(std::move(cell));
  if (!started) co_return tl::unexpected<Error>(started.error());
  const auto execution = *started;
  Ran ran;
  Telling telling(call, ran);
  std::uint64_t heard = 0;
  while (true) {
    for (const auto& event : execution->events()) {
      if (event.sequence <= heard) continue;
      heard = event.sequence;
      hear(event, telling, ran);
    }
    execution->mark_read(heard);
    telling.tell();
    if (execution->end()) break;
    co_await execution->changed().wait_until(Clock::now() + kLook);
    if (call.cancelled()) (*kernel)->cancel(execution, sandbox::Reason::cancelled);
  }
  judge(*execution->end(), telling, ran);
  telling.finish();
  ran.out_truncated = execution->truncated().stdout_bytes > 0;
  ran.err_truncated = execution->truncated().stderr_bytes > 0;
  co_return ran;
}

// --- as a program

Task<Result<>> write_file(Session& session, std::string path, std::string content, std::function<bool()> abandoned) {
  std::vector<std::string> arguments{"--within", "/workspace", "write", "/workspace/" + path, "0755"};
  auto helper = co_await sandbox::Helper::start(session.sandbox, std::move(arguments), std::move(abandoned));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  if (co_await (*helper)->write(std::move(content))) (*helper)->end_input();
  const auto written = co_await (*helper)->finish();
  if (!written) co_return tl::unexpected<Error>(written.error());
  co_return Result<>();
}

// Input that the program does not take is not an error of the program's.
Task<> feed(std::shared_ptr<sandbox::Process> process, std::string input) {
  if (co_await process->write_input(std::move(input))) [[maybe_unused]]
    const auto ended = process->end_input();
}

void judge(const sandbox::ProcessEnd& end, Ran& ran) {
  ran.duration = end.wall;
  ran.note = end.note;
  ran.exit_code = end.exit_status;
  ran.signal = sandbox::signal_name(end.signal);
  ran.not_started = end.reason == sandbox::Reason::not_started;
  if (end.reason == sandbox::Reason::timeout) {
    ran.timed_out = true;
    ran.exit_code = -1;
    ran.signal.clear();
  }
}

Task<Result<Ran>> run_program(Services& services, Call& call, Session& session, RunRequest request) {
  const auto config = services.config();
  const std::function<bool()> abandoned = [&call] { return call.cancelled(); };
  const auto path = request.filename.empty() ? "main" + request.language.extensions.front() : request.filename;
  const auto written = co_await write_file(session, path, std::move(request.code), abandoned);
  if (!written) co_return tl::unexpected<Error>(written.error());
  const auto limit = config->exec.output_limit_bytes;
  sandbox::ProcessRequest process{.argv = config::command_line(request.language.command, path),
                                  .variables = std::move(request.variables),
                                  .timeout = request.timeout,
                                  .input = request.input ? sandbox::InputMode::open : sandbox::InputMode::none,
                                  .output_limit = limit,
                                  .history = 2 * limit + (1U << 20),
                                  .abandoned = abandoned};
  for (auto& argument : request.arguments) process.argv.push_back(std::move(argument));
  auto started = co_await session.sandbox->start(std::move(process));
  if (!started) co_return tl::unexpected<Error>(started.error());
  const auto running = *started;
  const sandbox::Attended attended(session.sandbox, running);
  if (request.input) services.tasks.spawn("feed a program", feed(running, std::move(*request.input)));
  Ran ran;
  Telling telling(call, ran);
  sandbox::Reader reader(running, 1);
  while (true) {
    const auto batch = reader.take(kBatch);
    for (const auto& event : batch.events) {
      if (event.kind == sandbox::Event::Kind::out) telling.add(Line::Stream::out, event.bytes);
      if (event.kind == sandbox::Event::Kind::err) telling.add(Line::Stream::err, event.bytes);
    }
    telling.tell();
    if (batch.over) break;
    if (batch.events.empty()) co_await running->changed().wait_until(Clock::now() + kLook);
    if (call.cancelled()) running->stop(sandbox::Reason::cancelled);
  }
  const auto& end = *running->end();
  judge(end, ran);
  telling.finish();
  ran.out_truncated = end.out_bytes > limit;
  ran.err_truncated = end.err_bytes > limit;
  co_return ran;
}

}  // namespace

bool keeps_state(const config::Language& language) {
  return language.name == "python";
}

Task<Result<Ran>> run(Services& services, Call& call, Session& session, RunRequest request) {
  const bool live =
      keeps_state(request.language) && !request.input && request.arguments.empty() && request.variables.empty();
  if (!live) co_return co_await run_program(services, call, session, std::move(request));
  if (request.save) {
    const auto written =
        co_await write_file(session, request.filename, request.code, [&call] { return call.cancelled(); });
    if (!written) co_return tl::unexpected<Error>(written.error());
  }
  co_return co_await run_live(services, call, session, std::move(request));
}

}  // namespace cove::doors::mcp
