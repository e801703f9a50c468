#pragma once

#include "journal/act.hpp"
#include "run/run.hpp"

namespace cove::run {

// What is about to run, for the journal: shown, and with all that it takes to run it again (read by spec_of).
journal::Act act_of(const Spec& spec, const sandbox::ProcessRequest& request);
// The same run again. Errc::invalid when this is not what act_of() made.
Result<Spec> spec_of(std::string_view kind, const boost::json::object& repeat);

}  // namespace cove::run
