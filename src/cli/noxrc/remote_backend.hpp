#pragma once

#include "cli/noxrc/backend.hpp"

namespace cove::cli::noxrc {

// A server, used through the seven requests that every NoxRunner server answers.
class RemoteBackend : public Backend {
 public:
  explicit RemoteBackend(client::Options options) : client_(std::move(options)) {}

  Result<bool> healthy() override;
  Result<std::string> create(const std::string& session, const CreateRequest& request) override;
  Result<bool> wait_ready(const std::string& session, int timeout_seconds) override;
  Result<ExecResult> exec(const std::string& session, const ExecRequest& request) override;
  Result<> upload(const std::string& session, const std::map<std::string, std::string>& files,
                  const std::string& dest) override;
  Result<> download(const std::string& session, const std::string& src, int fd) override;
  Result<> touch(const std::string& session) override;
  Result<> remove(const std::string& session) override;

 private:
  // Errors are worded as by the NoxRunner client.
  Result<client::Response> ask(const client::Request& request, const client::Upload* upload = nullptr,
                               const client::Download* download = nullptr);

  client::Client client_;
};

}  // namespace cove::cli::noxrc
