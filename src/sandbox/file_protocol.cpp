#include "sandbox/file_protocol.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "base/text.hpp"
#include "json/fields.hpp"

namespace cove::sandbox::file_protocol {
namespace {

namespace json = boost::json;
using cove::json::text_of;

Result<json::object> parse_object(const std::string& text) {
  boost::system::error_code failed;
  auto value = json::parse(text, failed);
  if (failed || !value.is_object()) return broken();
  return std::move(value.as_object());
}

Result<std::uint64_t> number_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  boost::system::error_code failed;
  if (value == nullptr || !value->is_number()) return broken();
  const auto number = value->to_number<std::uint64_t>(failed);
  if (failed) return broken();
  return number;
}

Result<bool> flag_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_bool()) return broken();
  return value->as_bool();
}

Result<json::array*> array_of(json::object& object, std::string_view name) {
  auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_array()) return broken();
  return &value->as_array();
}

Result<FileEntry> entry_of(const json::object& object) {
  FileEntry entry{.path = text_of(object, "path"),
                  .type = text_of(object, "type"),
                  .mode = text_of(object, "mode"),
                  .modified = text_of(object, "mtime"),
                  .target = text_of(object, "target")};
  COVE_TRY(entry.size, number_of(object, "size"));
  entry.not_utf8 = object.contains("not_utf8");
  if (!entry.path.starts_with('/') || entry.type.empty()) return broken();
  return entry;
}

Result<ChangedFile> changed_file_of(const json::value& value) {
  const auto* object = value.if_object();
  if (object == nullptr) return broken();
  ChangedFile file{.path = text_of(*object, "path"), .mark = text_of(*object, "mark")};
  COVE_TRY(file.size, number_of(*object, "size"));
  COVE_TRY(file.created, flag_of(*object, "created"));
  if (file.path.empty() || file.mark.empty()) return broken();
  return file;
}

}  // namespace

std::string path_head(std::string_view word, std::string_view path) {
  return fmt::format("{} {}\n{}", word, path.size(), path);
}

Result<FileFacts> decode_facts(const std::string& line) {
  COVE_TRY(const auto object, parse_object(line));
  const auto number = [&](std::string_view name) {
    const auto* field = object.if_contains(name);
    boost::system::error_code failed;
    return field == nullptr ? 0 : field->to_number<std::int64_t>(failed);
  };
  return FileFacts{.size = static_cast<std::uint64_t>(std::max<std::int64_t>(0, number("size"))),
                   .mtime_ns = number("mtime_ns"),
                   .inode = static_cast<std::uint64_t>(number("inode"))};
}

Result<FileEntry> decode_entry(const std::string& answer) {
  COVE_TRY(const auto object, parse_object(answer));
  return entry_of(object);
}

Result<Listing> decode_listing(std::string answer) {
  COVE_TRY(auto object, parse_object(answer));
  answer = {};  // it may be long, and so is what comes of it
  Listing listing;
  COVE_TRY(listing.truncated, flag_of(object, "truncated"));
  // The helper of a sandbox that is older than this server does not count.
  if (object.contains("left_out")) {
    COVE_TRY(listing.left_out, number_of(object, "left_out"));
  }
  COVE_TRY(auto* entries, array_of(object, "entries"));
  listing.entries.reserve(entries->size());
  for (const auto& one : *entries) {
    if (!one.is_object()) return broken();
    COVE_TRY(auto entry, entry_of(one.as_object()));
    listing.entries.push_back(std::move(entry));
  }
  return listing;
}

Result<UploadedFiles> decode_uploaded(const std::string& answer) {
  COVE_TRY(const auto object, parse_object(answer));
  UploadedFiles uploaded;
  COVE_TRY(uploaded.files, number_of(object, "files"));
  COVE_TRY(uploaded.bytes, number_of(object, "bytes"));
  return uploaded;
}

Result<std::vector<std::string>> decode_marks(const std::string& answer) {
  COVE_TRY(auto object, parse_object(answer));
  COVE_TRY(const auto* said, array_of(object, "marks"));
  std::vector<std::string> marks;
  for (const auto& mark : *said) {
    if (!mark.is_string()) return broken();
    marks.emplace_back(mark.as_string());
  }
  return marks;
}

Result<ChangedFiles> decode_changes(const std::string& answer, std::size_t most) {
  COVE_TRY(auto object, parse_object(replace_invalid_utf8(answer)));
  ChangedFiles changes;
  COVE_TRY(changes.more, flag_of(object, "more"));
  COVE_TRY(const auto* files, array_of(object, "files"));
  if (files->size() > most) return broken();
  for (const auto& one : *files) {
    COVE_TRY(auto file, changed_file_of(one));
    changes.files.push_back(std::move(file));
  }
  return changes;
}

std::optional<FileChange> decode_change(const std::string& line) {
  const auto object = parse_object(line);
  if (!object) return std::nullopt;
  FileChange change{.type = text_of(*object, "type"), .path = text_of(*object, "path"), .to = text_of(*object, "to")};
  return change.type.empty() ? std::nullopt : std::optional(std::move(change));
}

Result<std::string> decode_path(const std::string& line) {
  boost::system::error_code failed;
  const auto value = json::parse(line, failed);
  if (failed || !value.is_string() || value.as_string().empty()) return broken();
  return std::string(value.as_string());
}

Result<std::uint64_t> decode_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || ec != std::errc() || end != text.data() + text.size()) return broken();
  return value;
}

}  // namespace cove::sandbox::file_protocol
