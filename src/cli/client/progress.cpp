#include "cli/client/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/units.hpp"
#include "cli/console.hpp"

namespace cove::cli {
namespace {

constexpr std::chrono::milliseconds kStep{100};
constexpr std::size_t kBar = 24;

void draw(const std::string& text) {
  [[maybe_unused]] const auto written = write_all(STDERR_FILENO, text);
}

// format_size of a number that is not a round one: "3.7M" rather than every digit.
std::string rounded(std::uint64_t bytes) {
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"K", "M", "G", "T"}) {
    if (value < 1000) break;
    value /= 1024;
    unit = next;
  }
  return *unit == 'B' || value >= 100 ? fmt::format("{:.0f}{}", value, unit) : fmt::format("{:.1f}{}", value, unit);
}

}  // namespace

std::string progress_line(const std::string& what, std::uint64_t done, std::optional<std::uint64_t> total,
                          std::chrono::milliseconds elapsed) {
  const auto rate = elapsed.count() > 0 ? done * 1000 / static_cast<std::uint64_t>(elapsed.count()) : 0;
  if (!total || *total == 0) return fmt::format("{}  {}  {}/s", what, rounded(done), rounded(rate));
  const auto share = std::min(1.0, static_cast<double>(done) / static_cast<double>(*total));
  const auto filled = static_cast<std::size_t>(share * kBar);
  auto bar = std::string(filled, '=') + std::string(kBar - filled, ' ');
  if (filled < kBar) bar[filled] = '>';
  return fmt::format("{}  [{}] {:3.0f}%  {} of {}  {}/s", what, bar, share * 100, rounded(done), rounded(*total),
                     rounded(rate));
}

std::string fitted(const std::string& what, const std::string& line, std::size_t columns) {
  if (columns == 0 || line.size() < columns) return line;
  const auto rest = line.substr(what.size());
  const auto cut = [](std::string text, std::size_t most) {
    while (text.size() > most || (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80))
      text.pop_back();
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0) text.pop_back();
    return text;
  };
  constexpr std::size_t kLeastName = 8;
  const auto taken = rest.size() + 4;  // with "..." and the last column, which makes some terminals wrap
  if (columns >= taken + kLeastName) return cut(what, columns - taken) + "..." + rest;
  return cut(line, columns - 1);
}

Progress::Progress(std::string what, ShowProgress show)
    : what_(printable(what)), shown_(show == ShowProgress::when_terminal && ::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (drawn_) draw("\r\x1b[K");
}

void Progress::add(std::uint64_t bytes) {
  done_ += bytes;
  if (!shown_ || Clock::now() - last_ < kStep) return;
  last_ = Clock::now();
  drawn_ = true;
  winsize size{};
  const std::size_t columns = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  const auto line =
      progress_line(what_, done_, total_, std::chrono::duration_cast<std::chrono::milliseconds>(last_ - start_));
  draw("\r" + fitted(what_, line, columns) + "\x1b[K");
}

}  // namespace cove::cli
