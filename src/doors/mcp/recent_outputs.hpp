#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/tenant_usage.hpp"

namespace cove::doors::mcp {

// Keeps the output of executions for a while, so that what did not fit into an answer can be read:
// execution://ID/stdout and execution://ID/stderr. A tenant over its bound loses its oldest outputs; over the bound for
// all tenants, the tenant that holds the most loses its oldest.
class RecentOutputs {
 public:
  struct Output {
    std::string id;
    std::string tenant;
    std::string out;  // as it came: any bytes
    std::string err;
    bool out_cut = false;  // there was more than the output limit
    bool err_cut = false;
    std::chrono::steady_clock::time_point at;
  };

  explicit RecentOutputs(std::chrono::seconds age = std::chrono::hours(1)) : age_(age) {}

  // A random id that cannot be guessed.
  static std::string new_id();
  void keep(Output output, const UsageBounds& bounds);
  // Null when there is none, or it is another tenant's.
  [[nodiscard]] std::shared_ptr<const Output> find(std::string_view tenant, std::string_view id);

  [[nodiscard]] const Amount& held() const { return usage_.all(); }
  // How many were dropped because of a bound.
  [[nodiscard]] const std::uint64_t& evicted() const { return evicted_; }

 private:
  using Outputs = std::deque<std::shared_ptr<const Output>>;
  void drop_old();
  void drop(Outputs::iterator which);

  std::chrono::seconds age_;
  Outputs outputs_;  // oldest first
  TenantUsage usage_;
  std::uint64_t evicted_ = 0;
};

// "execution://ID/stdout"
std::string execution_uri(std::string_view id, std::string_view stream);

}  // namespace cove::doors::mcp
