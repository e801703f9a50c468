#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

namespace cove::async {

// A coroutine of the one thread that runs the io_context(1). It starts when awaited or spawned, and takes parameters by
// value. A cancelled task ends with boost::system::system_error(operation_aborted) at its next co_await.
template <class T = void>
using Task = boost::asio::awaitable<T>;

}  // namespace cove::async
