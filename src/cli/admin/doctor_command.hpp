#pragma once

#include <string>

#include "cli/command.hpp"

namespace cove::cli {

struct DoctorOptions {
  std::string state_dir;  // empty: the default one
  bool json = false;
};

// `cove doctor`. 0: this host enforces the default profile, perhaps with warnings; 1: it cannot. Before any thread is
// made.
int doctor_command(const DoctorOptions& options);

void add_doctor_command(App& app, Commands& commands);

}  // namespace cove::cli
