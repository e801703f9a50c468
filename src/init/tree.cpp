#include "init/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace cove::init {
namespace {

struct Entry {
  pid_t pid;
  pid_t parent;
  bool dead;   // a zombie: nothing left to kill
  bool below;  // the root
};

// pid, parent and state from /proc/PID/stat; the name in it may hold anything, so they are looked for after its last
// bracket.
bool read_entry(const char* name, Entry& entry) {
  entry.pid = static_cast<pid_t>(::strtol(name, nullptr, 10));
  if (entry.pid <= 1) return false;
  const std::string path = std::string("/proc/") + name + "/stat";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[512];
  const auto n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return false;
  text[n] = '\0';
  const char* bracket = ::strrchr(text, ')');
  if (bracket == nullptr || bracket[1] == '\0' || bracket[2] == '\0') return false;
  entry.dead = bracket[2] == 'Z' || bracket[2] == 'X';
  entry.parent = static_cast<pid_t>(::strtol(bracket + 3, nullptr, 10));
  entry.below = false;
  return true;
}

}  // namespace

int kill_below(pid_t root) {
  std::vector<Entry> entries;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return -1;
  while (const auto* item = ::readdir(proc)) {
    Entry entry{};
    if (read_entry(item->d_name, entry)) entries.push_back(entry);
  }
  ::closedir(proc);

  // A few processes, a few levels: marking until nothing changes is quick enough.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto& entry : entries) {
      if (entry.below) continue;
      bool below = entry.parent == root;
      for (const auto& other : entries) below = below || (other.below && other.pid == entry.parent);
      entry.below = below;
      changed = changed || below;
    }
  }
  int alive = 0;
  for (const auto& entry : entries) {
    if (!entry.below || entry.dead) continue;
    ++alive;
    ::kill(entry.pid, SIGKILL);
  }
  ::kill(root, SIGCONT);
  return alive;
}

}  // namespace cove::init
