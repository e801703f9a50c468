#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "egress/policy.hpp"

namespace cove::egress {

enum class AuditKind : std::uint8_t { dns, connect, proxy, http };

// What was decided about.
struct AuditSubject {
  AuditKind kind{};
  std::string name;                                   // "": an address was dialled as such
  std::optional<boost::asio::ip::address> address{};  // none: nothing was resolved
  std::uint16_t port = 0;                             // 0: a lookup
};
struct AuditEnd {
  std::uint64_t bytes_in = 0;   // to the sandbox
  std::uint64_t bytes_out = 0;  // from it
  std::chrono::milliseconds duration{};
  std::string error;  // why it ended early, if it did
};

// The records of one sandbox until the front takes them. Bounded: what does not fit is counted, and the count is told.
class AuditLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxWaiting = 512;
  static constexpr std::chrono::seconds kSameLookup{10};

  explicit AuditLog(std::function<void()> on_record) : on_record_(std::move(on_record)) {}

  void decided(const AuditSubject& subject, const Decision& decision);
  void closed(const AuditSubject& subject, const Decision& decision, const AuditEnd& end);
  // The same name with the same verdict is one record for a while; the next says how often it was repeated.
  void looked_up(const std::string& name, const Decision& decision, Clock::time_point now);

  // The next record as JSON; {"lost":N} where some are missing.
  std::optional<std::string> take();
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  struct Lookup {
    Clock::time_point told;
    Verdict verdict{};
    std::uint64_t repeated = 0;
  };
  void add(boost::json::object record);

  std::function<void()> on_record_;
  std::deque<std::string> waiting_;
  std::map<std::string, Lookup> lookups_;
  std::uint64_t lost_ = 0;
  std::uint64_t untold_ = 0;
};

}  // namespace cove::egress
