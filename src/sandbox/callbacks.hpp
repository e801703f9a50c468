#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "async/signal.hpp"
#include "async/task_group.hpp"
#include "outbound/client.hpp"
#include "store/store.hpp"

namespace cove::sandbox {

// Tells others by HTTP what they asked to be told. Written down before it is tried, tried again after a while, and
// after a restart; over when it was taken (2xx), or was tried often enough. Never follows a redirect.
class Callbacks {
 public:
  struct Options {
    outbound::Reach reach;
    std::uint32_t attempts = 6;
    std::chrono::milliseconds backoff{2000};
    std::chrono::milliseconds timeout{10'000};
    std::uint64_t max_size_bytes = 1 << 20;
  };
  using Log = std::function<void(std::string_view line)>;

  Callbacks(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store,
            outbound::Client& client, std::function<Options()> options, Log log);

  // Errc::invalid for what is no address, and for one that is refused by its own spelling.
  [[nodiscard]] Result<> check(std::string_view url) const;
  // `body` without its large members, if it is larger than is sent.
  void add(const store::ExecutionRow& about, boost::json::object body);
  // Until cancelled.
  async::Task<> deliver();

 private:
  async::Task<> attempt(store::CallbackRow row);
  [[nodiscard]] bool has_room(const std::string& tenant) const;
  void judge(store::CallbackRow& row, const Result<outbound::Response>& answer) const;

  async::TaskGroup& tasks_;
  store::Store& store_;
  outbound::Client& client_;
  std::function<Options()> options_;
  Log log_;
  async::Signal changed_;
  std::map<std::string, std::string> under_way_;  // id to tenant
};

}  // namespace cove::sandbox
