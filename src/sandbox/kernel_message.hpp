#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "guest/channel.hpp"

namespace cove::sandbox {

// One message of an interpreter (runtime/python/README.md), well-formed; what it says is written by code nobody has
// read.
struct KernelMessage {
  std::string type;                     // ready, failed, stream, display_data, execute_reply, …
  std::optional<std::uint64_t> parent;  // the execution it belongs to
  boost::json::object content;
  std::string text;       // of `failed`: why; of `ready`: the interpreter's version
  std::size_t bytes = 0;  // about what it takes of our memory
};

// Puts the records of a kernel's channel together and parses them, within limits of size, depth and elements.
class KernelInbox {
 public:
  KernelInbox();
  // A message when this record was its last. Errc::over_limit for something shown that is too large, and is dropped.
  // Errc::invalid when the interpreter does not keep to the protocol.
  Result<std::optional<KernelMessage>> add(std::string_view record);
  // The beginning of what was too large, and the size it went over.
  [[nodiscard]] std::string_view head() const { return reader_.head(); }
  static constexpr std::size_t kMaxMessage = 17U << 20;  // a little more than is kept of what is shown

 private:
  guest::MessageReader reader_;
};

// The type of execution event that a message of this type becomes; "" for none. MIME bundles are reduced to entries
// that readers can use.
std::string_view event_of(std::string_view type);
void check_bundle(boost::json::object& content);
// Whether it ends the execution it belongs to.
bool is_reply(std::string_view type);

// "" when there is no such text.
std::string text_of(const boost::json::object& object, std::string_view name);

}  // namespace cove::sandbox
