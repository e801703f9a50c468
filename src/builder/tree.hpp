#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.hpp"

namespace cove::builder {

// One entry of a tree: `name` in the directory `parent`.
struct Entry {
  int parent;
  const char* name;
  const struct stat& status;
};
// Every entry below `directory`, what lies in a directory before it. Links are told of and not followed.
Result<> walk(const std::string& directory, const std::function<Result<>(const Entry&)>& visit);

// Takes away what a sandbox must never find, whatever packages brought: setuid and setgid bits, file capabilities,
// devices, pipes and sockets. Returns the bytes that what is left takes on disk.
Result<std::uint64_t> disarm(const std::string& directory);
// The bytes that everything below takes on disk. Others may change it meanwhile, and what cannot be looked at is not
// counted.
std::uint64_t disk_usage(const std::string& directory);
// The directory and everything below it.
Result<> give_to(const std::string& directory, uid_t uid, gid_t gid);
// Also what is not there.
Result<> remove_tree(const std::string& path);

}  // namespace cove::builder
