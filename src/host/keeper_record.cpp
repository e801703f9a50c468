#include "host/keeper_record.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

#include "base/clock.hpp"
#include "base/io.hpp"
#include "base/text.hpp"

namespace cove::host {
namespace {

constexpr const char* kName = "keeper";

std::string path_in(const std::string& state_dir) {
  return state_dir + "/" + kName;
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::string words_of(std::string_view text) {
  std::string out;
  bool gap = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\n';
    if (!space && gap && !out.empty()) out += ' ';
    if (!space) out += c;
    gap = space;
  }
  return out;
}

std::string to_text(const KeeperRecord& record) {
  auto text = fmt::format("boot {}\nuser_namespace {}\nuid_map {}\ncgroup {}\n", boot_id(), record.user_namespace,
                          record.uid_map, record.cgroup_name);
  if (record.range) text += fmt::format("range {}\n", *record.range);
  for (std::size_t slot = 0; slot < record.cgroup_bases.size(); ++slot) {
    if (!record.cgroup_bases[slot].empty()) text += fmt::format("base {} {}\n", slot, record.cgroup_bases[slot]);
  }
  return text;
}

std::optional<KeeperRecord> parse_record(std::string_view text) {
  KeeperRecord record;
  bool this_boot = false;
  for (std::string_view rest = text; !rest.empty();) {
    auto line = take_until(rest, '\n');
    const auto key = take_until(line, ' ');
    if (key == "boot") this_boot = line == boot_id();
    if (key == "user_namespace") record.user_namespace = number(line);
    if (key == "uid_map") record.uid_map = line;
    if (key == "range") record.range = static_cast<std::uint32_t>(number(line));
    if (key == "cgroup") record.cgroup_name = line;
    if (key == "base") {
      const auto slot = number(take_until(line, ' '));
      if (slot < sys::kCgroupSlots) record.cgroup_bases[slot] = line;
    }
  }
  return this_boot && record.user_namespace != 0 ? std::optional(std::move(record)) : std::nullopt;
}

std::optional<KeeperRecord> read_record(const std::string& state_dir) {
  const auto text = read_file_at(AT_FDCWD, path_in(state_dir));
  return text ? parse_record(*text) : std::nullopt;
}

Result<> write_record(const std::string& state_dir, const KeeperRecord& record) {
  // Aside, then moved into place: a reader sees the old one or the new one.
  const auto aside = path_in(state_dir) + ".new";
  {
    COVE_TRY(const auto file, open_at(AT_FDCWD, aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
    COVE_CHECK(write_all(file.get(), to_text(record)));
  }
  if (::rename(aside.c_str(), path_in(state_dir).c_str()) != 0) return fail_errno(errno, "move {} into place", aside);
  return {};
}

void remove_record(const std::string& state_dir) {
  ::unlink(path_in(state_dir).c_str());
}

}  // namespace cove::host
