#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace cove {

// How many of something there are, and how many bytes they take together.
struct Amount {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  bool operator==(const Amount&) const = default;
};
inline constexpr Amount kUnbounded{.count = std::numeric_limits<std::uint64_t>::max(),
                                   .bytes = std::numeric_limits<std::uint64_t>::max()};

// The most of one resource that a tenant, and that all tenants together, may hold.
struct UsageBounds {
  Amount tenant = kUnbounded;
  Amount all = kUnbounded;
  bool operator==(const UsageBounds&) const = default;
};

// Which bound a request would exceed.
enum class Bound { none, tenant_count, tenant_bytes, all_count, all_bytes };

// How much of one resource every tenant holds. Whoever charges it releases the same amount later.
class TenantUsage {
 public:
  void charge(std::string_view tenant, Amount amount);
  void release(std::string_view tenant, Amount amount);

  [[nodiscard]] Amount of(std::string_view tenant) const;
  [[nodiscard]] const Amount& all() const { return all_; }
  // The first bound that would be passed if the tenant held this much more. Amount{}: what is passed already.
  [[nodiscard]] Bound passed(std::string_view tenant, Amount more, const UsageBounds& bounds) const;
  // The tenant that holds the most of what this bound counts, to evict from. Empty when nobody holds anything.
  [[nodiscard]] std::string largest_holder(Bound bound) const;

 private:
  using Tenants = std::map<std::string, Amount, std::less<>>;
  using Order = std::set<std::pair<std::uint64_t, std::string_view>>;  // names are those of tenants_
  void set(Tenants::iterator tenant, Amount amount);

  Tenants tenants_;
  Order by_count_;
  Order by_bytes_;
  Amount all_;
};

}  // namespace cove
