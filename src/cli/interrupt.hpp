#pragma once

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <initializer_list>

#include "base/unique_fd.hpp"

namespace cove::cli {

// These signals, without SIGINT and SIGHUP where whoever started us ignores them: `nohup cove run …` outlives its
// terminal, and a background job of a script is not cancelled by a Ctrl-C that was meant for another program. Blocked,
// they would be heard though they are ignored.
inline sigset_t heeded_signals(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : signals) {
    struct sigaction inherited{};
    const bool ignored = ::sigaction(number, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN;
    if (!ignored || (number != SIGINT && number != SIGHUP)) ::sigaddset(&set, number);
  }
  return set;
}

// Takes signals as something to read instead of something that strikes, for as long as it lives. Before any thread is
// made. SIGPIPE is ignored from then on: a reader that left is an error like any other.
class Interrupt {
 public:
  explicit Interrupt(std::initializer_list<int> signals = {SIGINT, SIGTERM, SIGHUP}) {
    const auto set = heeded_signals(signals);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    ::signal(SIGPIPE, SIG_IGN);
    fd_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~Interrupt() {
    while (take() != 0) {
    }  // what has been heard must not strike now
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  // The next signal that came, or 0.
  int take() {
    signalfd_siginfo info;
    return ::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo)
                                                                                      : 0;
  }

 private:
  sigset_t before_{};
  UniqueFd fd_;
};

// Puts the caller's terminal into raw mode for as long as it lives.
class RawTerminal {
 public:
  RawTerminal() {
    if (::tcgetattr(STDIN_FILENO, &saved_) != 0) return;
    auto raw = saved_;
    ::cfmakeraw(&raw);
    active_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  ~RawTerminal() {
    if (active_) ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios saved_{};
  bool active_ = false;
};

}  // namespace cove::cli
