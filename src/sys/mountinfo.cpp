#include "sys/mountinfo.hpp"

#include <fcntl.h>

#include "base/io.hpp"
#include "base/text.hpp"

namespace cove::sys {
namespace {

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '3';
    if (!escape) {
      out.push_back(text[i]);
      continue;
    }
    out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')));
    i += 3;
  }
  return out;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  while (!line.empty()) {
    const auto word = take_until(line, ' ');
    out.push_back(word);
  }
  return out;
}

}  // namespace

std::vector<Mount> parse_mounts(std::string_view text) {
  std::vector<Mount> mounts;
  while (!text.empty()) {
    const auto line = take_until(text, '\n');

    const auto word = words(line);
    // id parent major:minor root target options [tags...] - type source super-options
    std::size_t dash = 6;
    while (dash < word.size() && word[dash] != "-") ++dash;
    if (dash + 3 >= word.size()) continue;
    mounts.push_back({
        .root = unescaped(word[3]),
        .target = unescaped(word[4]),
        .options = std::string(word[5]),
        .type = std::string(word[dash + 1]),
        .super_options = std::string(word[dash + 3]),
    });
  }
  return mounts;
}

Result<std::vector<Mount>> read_mounts() {
  COVE_TRY(const auto text, read_file_at(AT_FDCWD, "/proc/self/mountinfo"));
  return parse_mounts(text);
}

}  // namespace cove::sys
