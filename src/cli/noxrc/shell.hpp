#pragma once

#include <string>

#include "cli/noxrc/options.hpp"
#include "cli/noxrc/voice.hpp"

namespace cove::cli::noxrc {

// Without blanks at either end.
std::string trimmed(const std::string& text);

// `noxrc shell`: each line of standard input runs as a separate command in the session. Ends with the input, or when
// `interrupt_fd` is readable.
class Shell {
 public:
  Shell(const Invocation& invocation, Backend& backend, int interrupt_fd, const Voice& voice)
      : line_(invocation), backend_(backend), interrupt_fd_(interrupt_fd), voice_(voice) {}

  Result<int> run();

 private:
  Result<> one_line(const std::string& text);
  Result<> change_directory(const std::string& target);

  const Invocation& line_;
  Backend& backend_;
  int interrupt_fd_;
  const Voice& voice_;
  std::string directory_;
};

}  // namespace cove::cli::noxrc
