#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cove::profiles {

// Why a profile cannot be compiled.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> why, Args&&... args) {
  throw Refused(fmt::format(why, std::forward<Args>(args)...));
}

// The arguments with `argN & mask[N] == value[N]` for every N, in the low 32 bits; behind them the same for the
// high 32. A mask of 0 is no test.
struct Match {
  std::array<std::uint32_t, 12> mask{};
  std::array<std::uint32_t, 12> value{};

  [[nodiscard]] bool covers(const Match& other) const {
    for (std::size_t arg = 0; arg < mask.size(); ++arg) {
      if ((mask[arg] & ~other.mask[arg]) != 0 || (other.value[arg] & mask[arg]) != value[arg]) return false;
    }
    return true;
  }
};

struct Clause {
  std::uint32_t action;
  Match match;
  int line;
};

struct Call {
  std::string name;
  std::vector<Clause> clauses;  // the first that fits decides
};

struct Profile {
  std::optional<std::uint32_t> otherwise;
  std::optional<std::uint32_t> foreign;
  std::map<std::string, std::uint32_t, std::less<>> constants;
  std::map<int, Call> calls;
};

// Reads a profile by the grammar at the head of default.seccomp. Throws Refused; `line` is then the number of the line
// at fault.
Profile read_profile(std::istream& in, int& line);

}  // namespace cove::profiles
