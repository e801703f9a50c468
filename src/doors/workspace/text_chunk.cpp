#include "doors/workspace/text_chunk.hpp"

#include <iconv.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace cove::doors::workspace {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

class Converter {
 public:
  Converter() : handle_(::iconv_open("UTF-8", "GBK")) {}
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;
  ~Converter() {
    if (works()) ::iconv_close(handle_);
  }
  // False on a system without the GBK table.
  [[nodiscard]] bool works() const { return reinterpret_cast<std::intptr_t>(handle_) != -1; }

  // The character of one or two bytes; "" for an invalid one.
  std::string take(std::string_view bytes) {
    std::array<char, 8> out{};
    char* from = const_cast<char*>(bytes.data());  // iconv reads it and asks for no const
    char* to = out.data();
    std::size_t left = bytes.size();
    std::size_t room = out.size();
    if (::iconv(handle_, &from, &left, &to, &room) == static_cast<std::size_t>(-1) || left != 0) {
      ::iconv(handle_, nullptr, nullptr, nullptr, nullptr);
      return "";
    }
    return {out.data(), out.size() - room};
  }

 private:
  iconv_t handle_;
};

TextChunk gbk(std::string_view bytes, More more) {
  static Converter converter;
  if (!converter.works()) return {.text = replace_invalid_utf8(bytes), .used = bytes.size()};
  TextChunk chunk;
  while (chunk.used < bytes.size()) {
    const auto rest = bytes.substr(chunk.used);
    const auto byte = static_cast<unsigned char>(rest.front());
    const std::size_t wanted = byte < 0x80 ? 1 : 2;
    if (wanted > rest.size() && more == More::comes) break;
    const auto character = wanted <= rest.size() ? converter.take(rest.substr(0, wanted)) : std::string();
    chunk.text += character.empty() ? std::string(kReplacement) : character;
    chunk.used += character.empty() ? 1 : wanted;
  }
  return chunk;
}

bool ascii(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

TextChunk text_chunk(std::string_view bytes, Begin begin, More more) {
  const auto cut = more == More::comes ? bytes.substr(0, bytes.size() - unfinished_utf8(bytes)) : bytes;
  if (cut.empty() && more == More::comes) return {};
  if (valid_utf8(cut)) return {.text = std::string(cut), .used = cut.size()};
  // The caller began in the middle of a character, and more non-ASCII text follows: the ASCII bytes after it may be
  // part of GBK.
  std::size_t inside = 0;
  while (begin == Begin::anywhere && inside < std::min<std::size_t>(3, cut.size()) &&
         (static_cast<unsigned char>(cut[inside]) & 0xc0) == 0x80)
    ++inside;
  if (inside > 0 && valid_utf8(cut.substr(inside)) && !ascii(cut.substr(inside)))
    return {.text = std::string(kReplacement) + std::string(cut.substr(inside)), .used = cut.size()};
  return gbk(bytes, more);
}

}  // namespace cove::doors::workspace
