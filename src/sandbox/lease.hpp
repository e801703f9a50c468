#pragma once

#include <memory>
#include <utility>

#include "sandbox/registry.hpp"

namespace cove::sandbox {

// A sandbox for one piece of work. Its end is seen to when this goes, unless it was given away.
class Lease {
 public:
  Lease(Registry& registry, std::shared_ptr<Sandbox> sandbox)
      : registry_(&registry), sandbox_(std::move(sandbox)), activity_(sandbox_) {}
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&&) = delete;
  ~Lease();

  [[nodiscard]] const std::shared_ptr<Sandbox>& sandbox() const { return sandbox_; }
  std::shared_ptr<Sandbox> give_away() { return std::move(sandbox_); }

 private:
  Registry* registry_;
  std::shared_ptr<Sandbox> sandbox_;
  Sandbox::Activity activity_;
};

}  // namespace cove::sandbox
