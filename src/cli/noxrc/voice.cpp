#include "cli/noxrc/voice.hpp"

namespace cove::cli::noxrc {

Result<int> report_failure(const Voice& voice, std::string_view what, const Error& error) {
  if (client::interrupted(error)) return tl::unexpected<Error>(error);
  voice.bad(fmt::format("{}: {}", what, error.message));
  return 1;
}

Result<int> report(const Voice& voice, const Result<>& done, std::string_view good, std::string_view bad) {
  if (!done) return report_failure(voice, bad, done.error());
  voice.good(good);
  return 0;
}

Result<> print(const ExecResult& result) {
  COVE_CHECK(write_all(STDOUT_FILENO, result.out));
  return write_all(STDERR_FILENO, result.err);
}

}  // namespace cove::cli::noxrc
