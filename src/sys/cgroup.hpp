#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::sys {

// How this host offers control groups. `hybrid`: v1 controllers beside a v2 tree that has none of ours.
enum class CgroupMode : std::uint8_t { none, v1, hybrid, v2 };
std::string_view name_of(CgroupMode mode);

// The kinds of directory a sandbox may have. On v2 everything is in `unified`.
enum class CgroupSlot : std::uint8_t { memory, pids, cpu, freezer, unified };
inline constexpr std::size_t kCgroupSlots = 5;

struct CgroupLimits {
  std::uint64_t memory_bytes = 0;
  std::uint32_t pids = 0;
  std::uint32_t cpu_millis = 0;  // thousandths of a core
};

// What the kernel counted. Valid until the group is removed, also after everything in it has died.
struct CgroupUsage {
  std::uint64_t cpu_usec = 0;
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t oom_kills = 0;     // for this group's own limit
  std::uint64_t pids_refused = 0;  // forks the pids limit said no to
};

// What is in it now.
struct CgroupContents {
  std::uint64_t memory_bytes = 0;
  std::uint64_t processes = 0;
};

// Our own group in every hierarchy of use, made once and handed to the keeper, which makes one leaf a sandbox below it.
// Nothing outside it is touched. The destructor removes what is empty.
class CgroupTree {
 public:
  struct Options {
    std::string name;  // the directory, the same in each hierarchy
    uid_t owner = 0;   // who may make leaves; given the directories
    gid_t group = 0;
    bool ignore_unified = false;  // tests: behave as on a host that has v1 alone
    // Leaves may outlive this object: one that is there already is taken over, and what is not empty at the end stays.
    bool kept = false;
    std::array<std::string, kCgroupSlots> bases = {};  // where an earlier tree of this name is; see `bases()`
  };
  // Finds the hierarchies in /proc/self/{mountinfo,cgroup}. A host without usable groups gives a tree of mode `none`,
  // not an error.
  static Result<CgroupTree> create(const Options& options);

  CgroupTree() = default;
  CgroupTree(CgroupTree&&) = default;
  CgroupTree& operator=(CgroupTree&&) = default;
  ~CgroupTree();

  [[nodiscard]] CgroupMode mode() const { return mode_; }
  [[nodiscard]] bool limits_memory() const { return v2_memory_ || has(CgroupSlot::memory); }
  [[nodiscard]] bool limits_pids() const { return v2_pids_ || has(CgroupSlot::pids); }
  [[nodiscard]] bool limits_cpu() const { return v2_cpu_ || has(CgroupSlot::cpu); }
  [[nodiscard]] bool freezes() const { return has(CgroupSlot::unified) || has(CgroupSlot::freezer); }
  // For clone3(CLONE_INTO_CGROUP) of the keeper itself: v2 lets it place children only from inside the tree. -1 without
  // v2.
  [[nodiscard]] int keeper_fd() const { return keeper_.get(); }
  // The directory that holds ours in each hierarchy of use, for Options::bases.
  [[nodiscard]] const std::array<std::string, kCgroupSlots>& bases() const { return bases_; }
  // The leaves there are, by any hierarchy.
  [[nodiscard]] std::vector<std::string> leaves() const;
  // Lets go of the tree: whoever lives on in it keeps it.
  void abandon() { made_by_ = 0; }
  // Why there is no memory, pids or cpu limit, for people; empty when all are there.
  [[nodiscard]] const std::string& shortcoming() const { return shortcoming_; }

 private:
  friend class Cgroup;
  struct Parent {
    UniqueFd base;  // the directory that holds ours
    UniqueFd dir;   // ours
  };
  [[nodiscard]] bool has(CgroupSlot slot) const {
    return static_cast<bool>(parents_[static_cast<std::size_t>(slot)].dir);
  }
  [[nodiscard]] int dir_of(CgroupSlot slot) const { return parents_[static_cast<std::size_t>(slot)].dir.get(); }
  Result<> add(CgroupSlot slot, const std::string& base_path, const Options& options);
  Result<> weigh();
  void clear();
  Result<> add_unified(const std::string& mount, const std::string& own, const Options& options);
  Result<> settle_unified(const Options& options);

  CgroupMode mode_ = CgroupMode::none;
  std::string name_;
  std::array<Parent, kCgroupSlots> parents_;
  std::array<std::string, kCgroupSlots> bases_;
  bool kept_ = false;
  UniqueFd keeper_;
  UniqueFd stepped_from_;  // the group this process left for the leaf `cove-front` in it
  bool v2_memory_ = false;
  bool v2_pids_ = false;
  bool v2_cpu_ = false;
  pid_t made_by_ = 0;  // a forked copy of this object owns nothing
  std::string shortcoming_;
};

