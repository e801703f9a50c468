#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "doors/mcp/run.hpp"
#include "mcp/peer.hpp"

namespace cove::doors::mcp {

// Puts output together as lines, and tells of it while it comes, ten times a second at the most. Keeps no more than an
// answer can hold.
class Telling {
 public:
  // Both are borrowed. `most`: bytes that are kept of each stream. `tool`: whose output it is, in the log.
  Telling(cove::mcp::Call& call, Ran& ran, std::size_t most, std::string_view tool = "execute_code")
      : call_(call), ran_(ran), most_(most), tool_(tool) {}

  void add(Line::Stream stream, std::string_view text);
  void tell();
  // A last line may have no end.
  void finish();

 private:
  void add_line(Line::Stream stream, std::string_view text);
  void log(Line::Stream stream, std::string_view text);

  cove::mcp::Call& call_;
  Ran& ran_;
  std::size_t most_;
  std::string_view tool_;
  std::size_t room_ = kMostLineBytes;
  std::string news_;
  std::string out_part_;
  std::string err_part_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace cove::doors::mcp
