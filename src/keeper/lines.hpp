#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "keeper/nursery.hpp"

namespace cove::keeper {

// Every line of zygotes there is, by number: those of one line share their memory's layout. Line 0 is there from the
// start, the others from the first birth that wants them. Memory is what lines cost, so they are few, and one that
// nobody has used for a while makes way.
class Lines {
 public:
  explicit Lines(const NurseryOptions& options) : options_(options) {}
  // `plan` tells the root. Once, in the keeper's room.
  void open(jail::Plan plan);
  void close();

  // As Nursery::ask. Errc::unavailable also when there are too many lines already.
  Result<> ask(std::uint32_t number, Nursery::Request request);
  std::vector<Nursery::Done> turn();
  // Readable when turn() has something to do; -1 when there are no zygotes.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  [[nodiscard]] int wait_millis() const;

 private:
  struct Line {
    Nursery nursery;
    std::chrono::steady_clock::time_point asked{};
  };
  Line* find_or_open(std::uint32_t number);
  bool make_room();

  const NurseryOptions& options_;
  UniqueFd epoll_;
  std::optional<jail::Plan> plan_;
  std::map<std::uint32_t, Line> lines_;
};

}  // namespace cove::keeper
