#include "json/shape.hpp"

namespace cove::json {

Shape shape_of(std::string_view text) {
  Shape shape;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':  // to the end of the string
        i = text.find_first_of("\"\\", i + 1);
        while (i < text.size() && text[i] == '\\') i = text.find_first_of("\"\\", i + 2);
        if (i >= text.size()) return shape;
        break;
      case ',':
      case '[':
      case '{':
        ++shape.elements;
        break;
      case ':':
        ++shape.members;
        break;
      default:
        break;
    }
  }
  return shape;
}

}  // namespace cove::json
