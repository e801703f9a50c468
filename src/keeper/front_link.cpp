#include "keeper/front_link.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <span>

#include "keeper/adoption.hpp"
#include "sys/record.hpp"

namespace cove::keeper {

void set_usage(wire::KeeperReply& reply, const sys::CgroupUsage& usage) {
  reply.cpu_usec = usage.cpu_usec;
  reply.memory_peak_bytes = usage.memory_peak_bytes;
  reply.oom_kills = usage.oom_kills;
  reply.pids_refused = usage.pids_refused;
}

std::optional<FrontLink::Request> FrontLink::receive() {
  while (!gone_) {
    Request request;
    const auto n =
        sys::receive_record(socket_.get(), std::as_writable_bytes(std::span(&request.record, 1)), request.fds);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    gone_ = n <= 0;
    if (static_cast<std::size_t>(n) == sizeof request.record) return request;
  }
  return std::nullopt;
}

void FrontLink::send(wire::KeeperReply reply, const Sandbox* sandbox) {
  if (sandbox != nullptr) {
    reply.id = sandbox->id;
    reply.host_uid = static_cast<std::int32_t>(sandbox->uid);
    reply.init_pid = sandbox->process.pid;
    if (sandbox->cgroup) reply.group = to_group_name(sandbox->cgroup->name());
    // A sandbox just made has used nothing worth reading.
    if (sandbox->cgroup && reply.word != wire::KeeperWord::created) {
      set_usage(reply, sandbox->cgroup->usage());
      const auto contents = sandbox->cgroup->contents();
      reply.memory_bytes = contents.memory_bytes;
      reply.processes = contents.processes;
    }
  }
  if (!gone_ && ::send(socket_.get(), &reply, sizeof reply, MSG_NOSIGNAL) < 0) gone_ = true;
}

void FrontLink::refuse(const wire::KeeperRequest& request, const Error& error) {
  wire::KeeperReply reply{.word = wire::KeeperWord::failed, .serial = request.serial, .id = request.id};
  wire::set_error(reply, error);
  send(reply);
}

}  // namespace cove::keeper
