#include "server/builders.hpp"

#include <unistd.h>

#include <cerrno>

#include "builder/builder.hpp"
#include "sys/process.hpp"

namespace cove::server {
namespace {

constexpr std::size_t kMaxBuilders = 8;

}  // namespace

Result<> Builders::start(const wire::SupervisorRequest& request, const std::string& state_dir,
                         std::vector<UniqueFd> fds) {
  if (fds.empty() || fds.size() > 2 || running_.size() >= kMaxBuilders) return {};
  const auto clone = sys::clone_process({});
  if (clone.pid < 0) return fail_errno(errno, "start a builder");
  if (clone.pid == 0) {
    ::_exit(builder::work({.request = request,
                           .state_dir = state_dir,
                           .answer = std::move(fds[0]),
                           .log = fds.size() == 2 ? std::move(fds[1]) : UniqueFd()}));
  }
  running_.insert(clone.pid);
  return {};
}

}  // namespace cove::server
