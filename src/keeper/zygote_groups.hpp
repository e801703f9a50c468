#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "keeper/zygote_group.hpp"

namespace cove::keeper {

// Every group of zygotes there is, by root and number: those of one group share their memory's layout. The first of the
// host's root is there from the start, the others from the first birth that wants them. Memory is what lines cost, so
// they are few, and one that nobody has used for a while makes way.
class ZygoteGroups {
 public:
  struct Key {
    std::uint32_t root = 0;
    std::uint32_t number = 0;
    auto operator<=>(const Key&) const = default;
  };
  using MakePlan = std::function<Result<jail::Plan>(std::uint32_t root)>;
  explicit ZygoteGroups(const ZygoteOptions& options) : options_(options) {}
  // Once, in the keeper's room.
  void open(MakePlan make_plan);
  void close();

  // As ZygoteGroup::ask. Errc::unavailable also when there are too many lines already.
  Result<> ask(Key key, ZygoteGroup::Request request);
  // The lines of one root go. Returns when none of their zygotes is left.
  void retire(std::uint32_t root);
  std::vector<ZygoteGroup::Done> turn();
  // Readable when turn() has something to do; -1 when there are no zygotes.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  [[nodiscard]] int wait_millis() const;

 private:
  struct Group {
    ZygoteGroup zygotes;
    std::chrono::steady_clock::time_point last_asked{};
  };
  Group* find_or_start(Key key);
  bool evict_idle();

  const ZygoteOptions& options_;
  UniqueFd epoll_;
  MakePlan make_plan_;
  std::map<Key, Group> groups_;
};

}  // namespace cove::keeper
