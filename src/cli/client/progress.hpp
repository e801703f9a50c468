#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace cove::cli {

// "data.csv   [=======>            ]  37%  3.7M of 10M  1.2M/s"; without a total, only what was transferred.
std::string progress_line(const std::string& what, std::uint64_t done, std::optional<std::uint64_t> total,
                          std::chrono::milliseconds elapsed);
// A line that begins with `what`, with that shortened until it fits a terminal. 0 columns: as it is.
std::string fitted(const std::string& what, const std::string& line, std::size_t columns);

enum class ShowProgress { when_terminal, never };

// A progress bar on stderr for one transfer; erased when the transfer is over. Draws nothing unless stderr is a
// terminal.
class Progress {
 public:
  Progress(std::string what, ShowProgress show);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void expect(std::optional<std::uint64_t> total) { total_ = total; }
  void add(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t done() const { return done_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool shown_;
  bool drawn_ = false;
  std::optional<std::uint64_t> total_;
  std::uint64_t done_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace cove::cli
