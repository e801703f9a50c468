#include "cli/fixtures_program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/io.hpp"

namespace cove::cli {

Result<> use_fixtures_program(const config::Config& config) {
  if (!config.mcp.fixtures) return {};
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return fail_errno(failed.value(), "find this program");
  const auto program = self.parent_path() / "cove-mcp-fixtures";
  if (self == program) return {};
  COVE_TRY(auto line, read_file_at(AT_FDCWD, "/proc/self/cmdline"));  // each argument with a zero behind it
  if (!line.ends_with('\0')) line.push_back('\0');
  std::vector<char*> words;
  for (std::size_t at = 0; at < line.size(); at = line.find('\0', at) + 1) words.push_back(line.data() + at);
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  if (errno != ENOENT) return fail_errno(errno, "{}", program.string());
  return fail(
      Errc::not_found,
      fmt::format("mcp.fixtures: {} is missing (scripts/build release cove-mcp-fixtures builds it)", program.string()));
}

}  // namespace cove::cli
