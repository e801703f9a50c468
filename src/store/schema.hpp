#pragma once

#include "store/database.hpp"

namespace cove::store {

// Migrates the database to the schema of this build, one transaction for each step. Errc::unsupported for a newer
// schema.
Result<> migrate(Database& database);
// The same up to an older schema, for tests of the migration.
Result<> migrate_to(Database& database, std::int64_t version);

}  // namespace cove::store
