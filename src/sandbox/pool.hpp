#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
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
  // An interpreter waits in it, for a program, for one that needs few modules, or to be a kernel.
  enum class Content : std::uint8_t { nothing, program, light_program, kernel };
  std::string name;  // for metrics
  jail::Limits limits;
  Content content = Content::nothing;
  std::size_t size = 0;  // how many stand ready
};

// Sandboxes that are made before they are asked for. Each is handed out once, to one owner, and never comes back. An
// empty pool is no error: who gets nothing makes one.
//
// An interpreter shares its memory layout with all others of its zygote, so tenants with zygotes of their own have
// shelves of their own (docs/attacks.md ZY-01): from the first time they ask for an interpreter until they have not
// asked for a while, and as many as the bound for all of them allows; those who asked last have them.
class Pool {
 public:
  using Content = PoolKind::Content;
  struct Options {
    std::vector<PoolKind> kinds;
    std::chrono::milliseconds age{600'000};          // older ones are thrown away
    std::size_t tenant_bound = 0;                    // of what stands ready for tenants of their own zygotes, in all
    std::chrono::milliseconds tenant_idle{300'000};  // after which nothing does
  };
  // An object, nothing behind it yet. What is born into it is of the tenant's zygotes.
  using Make = std::function<std::shared_ptr<Sandbox>(const PoolKind&, const std::string& tenant)>;

  Pool(async::TaskGroup& tasks, Make make) : tasks_(tasks), make_(std::move(make)) {}

  // Fills up from now on, as the keeper allows.
  void open(Options options);
  // Nothing more is made; what was is thrown away.
  async::Task<> close();
  // The keeper died, and what it made is swept by the next.
  void abandon();

  // Null when none of this kind is ready. `tenant`: who has zygotes of its own; "": everybody else.
  std::shared_ptr<Sandbox> take(const jail::Limits& limits, Content content, const std::string& tenant);
  // An empty one whose limits can be changed to these; null when none is ready.
  std::shared_ptr<Sandbox> take_similar(const jail::Limits& limits);
  // One that died before anybody had it. False when it is not ours.
  bool lose(std::string_view id);
  // Throws away what is too old, and fills up.
  void tick();
  // Forgets tenants that have not asked for a while.
  void tidy_tenants();

  struct Shelf {
    PoolKind kind;
    std::string tenant = {};  // whose it is alone
    std::deque<std::shared_ptr<Sandbox>> ready = {};
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t tenant_hits = 0;  // of this kind, on the shelves of tenants
    std::uint64_t tenant_misses = 0;
    std::chrono::steady_clock::time_point used = {};  // by its tenant
    bool filling = false;
  };
  [[nodiscard]] const std::deque<Shelf>& shelves() const { return shelves_; }
  // How many of a kind stand ready for tenants, and how many tenants have a shelf.
  [[nodiscard]] std::size_t ready_for_tenants(const PoolKind& kind) const;
  [[nodiscard]] std::size_t tenants() const;
  [[nodiscard]] std::chrono::milliseconds oldest(const Shelf& shelf) const;

 private:
  static async::Task<> fill(Pool& pool, Shelf& shelf);
  void throw_away(std::shared_ptr<Sandbox> sandbox);
  static async::Task<> end_of(std::shared_ptr<Sandbox> sandbox);
  static async::Task<bool> make_ready(std::shared_ptr<Sandbox> sandbox, Content content);
  std::shared_ptr<Sandbox> take_from(Shelf& shelf);
  std::shared_ptr<Sandbox> take_of(const std::string& tenant, Shelf& common);
  std::shared_ptr<Sandbox> pop(Shelf& shelf);
  Shelf& shelf_of(const std::string& tenant, const PoolKind& kind);
  void keep_bound(const Shelf& for_whom);
  void tidy(Shelf& shelf);
  template <typename Do>
  void each_shelf(Do&& work) {
    for (auto& shelf : shelves_) work(shelf);
    for (auto& shelf : of_tenants_) work(shelf);
  }

  async::TaskGroup& tasks_;
  Make make_;
  std::chrono::milliseconds age_{0};
  std::size_t tenant_bound_ = 0;
  std::chrono::milliseconds tenant_idle_{0};
  std::deque<Shelf> shelves_;
  std::list<Shelf> of_tenants_;
  std::uint64_t era_ = 0;  // changes when everything made so far is void
};

}  // namespace cove::sandbox
