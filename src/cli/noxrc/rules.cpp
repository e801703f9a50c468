#include "cli/noxrc/rules.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"

namespace cove::cli::noxrc {
namespace {

namespace fs = std::filesystem;

constexpr auto kAllowed = std::to_array<std::string_view>(
    {"[",    "awk",    "bash",    "cat",     "cd",       "cmp",  "cp",    "cut",   "diff",  "echo",  "env",  "false",
     "file", "find",   "grep",    "gunzip",  "gzip",     "head", "ln",    "ls",    "mkdir", "mv",    "node", "printenv",
     "pwd",  "python", "python2", "python3", "readlink", "sed",  "sh",    "sleep", "sort",  "stat",  "tail", "tar",
     "test", "touch",  "tr",      "true",    "type",     "uniq", "unzip", "wc",    "which", "xargs", "zip",  "zsh"});
constexpr auto kBlocked = std::to_array<std::string_view>(
    {"chgrp", "chmod",    "chown",  "dd", "del",   "fdisk",    "format", "halt", "init",   "killall", "mkfs",
     "mount", "poweroff", "reboot", "rm", "rmdir", "shutdown", "su",     "sudo", "umount", "unlink"});

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool inside(const fs::path& path, const fs::path& directory) {
  const auto [end, rest] = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return end == directory.end();
}

}  // namespace

bool is_allowed(std::string_view name) {
  return std::ranges::find(kAllowed, lower(name)) != kAllowed.end();
}

bool is_blocked(std::string_view name) {
  return std::ranges::find(kBlocked, lower(name)) != kBlocked.end();
}

bool may_run(const Words& command) {
  return !command.empty() && is_allowed(command.front()) && !is_blocked(command.front());
}

std::string safe_id(std::string_view id) {
  std::string safe;
  for (const char c : id) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') safe.push_back(c);
  }
  return safe.empty() ? "default" : safe;
}

fs::path sanitized(std::string_view path, const fs::path& sandbox) {
  const auto workspace = sandbox / "workspace";
  if (path.starts_with('/')) {
    const auto normal = fs::path(path).lexically_normal();
    return inside(normal, sandbox) ? normal : workspace;
  }
  std::string text(path);
  std::ranges::replace(text, '\\', '/');
  auto result = workspace;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto part = take_until(rest, '/');
    if (part.empty() || part == ".") continue;
    if (part.size() >= 2 && part.find_first_not_of('.') == std::string_view::npos) return workspace;
    result /= part;
  }
  return result;
}

std::string upload_name(std::string name) {
  std::ranges::replace(name, '\\', '/');
  name.erase(0, std::min(name.find_first_not_of('/'), name.size()));
  if (name.find("..") != std::string::npos) name.erase(0, name.rfind('/') + 1);
  return name;
}

std::string changed_directory(std::string_view directory, std::string_view target) {
  const auto start = target.starts_with('/') ? fs::path("/") : fs::path(directory);
  auto text = (start / target).lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

std::string shell_word(std::string_view word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("@%+=:,./-_").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\"'\"'") : std::string(1, c);
  return out + "'";
}

}  // namespace cove::cli::noxrc
