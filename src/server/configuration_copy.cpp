#include "server/configuration_copy.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/io.hpp"

namespace cove::server {

Result<UniqueFd> copy_configuration(const std::string& file) {
  std::string text;
  if (!file.empty()) {
    COVE_TRY(text, read_file_at(AT_FDCWD, file));
  }
  UniqueFd copy(::memfd_create("cove.toml", MFD_CLOEXEC));
  if (!copy) return fail_errno(errno, "copy the configuration");
  COVE_CHECK(write_all(copy.get(), text));
  return copy;
}

}  // namespace cove::server
