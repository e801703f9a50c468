#include "packages/install_request.hpp"

#include <algorithm>
#include <cmath>

namespace cove::packages {
namespace {

using std::chrono::milliseconds;

Result<outbound::Reach> reach_of(const std::vector<std::string>& allowed) {
  outbound::Reach reach;
  for (const auto& text : allowed) {
    COVE_TRY(auto endpoint, outbound::parse_host_port(text));
    reach.allowed.push_back(std::move(endpoint));
  }
  return reach;
}

}  // namespace

Result<> choose_index(InstallRequest& request, const config::Dependencies& config,
                      const std::optional<std::string>& given, std::string_view field) {
  if (!given && config.index.empty())
    return fail(Errc::invalid,
                fmt::format("{} must be given: this server has no package index of its own; with the setting "
                            "dependencies.index = \"public\" it uses the one that pip itself would",
                            field));
  auto index = outbound::parse_url(given.value_or(config.index));
  if (!index)
    return given ? fail(Errc::invalid, fmt::format("{}: {}", field, index.error().message))
                 : tl::unexpected<Error>(index.error());
  COVE_TRY(request.reach, reach_of(config.allow));
  const auto own = outbound::parse_url(config.index);
  if (own && own->same_origin(*index)) request.reach.allowed.push_back({.host = index->host, .port = index->port});
  boost::system::error_code is_name;
  const auto literal = boost::asio::ip::make_address(index->host, is_name);
  if (!is_name && outbound::dialable(*index, request.reach, {literal}).empty())
    return fail(Errc::invalid, fmt::format("{}: {} is not a public address, and dependencies.allow does not list it",
                                           field, index->authority()));
  if (!index->target.ends_with('/')) index->target += '/';
  request.index = std::move(*index);
  request.max_download_bytes = config.max_download_bytes;
  return {};
}

Result<milliseconds> install_time(const config::Dependencies& config, std::optional<double> seconds,
                                  std::string_view field) {
  if (!seconds) return config.timeout;
  if (!(*seconds > 0)) return fail(Errc::invalid, fmt::format("{} must be greater than 0", field));
  if (*seconds * 1000 > static_cast<double>(config.max_timeout.count())) return config.max_timeout;
  return milliseconds(std::max<std::int64_t>(1, std::llround(*seconds * 1000)));
}

}  // namespace cove::packages
