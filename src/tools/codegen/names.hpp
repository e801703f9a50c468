#pragma once

#include <set>
#include <string>
#include <string_view>

namespace cove::tools::codegen {

// Names that Python takes, made of names of any kind. What is returned is an ASCII identifier, no keyword, and nothing
// that Python or the generated modules give a meaning of their own.

// Of a tool: of its module, and of its function. Characters other than letters, digits and '_' become '_', in lower
// case.
std::string tool_name(std::string_view name);
// Of a property: "my-param" is my_param, "class" class_, "_x" field_x, "2fa" field_2fa.
std::string field_name(std::string_view name);
// Of a class: "nested-thing" is NestedThing.
std::string class_name(std::string_view name);
// Of what an array "entries" holds: Entry.
std::string singular(std::string_view name);
// Of a member of an enumeration of texts.
std::string member_name(std::string_view text);
// Of a server, which is a package: letters, digits and '_', not beginning with a digit, no keyword, at most 100 bytes.
bool good_package_name(std::string_view name);
// The same for each part of a path of packages, "mcpgen" or "a/b".
bool good_package_path(std::string_view path);

// Names of which each is given once: a second "x" becomes "x_1" or, of classes, "X1".
class Names {
 public:
  explicit Names(std::set<std::string, std::less<>> taken = {}) : taken_(std::move(taken)) {}
  std::string take(std::string name, std::string_view between);

 private:
  std::set<std::string, std::less<>> taken_;
};

}  // namespace cove::tools::codegen
