#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cli/client/client_options.hpp"

namespace cove::cli::noxrc {

// What local mode lets through: the names NoxRunner's own local mode knows, case aside, and nothing by its path. A
// courtesy to callers who expect it, not a lock: the sandbox is the lock.
bool is_allowed(std::string_view name);
bool is_blocked(std::string_view name);
bool may_run(const Words& command);

// Letters, digits, - and _ of an id; "default" when none are left.
std::string safe_id(std::string_view id);

// Where a path that a caller gave lies on this machine: always lexically inside `sandbox`, without asking the file
// system. What leaves it becomes the workspace itself.
std::filesystem::path sanitized(std::string_view path, const std::filesystem::path& sandbox);

// The name an uploaded file gets below its destination.
std::string upload_name(std::string name);

// `cd target` in `directory`, by the letters alone.
std::string changed_directory(std::string_view directory, std::string_view target);

// As one word for sh.
std::string shell_word(std::string_view word);

}  // namespace cove::cli::noxrc
