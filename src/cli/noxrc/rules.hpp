#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cli/client/client_options.hpp"

namespace cove::cli::noxrc {

// The commands that local mode allows: the names in NoxRunner's own list, in any case, and no paths. Kept for
// compatibility, not for security: the sandbox provides that.
bool is_allowed(std::string_view name);
bool is_blocked(std::string_view name);
bool may_run(const Words& command);

// Letters, digits, - and _ of an id; "default" when none are left.
std::string safe_id(std::string_view id);

// The local path for a caller's path: always lexically inside `sandbox`, without access to the file system. A path that
// leaves it becomes the workspace itself.
std::filesystem::path sanitized(std::string_view path, const std::filesystem::path& sandbox);

// The name an uploaded file gets below its destination.
std::string upload_name(std::string name);

// `cd target` in `directory`, lexically.
std::string changed_directory(std::string_view directory, std::string_view target);

// Quoted as one word for sh.
std::string shell_word(std::string_view word);

}  // namespace cove::cli::noxrc
