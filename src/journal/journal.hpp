#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "async/signal.hpp"
#include "base/result.hpp"
#include "journal/act.hpp"
#include "journal/entry.hpp"
#include "store/store.hpp"

namespace cove::journal {

struct Settings {
  bool enabled = true;
  std::uint64_t repeat_bytes = 1U << 20;  // the most that is kept of one act for doing it again
};

// What was done in every sandbox, through any door: who, what, how it ended. They are written behind the answers to
// their clients, all that ended in one turn of the loop together: nobody waits for the disk, and what a client has had
// an answer to is there after a kill -9. One thread.
class Journal {
 public:
  using Log = std::function<void(std::string_view line)>;

  Journal(boost::asio::any_io_executor executor, store::Store& store, Log log);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  void set(Settings settings) { settings_ = settings; }
  [[nodiscard]] bool enabled() const { return settings_.enabled; }

  // Null while the journal is switched off.
  std::shared_ptr<Entry> begin(const Subject& subject, const Actor& actor, Act act);
  // Something that is done already. What becomes of sandboxes is written at once.
  void record(const Subject& subject, const Actor& actor, Act act, Outcome outcome);
  // After a restart: an act that the server before us began and that goes on. Null when there is none.
  std::shared_ptr<Entry> resume(const std::string& sandbox, const std::string& reference);
  // After a restart, when everything that goes on was resumed.
  void end_unfinished();
  // At a shutdown: everything so far is written, and what still goes on stays unfinished for the next server.
  void close();

  // Oldest first; what happened up to now is among them.
  Result<std::vector<store::ActivityRow>> read(const store::ActivityQuery& query);
  // What it takes to do an act again; empty when it cannot be done again, or that is not kept.
  Result<boost::json::object> repeat_of(std::int64_t seq);
  // The sandbox that had this name last, also one that has ended. Errc::not_found.
  Result<std::string> last_sandbox(const std::string& tenant, const std::string& name);
  // The greatest number among the tenant's forgotten acts.
  Result<std::int64_t> lost_through(const std::string& tenant) { return store_.activity().lost_through(tenant); }
  [[nodiscard]] std::int64_t last_seq() const { return next_ - 1; }
  // Notified of every act of the tenant that begins or ends, for as long as somebody holds it.
  [[nodiscard]] std::shared_ptr<async::Signal> changes_of(const std::string& tenant);

  [[nodiscard]] const std::uint64_t& dropped() const { return dropped_; }

  // --- For Entry. ---
  void set_reference(std::int64_t seq, std::string reference);
  void add_content(std::int64_t seq, std::string_view bytes);
  void end(std::int64_t seq, std::chrono::milliseconds lasted, Outcome outcome);

 private:
  // One that was begun, until it is written and has ended.
  struct Open {
    store::ActivityRow row;
    boost::json::object detail;
    boost::json::object repeat;
    std::string content;
    bool content_kept = true;
    bool brief = false;
    bool written = false;
  };
  void changed(const std::string& tenant);
  static constexpr int kTurns = 3;
  void write_soon();
  void write_behind_answers(int turns = kTurns);
  void write();
  store::ActivityRow row_of(Open& open);

  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  store::Store& store_;
  Log log_;
  Settings settings_;
  std::shared_ptr<Journal*> self_;  // empty when closed: entries let go of us
  std::int64_t next_ = 1;
  std::map<std::int64_t, Open> open_;
  std::map<std::int64_t, store::ActivityRow> inherited_;  // begun by the server before us, not resumed
  std::vector<std::int64_t> begun_;                       // of those, not written yet
  struct Ended {
    Open open;
    std::chrono::milliseconds lasted{0};
    Outcome outcome;
  };
  std::vector<Ended> ended_;                 // since the last write
  std::vector<store::ActivityRow> waiting_;  // could not be written
  std::vector<store::ActivityEnd> ends_;
  std::map<std::string, std::weak_ptr<async::Signal>> followers_;  // by tenant
  bool writing_soon_ = false;
  bool writing_next_ = false;
  bool failing_ = false;
  std::uint64_t dropped_ = 0;
};

// An act as clients see it.
boost::json::object to_json(const store::ActivityRow& row);

}  // namespace cove::journal
