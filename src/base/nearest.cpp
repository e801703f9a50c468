#include "base/nearest.hpp"

#include <algorithm>
#include <utility>

namespace cove {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  // Half of a short word may be wrong at most: "rm" is not "ls".
  std::size_t least = std::min<std::size_t>(std::max<std::size_t>(2, word.size() / 3), word.size() / 2) + 1;
  for (const auto& one : known) {
    const auto apart = edit_distance(one, word);
    if (apart >= least) continue;
    least = apart;
    best = one;
  }
  return best;
}

}  // namespace cove
