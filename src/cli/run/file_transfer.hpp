#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cli/run/one_shot.hpp"
#include "cli/run/run_options.hpp"
#include "guest/file_protocol.hpp"

namespace cove::cli {

// Files into and out of a sandbox. The file helper inside does the work, under the sandbox's user, limits and locks:
// nothing that a program left in there is followed out of it.

// Runs the file helper to its end, with its input and output as `feed` says. The helper's own error when it failed.
Result<ProcessEnd> run_file_helper(OneShot& shot, guest::file_protocol::Command command, Feed& feed,
                                   std::optional<std::chrono::milliseconds> timeout);

// What can be read from `input_fd` becomes the file `path`; parents are made.
Result<> put_file(OneShot& shot, int input_fd, const std::string& path, std::uint32_t mode);

// A file or a directory of the host. What the caller named may be a link; below it links stay links, as following one
// could copy what nobody meant to.
Result<> put_tree(OneShot& shot, const HostFile& file);

// Copies out a regular file of at most `max_bytes`, and returns its size. It is written beside its target first, so a
// failure leaves no partial result; a FIFO or a device is written to.
Result<std::uint64_t> get_file(OneShot& shot, const HostFile& file, std::uint64_t max_bytes);

// The same for a file or a directory. A directory takes the place of an empty one, or of nothing; links that lead out
// of it, and what is neither a file nor a directory, stay inside.
Result<std::uint64_t> get_tree(OneShot& shot, const HostFile& file, std::uint64_t max_bytes);

}  // namespace cove::cli
