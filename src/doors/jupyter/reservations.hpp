#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "async/task.hpp"

namespace cove::doors::jupyter {

// What is being made at this moment, so that requests that come at once do not make it twice. Each tenant has names of
// its own.
class Reservations {
 public:
  Reservations();

  // A name that is nobody else's until this is destroyed.
  class Held {
   public:
    Held(Held&& other) noexcept = default;
    Held& operator=(Held&&) = delete;
    ~Held();

   private:
    friend class Reservations;
    struct State;
    Held(std::shared_ptr<State> state, std::pair<std::string, std::string> name)
        : state_(std::move(state)), name_(std::move(name)) {}
    std::shared_ptr<State> state_;
    std::pair<std::string, std::string> name_;
  };

  // nullopt: somebody holds it.
  [[nodiscard]] std::optional<Held> try_take(const std::string& tenant, const std::string& name);
  // Waits until nobody does.
  [[nodiscard]] async::Task<Held> take(std::string tenant, std::string name);
  // How many names of the tenant's begin so.
  [[nodiscard]] std::size_t count(const std::string& tenant, std::string_view prefix) const;

 private:
  std::shared_ptr<Held::State> state_;
};

}  // namespace cove::doors::jupyter
