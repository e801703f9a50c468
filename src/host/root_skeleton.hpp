#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace cove::host {

// Which files of an /etc go into a root: the listed ones of the host, or all world-readable ones of an image. The rest
// is generated, and the same everywhere.
enum class EtcChoice { listed, of_image };

// Fills the empty directory `lower` with what lies under every sandbox besides /usr: the generated /etc, empty mount
// points. `from` is the root whose /etc and top-level links it is made after.
Result<> make_lower(const std::string& lower, const std::string& from, EtcChoice choice);
// Puts Cove's own programs into it, those of this binary.
Result<> add_programs(const std::string& lower);

// What `listed` takes, below /etc.
std::vector<std::string> listed_of_etc();

// Since the usr merge these are links; elsewhere they are directories of their own.
inline constexpr auto kTopLevel = std::to_array<const char*>({"bin", "sbin", "lib", "lib32", "lib64", "libx32"});

}  // namespace cove::host
