#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "sandbox/process.hpp"

namespace cove::sandbox {

// One reader's position in a process's events. While a reader that reads lags far behind, the producer waits; one that
// stopped reading is left behind and learns what it lost.
class Reader {
 public:
  Reader(std::shared_ptr<Process> process, std::uint64_t from);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader();

  using Gap = EventGap;
  using Batch = EventBatch;
  // What has come since the last call, about `bytes` of it at most. Empty when there is nothing new.
  Batch take(std::size_t bytes);
  [[nodiscard]] std::uint64_t next() const { return next_; }
  // When it last took something.
  [[nodiscard]] std::chrono::steady_clock::time_point progress() const { return progress_; }

 private:
  std::shared_ptr<Process> process_;
  std::uint64_t next_;
  std::chrono::steady_clock::time_point progress_;
};

}  // namespace cove::sandbox
