#pragma once

#include <cstddef>
#include <string_view>

namespace cove::json {

// How much a JSON text holds, counted without parsing it: a parsed element takes many times the memory of its text, so
// a text from somebody else is measured first.
struct Shape {
  std::size_t elements = 0;  // of arrays and objects
  std::size_t members = 0;   // of objects
};
Shape shape_of(std::string_view text);

}  // namespace cove::json
