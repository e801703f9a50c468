#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "keeper/nursery.hpp"

namespace cove::keeper {

// Every line of zygotes there is, by root and number: those of one line share their memory's layout. The first of the
// host's root is there from the start, the others from the first birth that wants them. Memory is what lines cost, so
// they are few, and one that nobody has used for a while makes way.
class Lines {
 public:
  struct Key {
    std::uint32_t root = 0;
    std::uint32_t number = 0;
    auto operator<=>(const Key&) const = default;
  };
  using MakePlan = std::function<Result<jail::Plan>(std::uint32_t root)>;
  explicit Lines(const NurseryOptions& options) : options_(options) {}
  // Once, in the keeper's room.
  void open(MakePlan make_plan);
  void close();

  // As Nursery::ask. Errc::unavailable also when there are too many lines already.
  Result<> ask(Key key, Nursery::Request request);
  // The lines of one root go. Returns when none of their zygotes is left.
  void retire(std::uint32_t root);
  std::vector<Nursery::Done> turn();
  // Readable when turn() has something to do; -1 when there are no zygotes.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  [[nodiscard]] int wait_millis() const;

 private:
  struct Line {
    Nursery nursery;
    std::chrono::steady_clock::time_point asked{};
  };
  Line* find_or_open(Key key);
  bool make_room();

  const NurseryOptions& options_;
  UniqueFd epoll_;
  MakePlan make_plan_;
  std::map<Key, Line> lines_;
};

}  // namespace cove::keeper
