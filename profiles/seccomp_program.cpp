#include "profiles/seccomp_program.hpp"

#include <linux/seccomp.h>
#include <seccomp.h>

#include <bit>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

namespace cove::profiles {
namespace {

constexpr sock_filter load(std::size_t offset) {
  return {BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(offset)};
}
constexpr sock_filter answer(std::uint32_t action) {
  return {BPF_RET | BPF_K, 0, 0, action};
}

// The clauses of one call, in their order, then the default.
Code code_of(const Call& call, std::uint32_t otherwise) {
  static_assert(std::endian::native == std::endian::little);  // the low half of an argument comes first
  Code code;
  std::optional<std::pair<std::size_t, std::uint32_t>> loaded;  // which bits of which argument the accumulator holds
  for (const auto& [action, match, line] : call.clauses) {
    std::vector<std::size_t> tests;  // jumps that leave this clause when they fail
    for (std::size_t arg = 0; arg < match.mask.size(); ++arg) {
      const auto mask = match.mask[arg];
      if (mask == 0) continue;
      if (loaded != std::pair{arg, mask}) {
        code.push_back(load(offsetof(seccomp_data, args) + 8 * (arg % 6) + 4 * (arg / 6)));
        if (mask != 0xffffffff) code.push_back({BPF_ALU | BPF_AND | BPF_K, 0, 0, mask});
        loaded = {arg, mask};
      }
      tests.push_back(code.size());
      code.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 0, match.value[arg]});
    }
    code.push_back(answer(action));
    for (const auto at : tests) code[at].jf = static_cast<std::uint8_t>(code.size() - at - 1);  // at most 12 tests of 3
    if (tests.empty()) return code;
    if (tests.size() > 1) loaded.reset();  // any of the tests may have failed
  }
  code.push_back(answer(otherwise));
  return code;
}

// Call numbers from `first` up to the next part's.
struct Part {
  std::uint32_t first;
  Code code;
};

// Binary search for the part of the number in the accumulator.
Code choose(std::span<const Part> parts) {
  if (parts.size() == 1) return parts.front().code;
  const auto middle = parts.size() / 2;
  const auto low = choose(parts.first(middle));
  const auto high = choose(parts.subspan(middle));
  Code code;
  const auto skip = static_cast<std::uint32_t>(low.size());
  if (skip <= 255) {
    code.push_back({BPF_JMP | BPF_JGE | BPF_K, static_cast<std::uint8_t>(skip), 0, parts[middle].first});
  } else {
    code.push_back({BPF_JMP | BPF_JGE | BPF_K, 0, 1, parts[middle].first});
    code.push_back({BPF_JMP | BPF_JA, 0, 0, skip});
  }
  code.insert(code.end(), low.begin(), low.end());
  code.insert(code.end(), high.begin(), high.end());
  return code;
}

}  // namespace

Code compile(const Profile& profile) {
  if (!profile.otherwise) refuse("there is no 'default' line");
  if (!profile.foreign) refuse("there is no 'foreign-arch' line");
  const auto otherwise = *profile.otherwise;
  // Neighbours with one answer share a part. x32 numbers lie above them all and get the default, as the unknown do.
  std::vector<Part> parts{{.first = 0, .code = {answer(otherwise)}}};
  const auto from = [&parts](std::uint32_t first, Code code) {
    if (parts.back().first == first) parts.pop_back();
    if (!parts.empty() && code.size() == 1 && parts.back().code.size() == 1 && parts.back().code[0].k == code[0].k)
      return;
    parts.push_back({.first = first, .code = std::move(code)});
  };
  for (const auto& [number, call] : profile.calls) {
    from(static_cast<std::uint32_t>(number), code_of(call, otherwise));
    from(static_cast<std::uint32_t>(number) + 1, {answer(otherwise)});
  }
  Code code{load(offsetof(seccomp_data, arch)),
            {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, seccomp_arch_native()},
            answer(*profile.foreign),
            load(offsetof(seccomp_data, nr))};
  const auto chosen = choose(parts);
  code.insert(code.end(), chosen.begin(), chosen.end());
  if (code.size() > BPF_MAXINSNS) refuse("{} instructions; the kernel takes {}", code.size(), BPF_MAXINSNS);
  return code;
}

std::uint64_t hash(const Code& program) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) hash = (hash ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3;
  };
  for (const auto& one : program) {
    mix(one.code, 2);
    mix(one.jt, 1);
    mix(one.jf, 1);
    mix(one.k, 4);
  }
  return hash;
}

}  // namespace cove::profiles
