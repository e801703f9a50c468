#include "doors/workspace/efast_store.hpp"

namespace cove::doors::workspace {
namespace {

Result<outbound::Url> endpoint_of(std::string base) {
  if (base.find_first_of("?#") != std::string::npos)
    return fail(Errc::invalid, "efast_url may have no query and no fragment");
  while (base.ends_with('/')) base.pop_back();
  return outbound::parse_url(base + "/api/efast/v1/file/osdownload/");
}

}  // namespace

Result<EfastStore> efast_store(const std::string& url, const std::string& token, const config::Workspace& config) {
  const auto own = endpoint_of(config.efast_url);
  EfastStore store{.token = token};
  COVE_TRY(store.url, endpoint_of(url.empty() ? config.efast_url : url));
  if (!own || own->text() != store.url.text()) return store;
  if (store.token.empty()) store.token = config.efast_token;
  store.reach.allowed.push_back({.host = own->host, .port = own->port});
  for (const auto& text : config.efast_places) {
    COVE_TRY(auto endpoint, outbound::parse_host_port(text));
    store.reach.allowed.push_back(std::move(endpoint));
  }
  return store;
}

}  // namespace cove::doors::workspace
