#include "schema/code_points.hpp"

#include "base/text.hpp"

namespace cove::schema {

std::u32string code_points(std::string_view utf8) {
  const auto good = valid_utf8(utf8) ? std::string(utf8) : replace_invalid_utf8(utf8);
  std::u32string out;
  out.reserve(good.size());
  for (std::size_t i = 0; i < good.size();) {
    const auto first = static_cast<unsigned char>(good[i]);
    const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    char32_t point = size == 1 ? first : first & (0xffU >> (size + 1));
    for (std::size_t k = 1; k < size; ++k) point = point << 6 | (static_cast<unsigned char>(good[i + k]) & 0x3fU);
    out.push_back(point);
    i += size;
  }
  return out;
}

}  // namespace cove::schema
