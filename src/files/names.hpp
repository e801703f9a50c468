#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::files {

inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxPathBytes = 4096;
inline constexpr std::string_view kWorkspace = "/workspace";

// Where a member of an archive goes, relative to the destination: "/a//b/./c" is "a/b/c", "./" is "". Errc::invalid for
// what is refused: an empty name, a NUL, a ".." component, a component over 255 bytes, a path over 4096, more than
// `max_depth` levels. A backslash is a character like any other.
Result<std::string> member_path(std::string_view name, std::size_t max_depth);

// Whether `target`, read from the directory that holds the link `path`, stays in the tree `path` is relative to.
// Lexical: what lies behind other links is not looked at.
bool link_stays_inside(std::string_view path, std::string_view target);

// Absolute, as the API shows it: relative paths start in /workspace; no empty or "." components, no slash at the end.
// ".." stays: what it means is the kernel's to say, for there may be links before it. Errc::invalid when empty or too
// long.
Result<std::string> absolute_path(std::string_view path);

// "c" of "/a/b/c"; "/" of "/".
std::string_view base_name(std::string_view path);
// "/a/b" of "/a/b/c", "/" of "/a", "" of "a".
std::string_view parent_name(std::string_view path);

// For messages: quoted, with what is not UTF-8 replaced, and cut to a readable length.
std::string shown(std::string_view name);

}  // namespace cove::files
