#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sandbox/file_facts.hpp"
#include "wire/file_commands.hpp"

// How the file helper is asked, and what its answers mean. Only files.cpp, file_streams.cpp and file_helper.cpp include
// this. An answer that is not as it should be is Errc::io.
namespace cove::sandbox::file_protocol {

using Command = std::vector<std::string>;
Command command(wire::FileVerb verb, std::string path);
void add(Command& command, std::string_view argument);
void add(Command& command, std::string_view option, std::uint64_t value);

// Before a path in the streams that `stage` and `snapshot` read: "WORD LENGTH\nPATH".
std::string path_head(std::string_view word, std::string_view path);
inline constexpr std::string_view kEndOfStream = "end\n";

tl::unexpected<Error> broken();
Result<FileFacts> decode_facts(const std::string& line);
Result<FileEntry> decode_entry(const std::string& answer);
Result<Listing> decode_listing(std::string answer);
Result<UploadedFiles> decode_uploaded(const std::string& answer);
Result<std::vector<std::string>> decode_marks(const std::string& answer);
Result<ChangedFiles> decode_changes(const std::string& answer, std::size_t most);
// None for a line that is not understood.
std::optional<FileChange> decode_change(const std::string& line);
// The path of a line of `snapshot`.
Result<std::string> decode_path(const std::string& line);
Result<std::uint64_t> decode_number(std::string_view text);
// The helper's own error; none when there is no such line. Errc::denied with EXDEV: the path leads out of --within.
std::optional<Error> decode_error(const std::string& line);

}  // namespace cove::sandbox::file_protocol
