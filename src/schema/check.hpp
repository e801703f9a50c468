#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "schema/pattern.hpp"
#include "schema/references.hpp"
#include "schema/schema.hpp"

namespace cove::schema {

// One value against one schema. The first fault found is the one told.
class Check {
 public:
  Check(const boost::json::value& root, Limits limits);

  std::optional<std::string> run(const boost::json::value& value);

 private:
  // Of an array or object: what some keyword has spoken of.
  struct Seen {
    std::set<std::string, std::less<>> members;
    bool all_members = false;
    std::set<std::size_t> items;
    std::size_t first_items = 0;  // all before this one
    bool all_items = false;
    void add(const Seen& other);
  };
  using Value = boost::json::value;
  using Object = boost::json::object;

  // Whether the value at the current place fits; says in `seen` what was spoken of.
  bool fits(const Value& schema, const Value& value, Seen& seen);
  bool fits_keywords(const Object& schema, const Value& value, Seen& seen);
  bool fits_reference(const Object& schema, const Value& value, Seen& seen);
  bool fits_type(const Object& schema, const Value& value);
  bool fits_number(const Object& schema, const Value& value);
  bool fits_text(const Object& schema, const Value& value);
  bool fits_array(const Object& schema, const Value& value, Seen& seen);
  bool fits_items(const Object& schema, const boost::json::array& items, Seen& seen);
  bool fits_contains(const Object& schema, const boost::json::array& items, Seen& seen);
  bool fits_object(const Object& schema, const Value& value, Seen& seen);
  bool fits_members(const Object& schema, const Object& object, Seen& seen);
  bool fits_dependents(const Object& schema, const Object& object, const Value& value, Seen& seen);
  bool fits_combined(const Object& schema, const Value& value, Seen& seen);
  bool fits_one_of(const boost::json::array& schemas, const Value& value, Seen& seen);
  bool fits_unevaluated(const Object& schema, const Value& value, Seen& seen);

  // The same without a fault being told: one of several possibilities.
  bool would_fit(const Value& schema, const Value& value, Seen& seen);
  bool item_fits(const Value& schema, const boost::json::array& items, std::size_t index);
  bool member_fits(const Value& schema, const Value& member, std::string_view name);
  bool matches(std::string_view pattern, std::string_view text);

  bool refuse(std::string why);
  bool spend();

  References references_;
  const Value& root_;
  Limits limits_;
  bool older_ = false;  // draft-07
  std::size_t depth_ = 0;
  std::size_t quiet_ = 0;
  std::string place_;
  std::optional<std::string> fault_;
  bool costly_ = false;
  std::map<std::string, std::optional<Pattern>, std::less<>> patterns_;
};

}  // namespace cove::schema
