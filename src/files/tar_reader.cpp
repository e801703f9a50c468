#include "files/tar_reader.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <string_view>

#include "base/text.hpp"
#include "files/names.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kMaxTrailer = 16U << 20;
constexpr std::size_t kMaxWindow = 8U << 20;

std::uint64_t octal(std::string_view field) {
  std::uint64_t value = 0;
  for (const char c : field) {
    if (c >= '0' && c <= '7')
      value = value * 8 + static_cast<std::uint64_t>(c - '0');
    else if (c != ' ')
      break;
  }
  return value;
}

bool is_zero_block(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

// "27 path=some/name\n": whether a record that names something has a NUL in it. libarchive would cut the name there.
bool names_with_nul(std::string_view records) {
  while (!records.empty()) {
    std::size_t length = 0;
    std::size_t digits = 0;
    while (digits < records.size() && digits < 8 && records[digits] >= '0' && records[digits] <= '9')
      length = length * 10 + static_cast<std::size_t>(records[digits++] - '0');
    if (length <= digits || length > records.size()) return false;  // malformed: libarchive's to refuse
    auto record = records.substr(digits, length - digits);
    records.remove_prefix(length);
    if (record.starts_with(' ')) record.remove_prefix(1);
    if (record.find('\0') == std::string_view::npos) continue;
    for (const std::string_view key : {"path=", "linkpath=", "GNU.sparse.name="}) {
      if (record.starts_with(key)) return true;
    }
  }
  return false;
}

std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

// libarchive wants names in the locale's character set. Ours is C, where bytes above 127 have no meaning; it then says
// so and gives them as they are, which is what we want.
bool only_about_characters(struct archive* reader) {
  return text_of(archive_error_string(reader)).find("can't be converted") != std::string::npos;
}

}  // namespace

void TarReader::Close::operator()(struct archive* reader) const {
  archive_read_free(reader);
}

TarReader::TarReader(int fd, RatioLimit ratio) : stream_(fd, ratio), reader_(archive_read_new()) {}

TarReader::~TarReader() = default;

la_ssize_t TarReader::feed(struct archive* reader, void* self, const void** bytes) {
  auto& me = *static_cast<TarReader*>(self);
  auto block = me.stream_.read();
  if (block && me.window_.size() > kMaxWindow)
    block = fail(Errc::invalid, "the archive has headers of more than 8 MiB before a member");
  if (!block) {
    me.stream_error_ = block.error();
    archive_set_error(reader, -1, "%s", block.error().message.c_str());
    return ARCHIVE_FATAL;
  }
  me.window_.append(block->data(), block->size());
  *bytes = block->data();
  return static_cast<la_ssize_t>(block->size());
}

tl::unexpected<Error> TarReader::failure() {
  if (stream_error_) return tl::unexpected<Error>(*stream_error_);
  const auto words = replace_invalid_utf8(text_of(archive_error_string(reader_.get())));
  if (current_.empty()) return fail(Errc::invalid, fmt::format("not a valid archive: {}", words));
  return fail(Errc::invalid, fmt::format("not a valid archive: after member {}: {}", shown(current_), words));
}

// Keeps of the window what libarchive has not consumed yet: the next header begins there or later.
void TarReader::forget_read() {
  const auto consumed = static_cast<std::uint64_t>(archive_filter_bytes(reader_.get(), 0));
  if (consumed <= window_begin_) return;
  const auto count = std::min<std::uint64_t>(consumed - window_begin_, window_.size());
  window_.erase(0, count);
  window_begin_ += count;
}

// The special headers of a member follow one another and end with its own.
Result<> TarReader::check_raw_header() {
  const auto begin = static_cast<std::uint64_t>(archive_read_header_position(reader_.get()));
  if (begin < window_begin_) return fail(Errc::io, "the archive's headers were lost");
  std::string_view rest(window_);
  rest.remove_prefix(std::min<std::uint64_t>(begin - window_begin_, rest.size()));
  while (rest.size() >= kBlock) {
    const char type = rest[156];
    if (std::string_view("xgLK").find(type) == std::string_view::npos) {
      constexpr std::string_view kPassed(
          "0\0"
          "125S",
          6);
      if (kPassed.find(type) != std::string_view::npos) return {};
      return fail(Errc::invalid, fmt::format("member {} is of a type that is not unpacked", shown(current_)));
    }
    const auto size = octal(rest.substr(124, 12));
    const auto padded = (size + kBlock - 1) / kBlock * kBlock;
    rest.remove_prefix(kBlock);
    if (padded > rest.size()) break;
    auto body = rest.substr(0, size);
    rest.remove_prefix(padded);
    if (type == 'x' || type == 'g') {
      if (names_with_nul(body)) return fail(Errc::invalid, "a member has a NUL in its name");
    } else {
      while (body.ends_with('\0')) body.remove_suffix(1);
      if (body.find('\0') != std::string_view::npos) return fail(Errc::invalid, "a member has a NUL in its name");
    }
  }
  return fail(Errc::invalid, fmt::format("member {} has a broken header", shown(current_)));
}

