#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "guest/file_protocol.hpp"
#include "sandbox/file_facts.hpp"

// How the file helper is asked, and what its answers mean. Only files.cpp, file_streams.cpp and file_helper.cpp include
// this. An answer that is not as it should be is Errc::io.
namespace cove::sandbox::file_protocol {

using guest::file_protocol::add;
using guest::file_protocol::broken;
using guest::file_protocol::Command;
using guest::file_protocol::command;
using guest::file_protocol::decode_error;

// Before a path in the streams that `stage` and `snapshot` read: "WORD LENGTH\nPATH".
std::string path_head(std::string_view word, std::string_view path);
inline constexpr std::string_view kEndOfStream = "end\n";

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

}  // namespace cove::sandbox::file_protocol
