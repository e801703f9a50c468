#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "outbound/client.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/registry.hpp"

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
};

// The index that is asked, and where it may lie: the operator's own anywhere, one that a caller gave (in the field of
// this name) at a public address or one that the operator lists. Errc::invalid says what is wrong with it.
Result<> choose_index(InstallRequest& request, const config::Dependencies& config,
                      const std::optional<std::string>& given, std::string_view field);
// How long an install may take, of what a caller asked for.
Result<std::chrono::milliseconds> install_time(const config::Dependencies& config, std::optional<double> seconds,
                                               std::string_view field);

// Packages that are installed into sandboxes by pip, which runs inside. A sandbox has no network: what pip asks for
// comes over the channel of its process, and is fetched here: pages of the index that was named, and the wheels that
// those pages lead to. Nothing else can be asked for.
class Installs {
 public:
  using Log = std::function<void(std::string_view line)>;
  struct Options {
    std::uint32_t tenant_concurrent = 4;  // of one tenant at once; more wait
    std::uint32_t max_concurrent = 16;    // and of all
  };
  Installs(boost::asio::any_io_executor executor, sandbox::Registry& registry, outbound::Client& client,
           Options options, Log log);
  void set_options(Options options);

  // Goes on in the background, in its turn; what was asked for before is installed again with it. Errc::conflict while
  // one is under way, or the sandbox is paused; Errc::over_limit when it would be more packages than a sandbox may
  // have.
  Result<> begin(std::shared_ptr<sandbox::Sandbox> sandbox, InstallRequest request);
  // Ends the one that is under way, if there is one.
  void cancel(const sandbox::Sandbox& sandbox);
  // {"status": "none|pending|installing|completed|failed", …}
  [[nodiscard]] boost::json::object status(const sandbox::Sandbox& sandbox);

  [[nodiscard]] std::uint32_t running() const { return turns_.inside(); }
  [[nodiscard]] std::uint32_t waiting() const { return turns_.waiting(); }

 private:
  async::Task<> run(std::shared_ptr<sandbox::Sandbox> sandbox, InstallRequest request);
  void write(const sandbox::Sandbox& sandbox, const boost::json::object& status);

  sandbox::Registry& registry_;
  outbound::Client& client_;
  Log log_;
  Options options_;
  sandbox::Admission turns_;
  struct UnderWay {
    boost::json::object status;
    std::shared_ptr<sandbox::Process> process;  // once it runs
    bool cancelled = false;
  };
  std::map<std::string, UnderWay> under_way_;  // by SandboxRow::id
};

}  // namespace cove::packages
