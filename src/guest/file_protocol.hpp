#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "wire/file_commands.hpp"

// How the file helper of a sandbox is asked, and what its errors mean, for the server and for `cove run` alike.
namespace cove::guest::file_protocol {

// Its arguments, without the program.
using Command = std::vector<std::string>;
Command command(wire::FileVerb verb, std::string path);
void add(Command& command, std::string_view argument);
void add(Command& command, std::string_view option, std::uint64_t value);
// An octal argument, as `write` takes it.
void add_mode(Command& command, std::uint32_t mode);

// Errc::io, for an answer that is not as it should be.
tl::unexpected<Error> broken();
// The helper's own error; none when there is no such line. Errc::denied with EXDEV: the path leads out of --within.
std::optional<Error> decode_error(const std::string& line);

}  // namespace cove::guest::file_protocol