Result<> TarReader::check_end() {
  if (stream_.bytes_out() == 0) return fail(Errc::invalid, "the archive is empty");
  const auto begin = static_cast<std::uint64_t>(archive_read_header_position(reader_.get()));
  std::string_view rest(window_);
  rest.remove_prefix(std::min<std::uint64_t>(begin >= window_begin_ ? begin - window_begin_ : 0, rest.size()));
  if (rest.size() < kBlock) return fail(Errc::invalid, "the archive is cut short: its end is missing");
  std::size_t trailer = rest.size();
  bool clean = is_zero_block(rest);
  while (clean) {
    COVE_TRY(const auto more, stream_.read());
    if (more.empty()) return {};
    trailer += more.size();
    if (trailer > kMaxTrailer) return fail(Errc::over_limit, "the archive has more than 16 MiB of padding");
    clean = is_zero_block({more.data(), more.size()});
  }
  return fail(Errc::invalid, "the archive has something after its end");
}

Result<std::optional<Member>> TarReader::next() {
  auto* reader = reader_.get();
  if (!opened_) {
    if (reader == nullptr) return fail(Errc::io, "no memory to read an archive with");
    opened_ = true;
    if (archive_read_support_format_tar(reader) != ARCHIVE_OK ||
        archive_read_open2(reader, this, nullptr, &TarReader::feed, nullptr, nullptr) != ARCHIVE_OK) {
      if (!stream_error_ && stream_.bytes_out() == 0) return fail(Errc::invalid, "the archive is empty");
      return failure();
    }
  }
  forget_read();
  struct archive_entry* entry = nullptr;
  const int status = archive_read_next_header(reader, &entry);
  if (stream_error_) return failure();
  if (status == ARCHIVE_EOF) {
    COVE_CHECK(check_end());
    return std::optional<Member>();
  }
  if (status == ARCHIVE_FATAL && stream_.bytes_out() == 0) return fail(Errc::invalid, "the archive is empty");
  if (status != ARCHIVE_OK && !(status == ARCHIVE_WARN && only_about_characters(reader))) return failure();

  Member member;
  member.name = text_of(archive_entry_pathname(entry));
  current_ = member.name;
  COVE_CHECK(check_raw_header());
  member.mode = static_cast<std::uint32_t>(archive_entry_perm(entry)) & 0777;
  member.mtime = archive_entry_mtime(entry);
  member.size = archive_entry_size_is_set(entry) != 0 ? static_cast<std::uint64_t>(archive_entry_size(entry)) : 0;
  if (const char* hard = archive_entry_hardlink(entry); hard != nullptr) {
    member.type = MemberType::hard_link;
    member.target = hard;
    return std::optional(std::move(member));
  }
  switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
      member.type = MemberType::file;
      break;
    case AE_IFDIR:
      member.type = MemberType::directory;
      break;
    case AE_IFLNK:
      member.type = MemberType::symlink;
      member.target = text_of(archive_entry_symlink(entry));
      break;
    default:
      return fail(Errc::invalid,
                  fmt::format("member {} is neither a file, a directory nor a link", shown(member.name)));
  }
  return std::optional(std::move(member));
}

Result<std::optional<DataBlock>> TarReader::data() {
  forget_read();
  const void* bytes = nullptr;
  std::size_t size = 0;
  la_int64_t offset = 0;
  const int status = archive_read_data_block(reader_.get(), &bytes, &size, &offset);
  if (status == ARCHIVE_EOF) return std::optional<DataBlock>();
  if (status != ARCHIVE_OK) return failure();
  return std::optional(
      DataBlock{.bytes = {static_cast<const char*>(bytes), size}, .offset = static_cast<std::uint64_t>(offset)});
}

}  // namespace cove::files
