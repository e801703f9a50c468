#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "sys/cgroup.hpp"

namespace cove::host {

// Where the next keeper finds the sandboxes that outlived this one. Written to the state directory by the process that
// starts keepers; only its user may read or write it.
struct KeeperRecord {
  std::uint64_t user_namespace = 0;                         // inode of the keeper's
  std::string uid_map;                                      // of it, as words_of() gives it
  std::optional<std::uint32_t> range;                       // of user ids, when root
  std::string cgroup_name;                                  // of the tree
  std::array<std::string, sys::kCgroupSlots> cgroup_bases;  // the directory that holds it in each hierarchy; or empty
};

// The words of a text, one space between them: the kernel aligns its numbers.
std::string words_of(std::string_view text);

// nullopt when the text is no record, or is from before this boot.
std::string to_text(const KeeperRecord& record);
std::optional<KeeperRecord> parse_record(std::string_view text);

// nullopt when there is no record of this boot.
std::optional<KeeperRecord> read_record(const std::string& state_dir);
Result<> write_record(const std::string& state_dir, const KeeperRecord& record);
void remove_record(const std::string& state_dir);

}  // namespace cove::host
