#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "tools/codegen/names.hpp"

namespace cove::tools::codegen {

// Classes of pydantic's form for the JSON Schemas of one module. References are followed within the schema alone. What
// a schema says that no class can say becomes Any: the broker checks arguments against the schema itself.
class Models {
 public:
  // Adds a class of this name for the schema of an object, behind the classes it is made of. Errc::over_limit: too many
  // classes, or too much text.
  Result<> add_root(const boost::json::object& schema, std::string_view name);

  // The import statements that the classes need, and the classes.
  [[nodiscard]] std::string imports() const;
  [[nodiscard]] const std::string& classes() const { return classes_; }

 private:
  struct Type {
    std::string text;
    bool optional = false;     // null is a value
    bool enumeration = false;  // a class of ours, or what holds one
  };
  struct Field {
    std::string_view property;
    const boost::json::value* schema = nullptr;
    bool required = false;
    Type type;
  };

  // types.cpp
  Type type_of(const boost::json::value& schema, std::string_view hint, std::size_t depth);
  Type of_object(const boost::json::object& schema, std::string_view hint, std::size_t depth);
  Type of_kind(std::string_view kind, const boost::json::object& schema, std::string_view hint, std::size_t depth);
  Type of_reference(std::string_view reference, std::size_t depth);
  Type of_choices(const boost::json::array& choices, std::string_view hint, std::size_t depth);
  Type of_enumeration(const boost::json::array& values, std::string_view hint);
  Type of_text(const boost::json::object& schema);
  Type of_number(const boost::json::object& schema, std::string_view kind);
  Type any();
  std::string use(std::string_view name);

  std::string write_class(const boost::json::object& schema, std::string name, std::size_t depth);
  std::string field(const Field& field, const std::string& name);
  [[nodiscard]] bool full() const;

  const boost::json::object* root_ = nullptr;
  std::map<std::string, Type, std::less<>> references_;  // of this root
  std::set<std::string, std::less<>> open_;              // classes that are being written
  std::vector<std::string> early_;                       // those that were referred to meanwhile
  std::set<std::string, std::less<>> used_;              // names to import
  std::string classes_;
  Names names_ = Names(reserved());
  std::size_t count_ = 0;
  std::size_t steps_ = 0;

  static std::set<std::string, std::less<>> reserved();
};

}  // namespace cove::tools::codegen
