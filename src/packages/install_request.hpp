#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "journal/act.hpp"
#include "outbound/client.hpp"

namespace cove::packages {

struct Package {
  std::string name;
  std::string version;  // empty: the newest; "1.2" is "==1.2"
};

struct InstallRequest {
  std::vector<Package> packages;  // checked by requirement()
  outbound::Url index;
  outbound::Reach reach;
  std::chrono::milliseconds timeout{300'000};
  std::uint64_t max_download_bytes = 0;
  journal::Actor actor = {};  // who asks, for the journal
};

// Sets the index to install from: the caller's, else the operator's. The operator's may have any address; the caller's
// must have a public one, or one that the operator allows. `field` is the caller's name for it, for the messages.
Result<> choose_index(InstallRequest& request, const config::Dependencies& config,
                      const std::optional<std::string>& given, std::string_view field);
// The time limit of an install: what the caller asked for, up to the operator's maximum.
Result<std::chrono::milliseconds> install_time(const config::Dependencies& config, std::optional<double> seconds,
                                               std::string_view field);

}  // namespace cove::packages
