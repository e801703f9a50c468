#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace cove::wire {

// The command line of the file helper: PROGRAM [--within ROOT] VERB PATH [ARGUMENTS]. The front writes it, the helper
// reads it; src/files/README.md says what each verb takes and answers.
inline constexpr std::string_view kFilesProgram = "/cove/bin/files";

enum class FileVerb : std::uint8_t {
  upload,
  download,
  stage,
  changed,
  snapshot,
  read,
  write,
  list,
  rename,
  remove,
  watch,
  stat,
  mkdir,
  link,
};

inline constexpr std::array<std::pair<FileVerb, std::string_view>, 14> kFileVerbs{{{FileVerb::upload, "upload"},
                                                                                   {FileVerb::download, "download"},
                                                                                   {FileVerb::stage, "stage"},
                                                                                   {FileVerb::changed, "changed"},
                                                                                   {FileVerb::snapshot, "snapshot"},
                                                                                   {FileVerb::read, "read"},
                                                                                   {FileVerb::write, "write"},
                                                                                   {FileVerb::list, "list"},
                                                                                   {FileVerb::rename, "rename"},
                                                                                   {FileVerb::remove, "remove"},
                                                                                   {FileVerb::watch, "watch"},
                                                                                   {FileVerb::stat, "stat"},
                                                                                   {FileVerb::mkdir, "mkdir"},
                                                                                   {FileVerb::link, "link"}}};

constexpr std::string_view name_of(FileVerb verb) {
  return kFileVerbs[static_cast<std::size_t>(verb)].second;
}

constexpr std::optional<FileVerb> file_verb(std::string_view name) {
  const auto* const found = std::ranges::find(kFileVerbs, name, &std::pair<FileVerb, std::string_view>::second);
  return found == kFileVerbs.end() ? std::nullopt : std::optional(found->first);
}

// Options with a value.
inline constexpr std::string_view kWithinOption = "--within";
inline constexpr std::string_view kMaxBytesOption = "--max-bytes";
inline constexpr std::string_view kMaxMembersOption = "--max-members";
inline constexpr std::string_view kMaxDepthOption = "--max-depth";
inline constexpr std::string_view kMaxRatioOption = "--max-ratio";
inline constexpr std::string_view kMaxFilesOption = "--max-files";
inline constexpr std::string_view kAbsoluteNamesOption = "--absolute-names";  // 0: a member with one is refused
inline constexpr std::string_view kOnlyFilesOption = "--only-files";          // 1: PackLimits::only_files
inline constexpr std::string_view kKnownOption = "--known";
inline constexpr std::string_view kRemoveOption = "--remove";
// Optional last words.
inline constexpr std::string_view kAppendWord = "append";
inline constexpr std::string_view kOverwriteWord = "overwrite";
inline constexpr std::string_view kRecursiveWord = "recursive";
inline constexpr std::string_view kNowWord = "now";

// "code" of the helper's error.
inline constexpr std::string_view kFileInvalid = "invalid";
inline constexpr std::string_view kFileNotFound = "not_found";
inline constexpr std::string_view kFileDenied = "denied";
inline constexpr std::string_view kFileOutside = "outside";  // the path leads out of --within
inline constexpr std::string_view kFileExists = "exists";
inline constexpr std::string_view kFileTooLarge = "too_large";
inline constexpr std::string_view kFileDiskFull = "disk_full";
inline constexpr std::string_view kFileIo = "io";

}  // namespace cove::wire
