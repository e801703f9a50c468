#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guest/channel.hpp"
#include "outbound/client.hpp"
#include "packages/index_page.hpp"
#include "packages/install_request.hpp"
#include "sandbox/reader.hpp"

namespace cove::packages {

// Serves one pip, which runs in a sandbox without a network: pip asks over the channel of its process for pages of the
// index and for wheels that those pages link to, and gets nothing else. Everything pip says is untrusted.
class PipSession : private outbound::Receiver {
 public:
  // `client` and `request` are borrowed for the session's life.
  PipSession(outbound::Client& client, const InstallRequest& request, std::string tenant,
             std::shared_ptr<sandbox::Process> process);

  // Answers until the process has ended.
  async::Task<> run();

  std::optional<boost::json::object> done;  // pip's last message, if it sent one
  std::string output;                       // the end of what pip printed
  std::string refusal;                      // why pip was last refused something

 private:
  using Clock = std::chrono::steady_clock;
  // The next message; nullopt at the end of the process.
  async::Task<std::optional<boost::json::object>> next();
  void receive(const sandbox::Event& event);
  // False: the process has ended.
  bool send(const boost::json::object& message);
  void refuse(unsigned status, std::string reason);
  async::Task<> answer(std::string path);
  async::Task<> answer_page(std::string project);
  async::Task<> answer_file(std::string path);
  [[nodiscard]] outbound::Request request_for(outbound::Url url) const;
  // As Receiver: a wheel that is being downloaded. Each piece is sent when pip asks for it, so that none queue here.
  async::Task<Result<>> begin(outbound::Head head) override;
  async::Task<Result<>> take(std::string bytes) override;
  // Stops the download.
  Result<> pip_is_gone();
  // False: pip wants no more, and was told that this is the end.
  async::Task<bool> wants_more();
  [[nodiscard]] std::uint64_t download_bytes_left() const;

  outbound::Client& client_;
  const InstallRequest& request_;
  std::string tenant_;
  std::shared_ptr<sandbox::Process> process_;
  sandbox::Reader reader_;
  guest::MessageReader messages_;
  Clock::time_point deadline_;
  std::deque<boost::json::object> queue_;
  std::vector<IndexLink> links_;
  std::size_t requests_ = 0;
  std::uint64_t downloaded_ = 0;
  bool begun_ = false;
  bool stopped_ = false;
};

}  // namespace cove::packages
