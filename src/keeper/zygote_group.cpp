#include "keeper/zygote_group.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

#include "sys/process.hpp"
#include "sys/record.hpp"

namespace cove::keeper {
namespace {

using std::chrono::milliseconds;
constexpr std::chrono::seconds kBirthTimeout{2};     // longer than this, and the zygote is stuck
constexpr std::chrono::seconds kWarmingTimeout{60};  // to load its modules
constexpr std::string_view kLightModule = "numpy";   // which programs run/light.cpp calls light may import
constexpr milliseconds kMinBackOff{50};
constexpr milliseconds kMaxBackOff{10'000};

}  // namespace

void ZygoteGroup::open(jail::Plan plan) {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (options_.births == 0 || !epoll_) return;
  plan_.emplace(std::move(plan));
  start_zygote();
}

void ZygoteGroup::close() {
  plan_.reset();
  births_.clear();
  retire(serving_, Retirement::kill);
  retire(warming_, Retirement::kill);
  for (const auto& retired : retired_) {
    sys::kill_process(retired.process.pidfd.get());
    siginfo_t info{};
    ::waitid(P_PIDFD, static_cast<id_t>(retired.process.pidfd.get()), &info, WEXITED);
  }
  retired_.clear();
}

void ZygoteGroup::watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void ZygoteGroup::start_zygote() {
  std::vector<std::string> words{"/usr/bin/python3", "-I", "-B", zygote::kProgram};
  const bool light = weight_ == Weight::light;
  if (light) words.emplace_back("--light");
  for (const auto& module : options_.modules) {
    if (!light || module == kLightModule) words.push_back(module);
  }
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  auto started = zygote::start(*plan_, argv.data());
  back_off_ = std::clamp(back_off_ * 2, kMinBackOff, kMaxBackOff);
  next_start_ = Clock::now() + back_off_;
  if (!started) return;  // tried again later; until then everything starts cold
  warming_.emplace(Zygote{.process = std::move(*started), .number = next_number_++, .since = Clock::now()});
  watch(warming_->process.socket.get());
}

// It ends when its socket does.
void ZygoteGroup::retire(std::optional<Zygote>& zygote, Retirement how) {
  if (!zygote) return;
  if (how == Retirement::kill) sys::kill_process(zygote->process.pidfd.get());
  zygote->process.socket.reset();
  retired_.push_back({.process = std::move(zygote->process), .until = Clock::now() + kBirthTimeout});
  zygote.reset();
}

ZygoteGroup::Clock::time_point ZygoteGroup::worn_out_at(const Zygote& zygote) const {
  const auto life = zygote.births >= options_.births ? std::min(options_.interval, options_.age) : options_.age;
  return zygote.since + life;
}

Result<> ZygoteGroup::request_birth(Request request) {
  if (!serving_) return fail(Errc::unavailable, "no zygote is warm");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno(errno, "pipe");
  PendingBirth birth{.serial = request.serial,
                     .report = UniqueFd(ends[0]),
                     .until = Clock::now() + kBirthTimeout,
                     .zygote = serving_->number,
                     .order = serving_->births + 1};
  const UniqueFd report(ends[1]);
  zygote::BirthRequest record{.locks = request.locks};
  std::vector<int> fds{request.init_pidfd, report.get()};
  for (const auto& fd : request.streams) fds.push_back(fd.get());
  std::vector<UniqueFd> joins;
  if (request.cgroup != nullptr) {
    if (request.cgroup->unified_fd() >= 0) {
      record.has_unified = 1;
      fds.push_back(request.cgroup->unified_fd());
    }
    COVE_TRY(joins, request.cgroup->open_join_fds());
    for (const auto& fd : joins) fds.push_back(fd.get());
    record.alone = request.cgroup->processes() == 1 ? 1 : 0;
  }
  // Never waits: a zygote with a full socket is a stuck one.
  if (sys::send_record(serving_->process.socket.get(), std::as_bytes(std::span(&record, 1)), fds) < 0)
    return fail(Errc::unavailable, "the zygote is busy");
  if (serving_->done == serving_->births) serving_->busy_since = birth.until - kBirthTimeout;
  ++serving_->births;
  watch(birth.report.get());
  births_.push_back(std::move(birth));
  return {};
}

void ZygoteGroup::read_messages(Zygote& zygote) {
  zygote::Ready ready;
  while (::recv(zygote.process.socket.get(), &ready, sizeof ready, MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof ready)) {
    zygote.ready = true;
    zygote.done = std::min(ready.births, zygote.births);
    zygote.busy_since = Clock::now();
  }
}

bool ZygoteGroup::stuck() const {
  return serving_ && serving_->done < serving_->births && Clock::now() >= serving_->busy_since + kBirthTimeout;
}

std::vector<ZygoteGroup::BirthResult> ZygoteGroup::collect_births() {
  std::array<epoll_event, 16> events;
  [[maybe_unused]] const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  std::vector<BirthResult> done;
  if (serving_) read_messages(*serving_);
  if (warming_) read_messages(*warming_);
  const auto now = Clock::now();
  const bool is_stuck = stuck();
  for (auto birth = births_.begin(); birth != births_.end();) {
    zygote::Born born;
    const auto n = ::read(birth->report.get(), &born, sizeof born);
    const bool waiting = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (waiting && now < birth->until) {
      ++birth;
      continue;
    }
    // Held up in its sandbox, by whatever runs there; or the one that keeps the zygote from the others. Those behind
    // are late by no fault of their own.
    const bool current = serving_ && birth->zygote == serving_->number;
    const bool slow = waiting && (!current || birth->order <= serving_->done + (is_stuck ? 1 : 0));
    if (n == static_cast<ssize_t>(sizeof born))
      done.push_back({.serial = birth->serial, .born = born});
    else
      done.push_back({.serial = birth->serial,
                      .born = fail(Errc::unavailable, waiting ? "the newborn does not answer" : "the newborn died"),
                      .slow = slow});
    birth = births_.erase(birth);
  }
  if (is_stuck) retire(serving_, Retirement::kill);

  const auto ended = [](const Zygote& zygote) {
    siginfo_t info{};
    return ::waitid(P_PIDFD, static_cast<id_t>(zygote.process.pidfd.get()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  };
  if (serving_ && ended(*serving_)) retire(serving_, Retirement::kill);
  if (warming_ && (ended(*warming_) || (!warming_->ready && now - warming_->since > kWarmingTimeout)))
    retire(warming_, Retirement::kill);
  if (warming_ && warming_->ready) {
    retire(serving_, Retirement::drain);
    serving_ = std::exchange(warming_, std::nullopt);
    back_off_ = {};
  }
  std::erase_if(retired_, [&](const Retired& retired) {
    if (now >= retired.until) sys::kill_process(retired.process.pidfd.get());
    siginfo_t info{};
    return ::waitid(P_PIDFD, static_cast<id_t>(retired.process.pidfd.get()), &info, WEXITED | WNOHANG) == 0 &&
           info.si_pid != 0;
  });
  if (plan_ && !warming_ && (!serving_ || now >= worn_out_at(*serving_)) && now >= next_start_) start_zygote();
  return done;
}

int ZygoteGroup::wait_millis() const {
  if (!plan_) return retired_.empty() ? -1 : 10;
  auto next = Clock::time_point::max();
  for (const auto& birth : births_) next = std::min(next, birth.until);
  if (serving_ && serving_->done < serving_->births) next = std::min(next, serving_->busy_since + kBirthTimeout);
  if (warming_) next = std::min(next, warming_->since + kWarmingTimeout);
  if (serving_ && !warming_) next = std::min(next, std::max(worn_out_at(*serving_), next_start_));
  if (!serving_ && !warming_) next = std::min(next, next_start_);
  if (!retired_.empty()) next = std::min(next, Clock::now() + milliseconds(10));
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace cove::keeper
