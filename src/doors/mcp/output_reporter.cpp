#include "doors/mcp/output_reporter.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "doors/mcp/escaped.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Level;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPace{100};
constexpr std::chrono::seconds kHeartbeat{5};
constexpr std::size_t kTail = 1024;                   // of output, in one progress message
constexpr std::size_t kMaxLines = 2000;               // with a block each
constexpr std::size_t kMaxBlocks = kMaxLines + 1000;  // including blocks of several lines

// Of a line that is longer than an answer, one byte too many is enough to see that.
void add_to_line(std::string& line, std::string_view text) {
  line += text.substr(0, kMaxLineBytes + 1 - std::min(line.size(), kMaxLineBytes + 1));
}

}  // namespace

OutputReporter::OutputReporter(cove::mcp::Call& call, RunRecord& record, std::shared_ptr<RecentOutputs::Output> kept,
                               std::size_t max_bytes, std::string_view tool)
    : call_(call), record_(record), log_left_out_(max_bytes), log_left_err_(max_bytes), tool_(tool) {
  record_.out = StreamEnds(max_bytes);
  record_.err = StreamEnds(max_bytes);
  record_.kept = std::move(kept);
}

void OutputReporter::add(OutputLine::Stream stream, std::string_view text) {
  const bool out = stream == OutputLine::Stream::out;
  (out ? record_.kept->out : record_.kept->err).append(text);
  (out ? record_.out : record_.err).add(text);
  if (call_.wants_progress()) {
    unreported_ += text.substr(text.size() - std::min(text.size(), kTail));
    if (unreported_.size() > 2 * kTail) unreported_.erase(0, unreported_.size() - kTail);
  }
  log(stream, text);
  auto& part = out ? out_part_ : err_part_;
  std::size_t at = 0;
  for (auto end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', at)) {
    add_to_line(part, text.substr(at, end - at));
    add_line(stream, part);
    part.clear();
    at = end + 1;
  }
  add_to_line(part, text.substr(at));
}

void OutputReporter::add_line(OutputLine::Stream stream, std::string_view text) {
  ++(stream == OutputLine::Stream::out ? record_.out_lines : record_.err_lines);
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (record_.lines_cut) return;
  const auto shown = replace_invalid_utf8(text);
  record_.not_utf8 = record_.not_utf8 || shown != text;
  const auto fits = fitting(shown, line_bytes_left_);
  line_bytes_left_ -= std::min(line_bytes_left_, escaped_size(fits) + 2);
  record_.lines_cut = fits.size() < shown.size() || line_bytes_left_ == 0;
  const bool alone = record_.lines.size() < kMaxLines;
  if (!alone && record_.lines.back().several && record_.lines.back().stream == stream) {
    record_.lines.back().text += '\n';
    record_.lines.back().text += fits;
  } else if (record_.lines.size() < kMaxBlocks) {
    record_.lines.push_back({.stream = stream, .text = std::string(fits), .several = !alone});
  } else {
    record_.lines_cut = true;
  }
}

void OutputReporter::report() {
  const auto now = Clock::now();
  if (!call_.wants_progress() || now < last_ + kPace || (unreported_.empty() && now < last_ + kHeartbeat)) return;
  last_ = now;
  if (unreported_.size() > kTail) unreported_.erase(0, unreported_.size() - kTail);
  call_.progress(unreported_.empty() ? "running" : replace_invalid_utf8(unreported_));
  unreported_.clear();
}

void OutputReporter::finish(std::optional<RecentOutputs::Output::Written> written) {
  if (!out_part_.empty()) add_line(OutputLine::Stream::out, out_part_);
  if (!err_part_.empty()) add_line(OutputLine::Stream::err, err_part_);
  record_.kept->finish(written);
  record_.out.set_written(record_.kept->out.written());
  record_.err.set_written(record_.kept->err.written());
}

void OutputReporter::log(OutputLine::Stream stream, std::string_view text) {
  auto& left = stream == OutputLine::Stream::out ? log_left_out_ : log_left_err_;
  text = text.substr(0, left);
  left -= text.size();
  if (!call_.wants_log(Level::info) || text.empty()) return;
  const auto* name = stream == OutputLine::Stream::out ? "stdout" : "stderr";
  call_.log(Level::info, fmt::format("{}.{}", tool_, name),
            json::object{{"text", replace_invalid_utf8(text)}, {"requestId", call_.id}});
}

Task<> read_to_end(run::Run& run, OutputReporter& reporter) {
  while (auto batch = co_await run.next()) {
    for (const auto& event : batch->events) {
      if (event.kind == sandbox::Event::Kind::out) reporter.add(OutputLine::Stream::out, event.bytes);
      if (event.kind == sandbox::Event::Kind::err) reporter.add(OutputLine::Stream::err, event.bytes);
    }
    reporter.report();
    if (batch->over) co_return;
  }
}

}  // namespace cove::doors::mcp
