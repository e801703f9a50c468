#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/output_end.hpp"
#include "base/result.hpp"
#include "base/tenant_usage.hpp"
#include "store/spool.hpp"

namespace cove::doors::mcp {

// Keeps the output of executions for a while, so that what did not fit into an answer can be read:
// execution://ID/stdout and execution://ID/stderr. Longer output lies on disk. A tenant over its bound loses its oldest
// outputs; over the bound for all tenants, the tenant that holds the most loses its oldest.
class RecentOutputs {
  struct Books;

 public:
  struct Limits {
    std::uint64_t stream_bytes = UINT64_MAX;  // kept of one stream
    UsageBounds bounds = {};
  };

  class Output;
  // One stream of an execution: all of it or, beyond the limit, its beginning and its end with a line between them.
  class Stream {
   public:
    // As it came: any bytes.
    void append(std::string_view bytes);
    [[nodiscard]] std::uint64_t size() const { return size_; }  // kept
    [[nodiscard]] std::uint64_t written() const { return written_; }
    // Bytes that were written and are not kept; known at the end.
    [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
    // Why, if not for the limit of one stream.
    [[nodiscard]] const std::string& refusal() const { return refusal_; }
    [[nodiscard]] Result<std::string> read(std::uint64_t offset, std::size_t size) const;

   private:
    friend class Output;
    explicit Stream(Output& output) : output_(output) {}
    void finish(std::optional<std::uint64_t> written);
    void keep(std::string_view bytes);
    Result<> store(std::string_view bytes);

    Output& output_;
    std::string memory_;  // while it is short
    std::optional<store::Spool::File> file_;
    std::optional<OutputEnd> end_;  // once the beginning is full
    std::uint64_t size_ = 0;
    std::uint64_t received_ = 0;
    std::uint64_t written_ = 0;
    std::uint64_t left_out_ = 0;
    std::string refusal_;
  };

  // The output of one execution, as long as somebody has it.
  class Output {
   public:
    Output(std::weak_ptr<Books> books, store::Spool& spool, std::string tenant, Limits limits);
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;
    ~Output();
    [[nodiscard]] const std::string& id() const { return id_; }
    // How many bytes a process wrote to each stream, if not all of them were received.
    struct Written {
      std::uint64_t out = 0;
      std::uint64_t err = 0;
    };
    // No more is appended.
    void finish(std::optional<Written> written = {});

    Stream out;
    Stream err;

   private:
    friend class RecentOutputs;
    friend class Stream;
    std::string id_;
    std::string tenant_;
    Limits limits_;
    std::weak_ptr<Books> books_;
    store::Spool& spool_;
    std::uint64_t charged_ = 0;  // bytes
    std::chrono::steady_clock::time_point at_;
  };

  // `spool` is borrowed, and used until the last Output is finished.
  explicit RecentOutputs(store::Spool& spool, std::chrono::seconds age = std::chrono::hours(1));

  // Of an execution that begins. Counts against the bounds from now on.
  std::shared_ptr<Output> begin(std::string tenant, const Limits& limits);
  // It can be found from now on.
  void keep(const std::shared_ptr<Output>& output);
  // Null when there is none, or it is another tenant's.
  [[nodiscard]] std::shared_ptr<const Output> find(std::string_view tenant, std::string_view id);

  [[nodiscard]] const Amount& held() const;
  // How many were dropped because of a bound.
  [[nodiscard]] const std::uint64_t& evicted() const;

 private:
  std::shared_ptr<Books> books_;
  store::Spool& spool_;
};

// A random id that cannot be guessed.
std::string new_output_id();
// "execution://ID/stdout"
std::string execution_uri(std::string_view id, std::string_view stream);

}  // namespace cove::doors::mcp
