#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace cove::schema {

// What the `$ref`s of one schema may name: parts of the schema itself, by place, by anchor or by `$id`.
class References {
 public:
  // Borrows the schema.
  explicit References(const boost::json::value& root);

  // Null: it is not within this schema.
  [[nodiscard]] const boost::json::value* find(std::string_view reference) const;

 private:
  void collect(const boost::json::value& value, std::size_t depth);

  const boost::json::value& root_;
  std::map<std::string, const boost::json::value*, std::less<>> anchors_;
  std::map<std::string, const boost::json::value*, std::less<>> ids_;
};

}  // namespace cove::schema
