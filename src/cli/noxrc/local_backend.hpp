#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/unique_fd.hpp"
#include "cli/noxrc/backend.hpp"
#include "keeper/keeper.hpp"

namespace cove::cli::noxrc {

// `noxrc --local-test`: sessions of this process. The files of each lie in /tmp/noxrunner_sandbox_<id>/workspace and
// stay there; a command never sees that directory: it runs in a sandbox of its own, like `cove run`'s, that gets a copy
// of the files and whose files replace them afterwards. Must be made before any thread.
class LocalBackend : public Backend {
 public:
  enum class Warnings { once, every_command };
  // `warn` shows one line in red.
  LocalBackend(std::function<void(const std::string&)> warn, Warnings warnings);

  Result<bool> healthy() override { return true; }
  Result<std::string> create(const std::string& session, const CreateRequest& request) override;
  Result<bool> wait_ready(const std::string& session, int timeout_seconds) override;
  Result<ExecResult> exec(const std::string& session, const ExecRequest& request) override;
  Result<> upload(const std::string& session, const std::map<std::string, std::string>& files,
                  const std::string& dest) override;
  Result<> download(const std::string& session, const std::string& src, int fd) override;
  Result<> touch(const std::string& session) override;
  Result<> remove(const std::string& session) override;

 private:
  struct Session {
    std::filesystem::path directory;
    UniqueFd fd;
  };
  Result<Session*> ensure(const std::string& session);
  Result<ExecResult> run(const Session& session, const ExecRequest& request, const std::string& workdir);

  std::function<void(const std::string&)> warn_;
  Warnings warnings_;
  std::filesystem::path base_ = "/tmp";
  std::map<std::string, Session> sessions_;
  std::optional<keeper::Keeper> keeper_;
  bool warned_ = false;
};

}  // namespace cove::cli::noxrc
