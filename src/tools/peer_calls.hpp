#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "async/task_group.hpp"
#include "sandbox/kernel_message.hpp"
#include "tools/broker.hpp"

namespace cove::tools {

// Code in a sandbox that makes calls over a channel: a kernel, or the line of the sandbox's other processes.
class Peer {
 public:
  virtual ~Peer() = default;
  [[nodiscard]] virtual const std::shared_ptr<sandbox::Sandbox>& sandbox() const = 0;
  [[nodiscard]] virtual std::string kernel() const { return {}; }
  virtual Result<> tell(std::string_view message) = 0;
  // Bytes that were told and that it has not taken.
  [[nodiscard]] virtual std::size_t untaken_bytes() const = 0;
  [[nodiscard]] virtual bool gone() const = 0;
  // Its time stands still while a person is asked.
  virtual void hold_clock(std::uint64_t) {}
  virtual void release_clock(std::uint64_t) {}
};

// The calls of all peers that are under way: each is a task of its own; the answer goes back over the channel.
class PeerCalls {
 public:
  static constexpr std::size_t kMaxCalls = 1024;       // of one peer
  static constexpr std::size_t kMaxBytes = 64U << 20;  // of their arguments

  PeerCalls(async::TaskGroup& tasks, Broker& broker) : tasks_(tasks), broker_(broker) {}
  PeerCalls(const PeerCalls&) = delete;
  PeerCalls& operator=(const PeerCalls&) = delete;

  // `key` tells peers apart for as long as they live.
  void begin(const void* key, std::shared_ptr<Peer> peer, std::int64_t number, sandbox::KernelMessage message);
  // Nobody waits for this call any more; for those of this parent; for any.
  void cancel(const void* key, std::int64_t number);
  void cancel_parent(const void* key, std::uint64_t parent);
  void cancel_all(const void* key);

 private:
  struct Going {
    std::uint64_t parent = 0;
    std::size_t bytes = 0;
    bool abandoned = false;
  };
  struct Calls {
    std::map<std::int64_t, std::shared_ptr<Going>> going;
    std::size_t bytes = 0;
    std::size_t held = 0;  // of answers that the peer is not ready for
  };

  async::Task<> run(const void* key, std::shared_ptr<Peer> peer, std::int64_t number, std::shared_ptr<Going> going,
                    boost::json::object content);
  [[nodiscard]] std::size_t held_for(const void* key) const;
  void tell(Peer& peer, std::string_view message);
  void refuse(Peer& peer, std::uint64_t parent, std::int64_t number, std::string why);

  async::TaskGroup& tasks_;
  Broker& broker_;
  std::map<const void*, Calls> calls_;
};

// What code in a sandbox asked for, as a call. Errc::invalid names the field.
Result<Call> parse_call(boost::json::object& content);

}  // namespace cove::tools
