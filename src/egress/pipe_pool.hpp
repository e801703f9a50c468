#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"

namespace cove::egress {

// Pipes through which splice(2) moves bytes from one socket to another. A connection has one only while bytes are under
// way.
class PipePool {
 public:
  static constexpr std::size_t kPipeSize = 256 << 10;
  static constexpr std::size_t kMaxIdle = 64;

  struct Pipe {
    UniqueFd read_end;
    UniqueFd write_end;
  };
  // Nothing when there are no more descriptors.
  std::optional<Pipe> take();
  // Only an empty one; others are dropped.
  void give_back(Pipe pipe) {
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(pipe));
  }
  [[nodiscard]] std::size_t idle() const { return idle_.size(); }

 private:
  std::vector<Pipe> idle_;
};

}  // namespace cove::egress
