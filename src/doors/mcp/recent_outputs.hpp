#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

namespace cove::doors::mcp {

// What executions wrote, kept for a while so that what did not fit into an answer can be read: execution://ID/stdout
// and execution://ID/stderr. As many bytes as one tenant may have, and as all may have together; the oldest goes first.
class RecentOutputs {
 public:
  struct Output {
    std::string id;
    std::string tenant;
    std::string out;  // as it came: any bytes
    std::string err;
    bool out_cut = false;  // the server was not allowed to keep more
    bool err_cut = false;
    std::chrono::steady_clock::time_point at;
  };
  struct Limits {
    std::size_t bytes = std::size_t{64} << 20;
    std::size_t tenant_bytes = std::size_t{16} << 20;
    std::size_t count = 4096;
    std::chrono::seconds age{3600};
  };

  RecentOutputs() = default;
  explicit RecentOutputs(Limits limits) : limits_(limits) {}

  // A name nobody can guess.
  static std::string new_id();
  void keep(Output output);
  // Null when there is none, or it is another tenant's.
  [[nodiscard]] std::shared_ptr<const Output> find(std::string_view tenant, std::string_view id);

 private:
  void make_room(std::string_view tenant);
  void drop(std::deque<std::shared_ptr<const Output>>::iterator which);

  Limits limits_;
  std::deque<std::shared_ptr<const Output>> outputs_;  // oldest first
  std::size_t bytes_ = 0;
};

// "execution://ID/stdout"
std::string execution_uri(std::string_view id, std::string_view stream);

}  // namespace cove::doors::mcp
