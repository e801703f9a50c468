#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::server {

// The directory that kept files live in, made if it is not there, and locked against other servers for as long as the
// descriptor, or a copy of it, is open. As root it is given to `owner`. One that holds something and is not ours, or
// that everybody may write to, is refused: Errc::denied.
Result<UniqueFd> open_file_directory(const std::string& path, uid_t owner);

}  // namespace cove::server
