#include "doctor/probe.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "sys/mount.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"

namespace cove::doctor {
namespace {

constexpr std::uint64_t kNamespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

// What the parent does before the child goes on.
using Prepare = std::function<Result<>(pid_t)>;

Result<> run(std::uint64_t namespaces, const Prepare& prepare, const Probe& probe) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  const UniqueFd answer_out(ends[0]);
  UniqueFd answer_in(ends[1]);
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  UniqueFd gate_out(ends[0]);
  UniqueFd gate_in(ends[1]);

  const auto child = sys::clone_process({.namespaces = namespaces});
  if (child.pid < 0) return fail_errno(errno, "make the namespaces");
  if (child.pid == 0) {
    gate_in.reset();
    char byte = 0;
    if (::read(gate_out.get(), &byte, 1) != 1) ::_exit(125);
    const auto outcome = probe();
    [[maybe_unused]] const auto n = ::write(answer_in.get(), &outcome, sizeof outcome);
    ::_exit(0);
  }
  answer_in.reset();
  const auto prepared = prepare(child.pid);
  if (prepared) {
    [[maybe_unused]] const auto n = ::write(gate_in.get(), "g", 1);
  }
  gate_in.reset();
  Outcome outcome;
  const auto n = ::read(answer_out.get(), &outcome, sizeof outcome);
  while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  COVE_CHECK(prepared);
  if (n != static_cast<ssize_t>(sizeof outcome)) return fail(Errc::unavailable, "the probe was killed");
  if (outcome.step == nullptr) return {};
  if (outcome.sys_errno == 0) return fail(Errc::unsupported, outcome.step);
  return fail_errno(outcome.sys_errno, "{}", outcome.step);
}

}  // namespace

Result<> in_child(const Probe& probe) {
  return run(0, [](pid_t) { return Result<>(); }, probe);
}

Result<> in_namespaces(const host::Identity& identity, const Probe& probe) {
  const auto prepare = [&](pid_t pid) { return host::write_maps(identity, pid); };
  const auto as_root = [&] {
    if (!sys::set_ids(0, 0)) return failed("take an id of the new namespace");
    if (!sys::make_private()) return failed("make the mounts private");
    return probe();
  };
  return run(kNamespaces, prepare, as_root);
}

}  // namespace cove::doctor
