#pragma once

#include "store/database.hpp"

namespace cove::store {

// Brings the database to the schema of this build, step by step, each whole or not at all. Errc::unsupported when it
// is of a newer one.
Result<> migrate(Database& database);
// The same up to a schema of before, for tests of the way from there.
Result<> migrate_to(Database& database, std::int64_t version);

}  // namespace cove::store
