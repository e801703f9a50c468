#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "cli/interrupt.hpp"
#include "client/http_client.hpp"

namespace cove::cli {

// One run of code in a kernel, shown as it happens.
struct CellOptions {
  std::string kernel;                   // its target: /v1/sandboxes/demo/kernels/k1
  std::string save_dir;                 // where pictures go; empty: they are not kept
  bool answers_input = false;           // input() asks whoever is at our standard input
  bool interrupt_goes_to_code = false;  // a signal interrupts the code, and we stay; else we go, and the code ends
};

// The kinds of file that pictures are saved as: "png" for image/png; "" for what is no picture.
std::string picture_suffix(std::string_view mime_type);

// Runs the code to its end; the event `end`.
Result<boost::json::object> run_cell(client::Client& client, const boost::json::object& body,
                                     const CellOptions& options, Interrupt& interrupt);

// Reads lines and runs them in a kernel until the input ends. `on_end` is told the end of each. What is typed goes on
// over several lines while the kernel says that it is incomplete; an empty line ends it.
Result<> kernel_prompt(client::Client& client, const CellOptions& options, Interrupt& interrupt,
                       const std::function<void(const boost::json::object& end)>& on_end);

}  // namespace cove::cli
