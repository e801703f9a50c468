#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "doors/jupyter/hub.hpp"

namespace cove::doors::jupyter {

// A kernel of some sandbox, under the id that Jupyter's clients know it by.
struct NamedKernel {
  std::string id;
  std::shared_ptr<sandbox::Sandbox> sandbox;
  std::shared_ptr<sandbox::Kernel> kernel;
};

// Five groups of hex digits.
bool is_uuid(std::string_view text);
std::string random_uuid();

// The kernels of all sandboxes as Jupyter's clients see them, and their hubs. A kernel's id follows from its sandbox
// and its own id there, so kernels that other APIs started have one as well, and it is the same after a restart.
class Directory {
 public:
  explicit Directory(sandbox::Core& core);

  // Of the tenant, in one sandbox or in all.
  [[nodiscard]] std::vector<NamedKernel> all(const std::string& tenant, const sandbox::Sandbox* in) const;
  // Errc::not_found.
  [[nodiscard]] Result<NamedKernel> find(const std::string& tenant, const sandbox::Sandbox* in,
                                         std::string_view id) const;
  // Made when it is first needed.
  std::shared_ptr<Hub> hub(const NamedKernel& named);
  // Null when nobody needed one.
  [[nodiscard]] std::shared_ptr<Hub> known_hub(const sandbox::Kernel& kernel) const;
  // Ends the kernel, and the sandbox that was made for it.
  Task<> remove(NamedKernel named, journal::Actor actor = {});
  // The sandbox was made for a kernel of this API.
  static bool made_here(const sandbox::Sandbox& sandbox);
  static constexpr std::string_view kLabels = R"({"door": "jupyter"})";

  // Ends kernels that have been idle for too long, and forgets hubs of kernels that are gone, until cancelled.
  Task<> tidy();

 private:
  Task<> cull();
  static Task<> remove_later(Directory& self, NamedKernel named);

  sandbox::Core& core_;
  Budget replay_;
  std::map<const sandbox::Kernel*, std::shared_ptr<Hub>> hubs_;  // each keeps its kernel
};

}  // namespace cove::doors::jupyter
