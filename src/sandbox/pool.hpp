#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "async/task_group.hpp"
#include "jail/plan.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {

// What a sandbox that stands ready is good for.
struct PoolKind {
  std::string name;  // for metrics
  jail::Limits limits;
  bool python = false;   // an interpreter waits in it
  std::size_t size = 0;  // how many stand ready
};

// Sandboxes that are made before they are asked for. Each is handed out once, to one owner, and never comes back. An
// empty pool is no error: who gets nothing makes one.
class Pool {
 public:
  struct Options {
    std::vector<PoolKind> kinds;
    std::chrono::milliseconds age{600'000};  // older ones are thrown away
  };
  using Make = std::function<std::shared_ptr<Sandbox>(const jail::Limits&)>;  // an object, nothing behind it yet

  Pool(async::TaskGroup& tasks, Make make) : tasks_(tasks), make_(std::move(make)) {}

  // Fills up from now on, as the keeper allows.
  void open(Options options);
  // Nothing more is made; what was is thrown away.
  async::Task<> close();
  // The keeper died, and what it made is swept by the next.
  void abandon();

  // Null when none of this kind is ready.
  std::shared_ptr<Sandbox> take(const jail::Limits& limits, bool python);
  // One that died before anybody had it. False when it is not ours.
  bool lose(std::string_view id);
  // Throws away what is too old, and fills up.
  void tick();

  struct Shelf {
    PoolKind kind;
    std::deque<std::shared_ptr<Sandbox>> ready;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    bool filling = false;
  };
  [[nodiscard]] const std::deque<Shelf>& shelves() const { return shelves_; }
  [[nodiscard]] std::chrono::milliseconds oldest(const Shelf& shelf) const;

 private:
  static async::Task<> fill(Pool& pool, Shelf& shelf);
  void throw_away(std::shared_ptr<Sandbox> sandbox);
  static async::Task<> end_of(std::shared_ptr<Sandbox> sandbox);
  static async::Task<bool> make_ready(std::shared_ptr<Sandbox> sandbox, bool python);

  async::TaskGroup& tasks_;
  Make make_;
  std::chrono::milliseconds age_{0};
  std::deque<Shelf> shelves_;
  std::uint64_t era_ = 0;  // changes when everything made so far is void
};

}  // namespace cove::sandbox
