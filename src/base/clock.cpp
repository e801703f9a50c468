#include "base/clock.hpp"

#include <fcntl.h>

#include "base/io.hpp"

namespace cove {

std::string boot_id() {
  const auto text = read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id").value_or("unknown");
  return text.substr(0, text.find('\n'));
}

}  // namespace cove
