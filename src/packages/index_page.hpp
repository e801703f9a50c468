#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "outbound/url.hpp"

namespace cove::packages {

// A wheel that a page of a package index (PEP 503) leads to.
struct IndexLink {
  outbound::Url url;
  std::string file;      // its name: letters, digits and ._+!- alone
  std::string fragment;  // "sha256=…", or empty
  std::string requires_python;
  bool yanked = false;
};

// Every wheel of the page, which came from `base`. What is no link to a wheel over http or https is passed over.
// Errc::over_limit for a page with more links than an index has.
Result<std::vector<IndexLink>> read_index_page(std::string_view html, const outbound::Url& base);

// A page with these links, each leading to `prefix` + its number + "/" + its file name.
std::string write_index_page(const std::vector<IndexLink>& links, std::string_view prefix, std::size_t first_number);

// "Zope.Interface_x" is "zope-interface-x": how an index spells a project.
std::string project_name(std::string_view name);

// One package to install: what callers may ask for, as pip is told it. Errc::invalid says what is wrong with it.
Result<std::string> requirement(std::string_view name, std::string_view version);

}  // namespace cove::packages
