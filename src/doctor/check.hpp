#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cove::doctor {

// `fail`: the default profile cannot be enforced. `warn`: it can, with less behind it than there could be.
enum class Status : std::uint8_t { ok, warn, fail };

constexpr std::string_view name_of(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::warn:
      return "warn";
    case Status::fail:
      return "fail";
  }
  return "fail";
}

struct Check {
  std::string id;     // for programs; never changes its meaning
  std::string title;  // for people, a few words
  Status status = Status::ok;
  std::string found;
  std::string consequence;  // of what was found; empty when ok
  std::string fix;          // the same
};

using Checks = std::vector<Check>;

}  // namespace cove::doctor
