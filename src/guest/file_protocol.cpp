#include "guest/file_protocol.hpp"

#include <boost/json.hpp>
#include <cerrno>

namespace cove::guest::file_protocol {
namespace {

Errc code_of(std::string_view word) {
  if (word == wire::kFileInvalid) return Errc::invalid;
  if (word == wire::kFileNotFound) return Errc::not_found;
  if (word == wire::kFileDenied || word == wire::kFileOutside) return Errc::denied;
  if (word == wire::kFileExists) return Errc::exists;
  if (word == wire::kFileTooLarge || word == wire::kFileDiskFull) return Errc::over_limit;
  return Errc::io;
}

}  // namespace

Command command(wire::FileVerb verb, std::string path) {
  return {std::string(name_of(verb)), std::move(path)};
}

void add(Command& command, std::string_view argument) {
  command.emplace_back(argument);
}

void add(Command& command, std::string_view option, std::uint64_t value) {
  command.emplace_back(option);
  command.push_back(std::to_string(value));
}

void add_mode(Command& command, std::uint32_t mode) {
  command.push_back(fmt::format("{:o}", mode));
}

tl::unexpected<Error> broken() {
  return fail(Errc::io, "the sandbox's file helper broke the protocol");
}

std::optional<Error> decode_error(const std::string& line) {
  boost::system::error_code failed;
  const auto value = boost::json::parse(line, failed);
  const auto* object = failed ? nullptr : value.if_object();
  const auto* code = object != nullptr ? object->if_contains("code") : nullptr;
  const auto* sentence = object != nullptr ? object->if_contains("error") : nullptr;
  if (code == nullptr || !code->is_string() || sentence == nullptr || !sentence->is_string()) return std::nullopt;
  Error error{.code = code_of(code->as_string()), .message = std::string(sentence->as_string())};
  if (code->as_string() == wire::kFileOutside) error.sys_errno = EXDEV;
  return error;
}

}  // namespace cove::guest::file_protocol
