#include "host/state_dir.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace cove::host {

std::string default_state_dir() {
  if (const char* set = std::getenv("COVE_STATE_DIR"); set != nullptr && *set != '\0') return set;
  if (::geteuid() == 0) return "/var/lib/cove";
  if (const char* xdg = std::getenv("XDG_STATE_HOME"); xdg != nullptr && *xdg == '/') return std::string(xdg) + "/cove";
  const char* home = std::getenv("HOME");
  // Never the common temporary directory: what lies there may be anybody's.
  if (home == nullptr || *home != '/') {
    const auto* user = ::getpwuid(::geteuid());
    home = user == nullptr ? nullptr : user->pw_dir;
  }
  return home == nullptr || *home != '/' ? "" : std::string(home) + "/.local/state/cove";
}

std::string templates_directory(const std::string& state_dir) {
  return state_dir + "/templates";
}

}  // namespace cove::host
