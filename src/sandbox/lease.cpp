#include "sandbox/lease.hpp"

namespace cove::sandbox {

Lease::~Lease() {
  if (sandbox_) registry_->tasks().spawn("end a sandbox of one piece of work", registry_->remove(sandbox_, "done"));
}

}  // namespace cove::sandbox
