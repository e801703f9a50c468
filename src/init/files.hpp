#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cove::init {

// The file helper. It runs in a process of the sandbox, under its uid, limits and locks. Paths are resolved by openat2
// below the sandbox's root and never through magic links; what is read or written is a regular file, judged by its
// descriptor.

// Makes the directories on the way and replaces or creates the file. 0 or an errno.
int write_file(const std::string& path, std::uint32_t mode, std::string_view content);

// Exit statuses of the helper: 0, or one of these, with a sentence on stderr.
int put_file(const std::string& path, std::uint32_t mode);  // from stdin
int get_file(const std::string& path);                      // to stdout
int make_directory(const std::string& path);
int make_link(const std::string& path, const std::string& target);

}  // namespace cove::init
