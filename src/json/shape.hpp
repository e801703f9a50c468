#pragma once

#include <cstddef>
#include <string_view>

namespace cove::json {

// The number of elements in a JSON text, counted without parsing it. A parsed element takes many times the memory of
// its text, so untrusted text is measured first.
struct Shape {
  std::size_t elements = 0;  // of arrays and objects
  std::size_t members = 0;   // of objects
};
Shape shape_of(std::string_view text);

}  // namespace cove::json
