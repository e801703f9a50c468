// Code in the interpreter of a session, which keeps its state.
#include <fmt/format.h>

#include <charconv>
#include <csignal>

#include "base/text.hpp"
#include "doors/mcp/output_reporter.hpp"
#include "doors/mcp/runners.hpp"
#include "json/fields.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::json::text_of;
using cove::mcp::Call;
using sandbox::Kernel;
using sandbox::Reason;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPollInterval{100};
constexpr milliseconds kGrace{500};  // for a cell to stop at its time limit

struct Interpreter {
  std::shared_ptr<Kernel> kernel;
  std::string previous_end;  // how the previous interpreter ended; "" if there was none
};

Task<Result<Interpreter>> interpreter_of(Services& services, std::shared_ptr<sandbox::Sandbox> sandbox,
                                         sandbox::KernelLanguage language) {
  auto& kernels = services.registry.kernels();
  Interpreter found;
  for (const auto& kernel : kernels.of(*sandbox)) {
    if (kernel->language() != language) continue;
    if (kernel->state() != Kernel::State::dead) {
      found.kernel = kernel;
      co_return found;
    }
    found.previous_end = kernel->how_it_died();
    co_await kernels.remove(sandbox, kernel);
  }
  auto started = co_await kernels.start(sandbox, {.language = language});
  if (!started) co_return tl::unexpected<Error>(started.error());
  found.kernel = std::move(*started);
  co_return found;
}

// Turns what an execution shows into output, images and errors, for as long as it lives.
class EventReader : public sandbox::ExecutionWatcher {
 public:
  EventReader(sandbox::Execution& execution, OutputReporter& reporter, RunOutcome& to)
      : execution_(execution), reporter_(reporter), record_(to.record), large_(to.large_images) {
    execution_.watch(this);
  }
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;
  ~EventReader() override { execution_.watch(nullptr); }

  void on_text(std::string_view stream, std::string_view text) override {
    reporter_.add(stream == "stdout" ? OutputLine::Stream::out : OutputLine::Stream::err, text);
  }

  void on_event(const sandbox::ExecutionEvent& event) override {
    if (event.type == "display" || event.type == "result")
      show(event.content);
    else if (event.type == "input_request")
      reporter_.add(OutputLine::Stream::out, text_of(event.content, "prompt"));
    else if (event.type == "error")
      read_error(event.content);
  }

 private:
  void show(const json::object& content) {
    const auto* data = content.if_contains("data");
    if (data == nullptr || !data->is_object()) return;
    for (const auto* mime : {"image/png", "image/jpeg"}) {
      auto image = text_of(data->as_object(), mime);
      std::erase(image, '\n');
      // Invalid base64 is not an image.
      if (!image.empty() && from_base64(image)) return add_image({.mime = mime, .base64 = std::move(image)});
    }
    if (const auto svg = text_of(data->as_object(), "image/svg+xml"); !svg.empty())
      return add_image({.mime = "image/svg+xml", .base64 = base64(svg)});
    if (const auto text = text_of(data->as_object(), "text/plain"); !text.empty())
      reporter_.add(OutputLine::Stream::out, text.ends_with('\n') ? text : text + "\n");
  }

  void add_image(Image image) {
    const bool small = image.base64.size() <= (kMaxImageBytes + 2) / 3 * 4;
    if (small && held_ + image.base64.size() <= kMaxImages) {
      held_ += image.base64.size();
      record_.images.push_back(std::move(image));
    } else {
      large_.push_back(std::move(image));
    }
  }

  void read_error(const json::object& content) {
    record_.error_type = text_of(content, "ename");
    record_.error_message = text_of(content, "evalue");
    if (record_.error_type == "SystemExit") return;
    std::string trace;
    if (const auto* lines = content.if_contains("traceback"); lines != nullptr && lines->is_array()) {
      for (const auto& line : lines->as_array()) {
        if (line.is_string()) trace += std::string(line.as_string()) + "\n";
      }
    }
    reporter_.add(OutputLine::Stream::err, trace);
  }

  sandbox::Execution& execution_;
  OutputReporter& reporter_;
  RunRecord& record_;
  std::vector<Image>& large_;
  std::size_t held_ = 0;
};

