#pragma once

// For the tests of this room: a directory that goes away, and tars made byte by byte, as no honest program makes them.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/io.hpp"
#include "base/unique_fd.hpp"
#include "files/tree.hpp"
#include "files/walk.hpp"

namespace cove::files {

class Scratch {
 public:
  Scratch() {
    std::string name = "/tmp/cove-files-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Scratch() { static_cast<void>(remove_tree(AT_FDCWD, path_).has_value()); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] std::string at(std::string_view name) const { return path_ + "/" + std::string(name); }
  [[nodiscard]] const std::string& path() const { return path_; }
  void file(std::string_view name, std::string_view content) const {
    const UniqueFd fd(::open(at(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!write_all(fd.get(), content)) std::abort();
  }
  void directory(std::string_view name) const {
    if (::mkdir(at(name).c_str(), 0755) != 0) std::abort();
  }
  void link(std::string_view name, const std::string& target) const {
    if (::symlink(target.c_str(), at(name).c_str()) != 0) std::abort();
  }
  [[nodiscard]] std::string content(std::string_view name) const {
    return read_file_at(AT_FDCWD, at(name)).value_or("(cannot be read)");
  }
  // "a/ a/b l->t": everything below, sorted, with what kind it is.
  [[nodiscard]] std::string tree(std::string_view below = {}) const {
    std::string all;
    const auto listing = list_tree(below.empty() ? path_ : at(below), 100, 1000);
    if (!listing) return "(cannot be read)";
    const auto prefix = (below.empty() ? path_ : at(below)).size() + 1;
    for (const auto& entry : listing->entries) {
      if (!all.empty()) all += ' ';
      all += entry.path.substr(prefix);
      if (entry.type == "directory") all += '/';
      if (entry.type == "symlink") all += "->" + entry.target;
    }
    return all;
  }

 private:
  std::string path_;
};

// A descriptor to read `bytes` from.
inline UniqueFd stream_of(std::string_view bytes) {
  UniqueFd fd(::memfd_create("archive", MFD_CLOEXEC));
  if (!fd || !write_all(fd.get(), bytes) || ::lseek(fd.get(), 0, SEEK_SET) != 0) std::abort();
  return fd;
}

struct RawMember {
  std::string name;
  char type = '0';
  std::string body;
  std::string target;
  unsigned mode = 0644;
  std::string size_field;  // as is, instead of the size of the body
  std::string mtime_field;
  std::string prefix;
  int checksum_error = 0;
};

inline std::string octal_field(std::uint64_t value, int width) {
  return fmt::format("{:0{}o}", value, width);
}

inline std::string raw(const RawMember& member) {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, std::size_t room, std::string_view text) {
    std::memcpy(block.data() + at, text.data(), std::min(room, text.size()));
  };
  put(0, 100, member.name);
  put(100, 8, octal_field(member.mode, 7));
  put(108, 8, octal_field(0, 7));
  put(116, 8, octal_field(0, 7));
  put(124, 12, member.size_field.empty() ? octal_field(member.body.size(), 11) : member.size_field);
  put(136, 12, member.mtime_field.empty() ? octal_field(1'000'000'000, 11) : member.mtime_field);
  put(148, 8, "        ");
  block[156] = member.type;
  put(157, 100, member.target);
  put(257, 8, std::string_view("ustar\00000", 8));
  put(345, 155, member.prefix);
  int sum = member.checksum_error;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, 8, octal_field(static_cast<std::uint64_t>(sum), 6) + std::string("\0 ", 2));
  block += member.body;
  block.resize((block.size() + 511) / 512 * 512, '\0');
  return block;
}

inline std::string pax_record(std::string_view key, std::string_view value) {
  const std::string rest = fmt::format(" {}={}\n", key, value);
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

inline std::string pax_header(const std::string& records, char type = 'x') {
  return raw({.name = "PaxHeaders/x", .type = type, .body = records});
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

inline std::string tar_of(const std::vector<RawMember>& members) {
  std::string bytes;
  for (const auto& member : members) bytes += raw(member);
  return bytes + tar_end();
}

inline std::string gzip_of(std::string_view bytes) {
  z_stream zlib{};
  if (::deflateInit2(&zlib, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string out(::deflateBound(&zlib, bytes.size()), '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  if (::deflate(&zlib, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(out.size() - zlib.avail_out);
  ::deflateEnd(&zlib);
  return out;
}

}  // namespace cove::files