// Ends everything in a tree that nobody holds any more, and removes it. `bases` as CgroupTree::bases() said.
void end_group_tree(const std::string& name, const std::array<std::string, kCgroupSlots>& bases);

// The leaf of one sandbox. Not to outlive the tree it was made in.
class Cgroup {
 public:
  // The leaf in each hierarchy, without limits yet.
  static Result<Cgroup> create(const CgroupTree& tree, std::string name);
  // One that is there already, in as many hierarchies as have it; one that none has is empty.
  static Result<Cgroup> adopt(const CgroupTree& tree, std::string name);
  // Writes the limits, also over those that are in force; each value is read back.
  Result<> limit(const CgroupTree& tree, const CgroupLimits& limits);
  Cgroup(Cgroup&&) = default;
  Cgroup& operator=(Cgroup&&) = default;
  ~Cgroup();

  // For clone3(CLONE_INTO_CGROUP); -1 without v2.
  [[nodiscard]] int unified_fd() const { return dirs_[static_cast<std::size_t>(CgroupSlot::unified)].get(); }
  // v1 `tasks` files. A single-threaded process that writes "0" there moves itself without the global lock that any
  // other way of moving takes (about 13 ms when idle); the file must have been opened by someone whose uid the mover
  // still has.
  [[nodiscard]] const std::vector<UniqueFd>& join_fds() const { return join_; }
  void forget_join_fds() { join_.clear(); }
  // The same anew, for who joins later.
  [[nodiscard]] Result<std::vector<UniqueFd>> open_join_fds() const;

  [[nodiscard]] CgroupUsage usage() const;
  [[nodiscard]] CgroupContents contents() const;
  [[nodiscard]] std::uint64_t processes() const;
  // Becomes readable (v1) or has POLLPRI (v2) when a process was killed for memory; -1 when memory is not limited here.
  [[nodiscard]] int oom_fd() const { return oom_event_.get(); }
  // Once a process was killed for memory. Takes the event off the descriptor.
  bool consume_oom_event();

  [[nodiscard]] const std::string& name() const { return name_; }
  // Lets go of the group without ending anything in it.
  void abandon();

  // Every process in the group gets SIGKILL, also those born meanwhile and those frozen. Does not wait.
  Result<> kill_all();
  // What is killed needs processor time to end with, and a group that has none to give could take minutes.
  void lift_cpu_limit();
  [[nodiscard]] bool empty() const;
  // Errc::unavailable when something in it does not stand still within a second: nothing is left frozen then.
  Result<> freeze();
  Result<> thaw();
  // Errc::unavailable while something in it still dies.
  Result<> remove();

 private:
  Cgroup() = default;
  [[nodiscard]] int dir_of(CgroupSlot slot) const { return dirs_[static_cast<std::size_t>(slot)].get(); }
  enum class Origin { made, found };
  static Result<Cgroup> open(const CgroupTree& tree, std::string name, Origin origin);
  Result<> watch_oom(const CgroupTree& tree);
  [[nodiscard]] int freezer_fd() const { return unified_fd() >= 0 ? unified_fd() : dir_of(CgroupSlot::freezer); }
  Result<> stop();  // as freeze(), but leaves what it did when it fails
  Result<> kill_frozen();
  static Result<> signal_members(int dir);

  // A directory of the tree's, which outlives its leaves: a descriptor of its own for each leaf would be one too many.
  class Borrowed {
   public:
    Borrowed() = default;
    explicit Borrowed(int fd) : fd_(fd) {}
    Borrowed(Borrowed&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Borrowed& operator=(Borrowed&& other) noexcept {
      fd_ = std::exchange(other.fd_, -1);
      return *this;
    }
    explicit operator bool() const { return fd_ >= 0; }
    [[nodiscard]] int get() const { return fd_; }
    void reset() { fd_ = -1; }

   private:
    int fd_ = -1;
  };
  std::string name_;
  std::array<Borrowed, kCgroupSlots> parents_;
  std::array<UniqueFd, kCgroupSlots> dirs_;
  std::vector<UniqueFd> join_;
  UniqueFd oom_event_;
  std::uint64_t seen_oom_kills_ = 0;
  bool v2_memory_ = false;
  bool v2_pids_ = false;
  bool v2_cpu_ = false;
};

}  // namespace cove::sys
