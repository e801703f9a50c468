#pragma once

#include "store/database.hpp"

namespace cove::store {

// Brings the database to the schema of this build, step by step, each whole or not at all. Errc::unsupported when it
// is of a newer one.
Result<> migrate(Database& database);

}  // namespace cove::store
