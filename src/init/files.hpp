#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cove::init {

// The files that a spawn request carries, and its working directory. All of it is done by a forked child, under the
// sandbox's uid, limits and locks; every other work on files is that of /cove/bin/files.

// Makes the parents and replaces or creates a regular file; a link in its place is refused, and so are the links of
// /proc on the way. 0 or an errno.
int write_file(const std::string& path, std::uint32_t mode, std::string_view content);

// With its parents; fine if it is there. The exit status: 0, or 1 with a sentence on stderr.
int make_directory(const std::string& path);

}  // namespace cove::init
