#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "files/entry.hpp"

namespace cove::files {

// What the API does with names. Paths are those of absolute_path().

Result<Entry> stat_path(const std::string& path);  // of a link, not of what it points to

struct Listing {
  std::vector<Entry> entries;  // sorted by path
  std::uint64_t left_out = 0;  // there are so many more
};
inline constexpr std::size_t kMaxListingBytes = std::size_t{15} << 20;  // as JSON
// What is below a directory, `depth` levels down, no link followed: as many entries as were asked for, and no more than
// fit into kMaxListingBytes; the others are counted. Errc::invalid if it is no directory.
Result<Listing> list_tree(const std::string& path, std::size_t depth, std::size_t max_entries);
std::string to_json(const Listing& listing);

enum class Overwrite { no, yes };
Result<Entry> rename_path(const std::string& from, const std::string& to, Overwrite overwrite);

Result<Entry> make_directory(const std::string& path);  // parents too; fine if it is there
// A symbolic link to `target`, which is not looked at; parents are made. Errc::exists when something is there.
Result<Entry> make_link(const std::string& path, const std::string& target);

enum class Recursive { no, yes };
// Errc::invalid for "/" and the workspace itself, and for a directory with something in it unless recursive.
Result<> remove_path(const std::string& path, Recursive recursive);

}  // namespace cove::files
