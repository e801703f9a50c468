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

}  // namespace

void OutputReporter::add(OutputLine::Stream stream, std::string_view text) {
  auto& whole = stream == OutputLine::Stream::out ? record_.out : record_.err;
  const auto kept = text.substr(0, max_bytes_ - std::min(max_bytes_, whole.size()));
  if (kept.size() < text.size())
    (stream == OutputLine::Stream::out ? record_.out_truncated : record_.err_truncated) = true;
  whole += kept;
  if (call_.wants_progress()) {
    unreported_ += kept;
    if (unreported_.size() > 2 * kTail) unreported_.erase(0, unreported_.size() - kTail);
  }
  log(stream, kept);
  auto& part = stream == OutputLine::Stream::out ? out_part_ : err_part_;
  std::size_t at = 0;
  for (auto end = kept.find('\n'); end != std::string_view::npos; end = kept.find('\n', at)) {
    part += kept.substr(at, end - at);
    add_line(stream, part);
    part.clear();
    at = end + 1;
  }
  part += kept.substr(at);
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

void OutputReporter::finish() {
  if (!out_part_.empty()) add_line(OutputLine::Stream::out, out_part_);
  if (!err_part_.empty()) add_line(OutputLine::Stream::err, err_part_);
}

void OutputReporter::log(OutputLine::Stream stream, std::string_view text) {
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
