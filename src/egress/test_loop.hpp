#pragma once

// For tests of this room.

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "async/task.hpp"

namespace cove::egress {

// Runs a task to its end, with whatever else is on the loop.
template <typename T>
T run(boost::asio::io_context& io, async::Task<T> task) {
  std::optional<T> result;
  std::exception_ptr escaped;
  boost::asio::co_spawn(io, std::move(task), [&](std::exception_ptr error, T value) {
    escaped = std::move(error);
    result.emplace(std::move(value));
    io.stop();
  });
  io.restart();
  io.run_for(std::chrono::seconds(20));
  if (escaped) std::rethrow_exception(escaped);
  if (!result) throw std::runtime_error("the task did not end");
  return std::move(*result);
}

inline void run(boost::asio::io_context& io, async::Task<> task) {
  std::exception_ptr escaped;
  bool ended = false;
  boost::asio::co_spawn(io, std::move(task), [&](std::exception_ptr error) {
    escaped = std::move(error);
    ended = true;
    io.stop();
  });
  io.restart();
  io.run_for(std::chrono::seconds(20));
  if (escaped) std::rethrow_exception(escaped);
  if (!ended) throw std::runtime_error("the task did not end");
}

}  // namespace cove::egress
