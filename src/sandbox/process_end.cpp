// How a process ends: stopped by us, exited by itself, not started, or gone with its sandbox.
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "guest/limit_message.hpp"
#include "sandbox/journal_outcome.hpp"
#include "sandbox/process.hpp"
#include "sandbox/process_table.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kGrace{2};  // for a tree to die before everything in the sandbox is killed
constexpr int kKilled = 128 + SIGKILL;     // as shells report it
constexpr int kTimedOut = 124;

}  // namespace

// The one place where the end is set.
void Process::finish(ProcessEnd end) {
  if (end_) return;
  deadline_.cancel();
  grace_.cancel();
  input_open_ = false;
  end_ = std::move(end);
  if (const auto entry = std::exchange(request_.entry, nullptr)) entry->end(outcome_of(*end_));
  push({.sequence = next_++, .kind = Event::Kind::end, .bytes = {}});
}

void Process::stop(Reason reason) {
  if (end_ || stop_reason_ || link() == nullptr) return;
  stop_reason_ = reason;
  link()->kill_tree(number_);
  flush();
  allow_grace();
}

// In a paused sandbox the tree has not begun to die.
void Process::allow_grace() {
  grace_.expires_after(kGrace);
  grace_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    const auto self = weak.lock();
    if (failed || !self || self->exited_ || self->end_ || self->link() == nullptr) return;
    if (self->table_->paused()) {
      self->allow_grace();
      return;
    }
    self->link()->kill_everything();
    self->flush();
  });
}

void Process::arm(milliseconds left) {
  deadline_.expires_after(left);
  deadline_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    const auto self = weak.lock();
    if (!failed && self && !self->end_) self->stop(Reason::timeout);
  });
}

void Process::limit_time(milliseconds left) {
  request_.timeout = left;
  arm(left);
}

void Process::release(milliseconds grace) {
  released_ = true;
  arm(grace);
}

// From what init, the control group and the clock say; nothing from the program.
async::Task<> Process::conclude(Inspect inspect) {
  const auto self = shared_from_this();
  if (!exited_ || end_) co_return;
  if (stored_end_) {
    finish(*stored_end_);
    co_return;
  }
  auto evidence = guest::evidence_of(exited_, stop_reason_);
  guest::RunFacts facts;
  if (table_ != nullptr) {
    facts.limits = table_->limits();
    facts.file_bytes = facts.limits.disk_bytes - std::min(facts.limits.disk_bytes, exited_->disk_free_bytes);
  }
  // In a throwaway nobody is told of more than a good end.
  const bool told = exited_->exit_code != 0 || stop_reason_ || (table_ != nullptr && table_->named());
  if (told && request_.kind != ProcessKind::internal) {
    const auto counted = co_await inspect();
    if (end_) co_return;
    if (counted) {
      evidence.oom_kills = counted->oom_kills - std::min(counted->oom_kills, counters_before_.oom_kills);
      evidence.pids_refused = counted->pids_refused - std::min(counted->pids_refused, counters_before_.pids_refused);
      facts.memory_peak_bytes = counted->memory_peak_bytes;
    }
  }
  ProcessEnd end{.reason = guest::judge(evidence), .signal = exited_->signal};
  end.oom_kills = evidence.oom_kills;
  end.pids_refused = evidence.pids_refused;
  end.note = request_.kind == ProcessKind::kernel ? guest::limit_cause(end.reason, evidence, facts)
                                                  : guest::limit_message(end.reason, evidence, facts);
  end.exit_status = end.reason == Reason::shutdown ? kKilled : guest::exit_status(end.reason, evidence);
  end.wall = age();
  end.cpu = milliseconds(exited_->cpu_usec / 1000);
  end.out_bytes = exited_->out_bytes;
  end.err_bytes = exited_->err_bytes;
  end.made = exited_->made;
  finish(std::move(end));
  if (table_ != nullptr) table_->record_end(*this);
  if (table_ != nullptr && released_) table_->forget(self);
}

void Process::fail_to_start(const wire::SpawnFailed& failure, const std::string& name) {
  ProcessEnd end{.reason = Reason::not_started, .exit_status = 126, .wall = age()};
  if (failure.stage == wire::SpawnStage::program && (failure.sys_errno == ENOENT || failure.sys_errno == ENOTDIR)) {
    end.exit_status = 127;
    end.note = fmt::format("Command not found: {}", name);
  } else if (failure.stage == wire::SpawnStage::fork && failure.sys_errno == EAGAIN) {
    end.reason = Reason::pids;
    const auto limit = table_ == nullptr ? 0 : table_->limits().pids;
    end.note = fmt::format("Cannot start {}: process limit {} reached; end a process first", name, limit);
  } else {
    end.note = fmt::format("Cannot execute {}: {}", name, std::strerror(failure.sys_errno));
  }
  next_ = 1;
  push({.sequence = next_++, .kind = Event::Kind::err, .bytes = end.note + "\n"});
  finish(std::move(end));
}

void Process::give_up_start(Reason reason) {
  finish({.reason = reason, .exit_status = reason == Reason::timeout ? kTimedOut : kKilled});
  if (link() != nullptr) link()->kill_tree(number_);
}

void Process::cancel(Reason reason) {
  finish(
      {.reason = reason, .exit_status = kKilled, .signal = reason == Reason::cancelled ? SIGKILL : 0, .wall = age()});
}

void Process::on_sandbox_gone() {
  detach();
  if (end_) return;
  const auto reason = stop_reason_.value_or(Reason::sandbox_gone);
  finish({.reason = reason,
          .exit_status = reason == Reason::timeout ? kTimedOut : kKilled,
          .signal = SIGKILL,
          .wall = age(),
          .note = "the sandbox ended"});
}

}  // namespace cove::sandbox
