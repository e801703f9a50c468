#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "keeper/zygote_group.hpp"

namespace cove::keeper {

// Every group of zygotes, by root and number. The first group of the host's root is started at once, each other one by
// the first birth that wants it. Groups cost memory: there are few, and an idle one is closed when another is wanted.
class ZygoteGroups {
 public:
  struct Key {
    std::uint32_t root = 0;
    std::uint32_t number = 0;
    std::uint32_t light = 0;  // 1: for programs alone (ZygoteOptions::light)
    auto operator<=>(const Key&) const = default;
  };
  using MakePlan = std::function<Result<jail::Plan>(std::uint32_t root)>;
  explicit ZygoteGroups(const ZygoteOptions& options) : options_(options) {}
  // Once, in the keeper's own root.
  void open(MakePlan make_plan);
  void close();

  // As ZygoteGroup::request_birth. Errc::unavailable also when there are too many groups already. Where no light zygote
  // serves yet, or never will, the full one of the same root and number does.
  Result<> request_birth(Key key, ZygoteGroup::Request request);
  // Closes the groups of one root. Returns when none of their zygotes is left.
  void retire(std::uint32_t root);
  std::vector<ZygoteGroup::BirthResult> collect_births();
  // Readable when collect_births() has something to do; -1 when there are no zygotes.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  [[nodiscard]] int wait_millis() const;

 private:
  struct Group {
    ZygoteGroup zygotes;
    std::chrono::steady_clock::time_point last_asked{};
  };
  Group* find_or_start(Key key);
  [[nodiscard]] bool light_serves(Key key);
  // Closes an idle group if there are too many of this weight. False when none is idle.
  bool evict_idle(std::uint32_t light);

  const ZygoteOptions& options_;
  UniqueFd epoll_;
  MakePlan make_plan_;
  std::map<Key, Group> groups_;
};

}  // namespace cove::keeper
