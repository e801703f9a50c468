#pragma once

#include <boost/json.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "outbound/client.hpp"
#include "packages/install_request.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/registry.hpp"

namespace cove::packages {

// Installs packages into sandboxes. pip runs inside, without a network; PipSession fetches for it.
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

  // Queues an install, which then runs in the background. Packages that were requested earlier are installed again with
  // it. Errc::conflict while an install is under way or the sandbox is paused; Errc::over_limit for too many packages.
  Result<> begin(std::shared_ptr<sandbox::Sandbox> sandbox, InstallRequest request);
  // Ends the install that is under way, if there is one.
  void cancel(const sandbox::Sandbox& sandbox);
  // {"status": "none|pending|installing|completed|failed", …}
  [[nodiscard]] boost::json::object status(const sandbox::Sandbox& sandbox);

  [[nodiscard]] std::uint32_t running() const { return queue_.inside(); }
  [[nodiscard]] std::uint32_t waiting() const { return queue_.waiting(); }

 private:
  async::Task<> run(std::shared_ptr<sandbox::Sandbox> sandbox, InstallRequest request);
  void write(const sandbox::Sandbox& sandbox, const boost::json::object& status);

  sandbox::Registry& registry_;
  outbound::Client& client_;
  Log log_;
  Options options_;
  sandbox::Admission queue_;
  struct UnderWay {
    boost::json::object status;
    std::shared_ptr<sandbox::Process> process;  // once it runs
    std::shared_ptr<journal::Entry> entry;
    bool cancelled = false;
  };
  std::map<std::string, UnderWay> under_way_;  // by SandboxRow::id
};

}  // namespace cove::packages