// As for a program: sys.exit(3) gives 3, sys.exit("text") writes the text to stderr and gives 1. Node reports its code.
int exit_code_of(const RunRecord& record, const json::object& reply, OutputReporter& reporter) {
  if (const auto* code = reply.if_contains("exit_code"); code != nullptr && code->is_int64())
    return static_cast<int>(code->as_int64() & 0xFF);
  if (record.error_type.empty()) return 0;
  if (record.error_type != "SystemExit") return 1;
  const auto& text = record.error_message;
  if (text.empty() || text == "None") return 0;
  int code = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), code);
  if (wrong == std::errc() && end == text.data() + text.size()) return code & 0xFF;
  reporter.add(OutputLine::Stream::err, text + "\n");
  return 1;
}

// What an interpreter would show in a pager: "len?".
void add_pages(const json::object& reply, OutputReporter& reporter) {
  const auto* pages = reply.if_contains("payload");
  if (pages == nullptr || !pages->is_array()) return;
  for (const auto& page : pages->as_array()) {
    if (!page.is_object() || text_of(page.as_object(), "source") != "page") continue;
    const auto* data = page.as_object().if_contains("data");
    if (data == nullptr || !data->is_object()) continue;
    const auto text = text_of(data->as_object(), "text/plain");
    if (!text.empty()) reporter.add(OutputLine::Stream::out, text.ends_with('\n') ? text : text + "\n");
  }
}

void judge(const sandbox::ExecutionEnd& end, const Kernel& kernel, OutputReporter& reporter, RunRecord& record) {
  record.duration = end.wall;
  record.oom_kills = end.oom_kills;
  const bool dead = kernel.state() == Kernel::State::dead;
  switch (end.reason) {
    case Reason::exited:
      record.exit_code = exit_code_of(record, end.reply, reporter);
      if (!end.note.empty()) record.notes.push_back(end.note);
      break;
    case Reason::timeout:
      record.timed_out = true;
      record.exit_code = -1;
      record.notes.emplace_back(dead ? "the interpreter did not stop at its time limit and was killed: variables are "
                                       "lost, files are kept"
                                     : "the interpreter was interrupted: variables are kept");
      break;
    default:
      record.exit_code = end.exit_status.value_or(128 + SIGKILL);
      record.signal = guest::signal_name(end.signal);
      if (!end.note.empty()) record.notes.push_back("the interpreter ended: " + end.note);
      if (dead) record.notes.emplace_back("the next call starts a new interpreter, without variables");
  }
  if (record.error_type == "SystemExit") record.error_type.clear();
}

}  // namespace

Task<Result<RunOutcome>> run_live(Services& services, Call& call, Session& session, sandbox::KernelLanguage language,
                                  RunRequest request) {
  const auto limit = services.config()->exec.output_limit_bytes;
  const auto interpreter = co_await interpreter_of(services, session.sandbox, language);
  RunOutcome outcome;
  if (!interpreter && interpreter.error().sys_errno == ENOENT) {
    outcome.record.not_started = true;
    outcome.record.notes.push_back(interpreter.error().message);
    co_return outcome;
  }
  if (!interpreter) co_return tl::unexpected<Error>(interpreter.error());
  const auto kernel = interpreter->kernel;
  if (!interpreter->previous_end.empty())
    outcome.record.notes.push_back(
        fmt::format("the session's interpreter had ended ({}); this is a new interpreter, without the old variables",
                    interpreter->previous_end));
  sandbox::ExecuteRequest cell;
  cell.code = std::move(request.code);
  cell.timeout = request.timeout;
  cell.actor = journal::actor_of(principal_of(call));
  cell.limits.output_bytes = limit;
  cell.allow_stdin = true;  // every request for input is answered with end of file
  cell.watch = true;
  cell.grace = kGrace;
  if (!request.filename.empty()) cell.file = "/workspace/" + request.filename;
  const auto queued = kernel->execute(std::move(cell));
  if (!queued) co_return tl::unexpected<Error>(queued.error());
  const auto execution = *queued;
  OutputReporter reporter(call, outcome.record, request.kept, limit);
  const EventReader reader(*execution, reporter, outcome);
  while (true) {
    reporter.report();
    if (execution->end()) break;
    if (execution->waits_for_input()) [[maybe_unused]]
      const auto told = kernel->reply_input(std::nullopt);
    co_await execution->changed().wait_until(Clock::now() + kPollInterval);
    if (call.cancelled()) kernel->cancel(execution, Reason::cancelled);
  }
  const auto& end = *execution->end();
  add_pages(end.reply, reporter);
  judge(end, *kernel, reporter, outcome.record);
  reporter.finish();
  const auto* touched = end.reply.if_contains("touched");
  outcome.touched = touched == nullptr || !touched->is_bool() || touched->as_bool();
  co_return outcome;
}

}  // namespace cove::doors::mcp
