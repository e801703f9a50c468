#include "cli/client/completion_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/console.hpp"

namespace cove::cli {
namespace {

struct Item {
  std::string name;
  std::string what;
};

// One command as a completion script must know it.
struct Level {
  std::string path;  // "" for cove itself, "key create"
  std::vector<Item> commands;
  std::vector<Item> options;
  std::string valued;  // " --url --key ": those that take a word
  std::string ids;     // which words are sandboxes: "none", "first", "all", or "paths" for ID:PATH
};

std::string first_line(std::string text) {
  return text.substr(0, text.find('\n'));
}

void collect(const CLI::App& app, const std::string& path, std::vector<Level>& levels) {
  Level level{.path = path, .valued = " ", .ids = "none"};
  for (const auto* option : app.get_options({})) {
    if (option->get_positional()) {
      const auto name = option->get_name(true);
      if (name == "id") level.ids = option->get_items_expected_max() > 1 ? "all" : "first";
      if (name == "source") level.ids = "paths";
      continue;
    }
    const auto add = [&](const std::string& name) {
      level.options.push_back({name, first_line(option->get_description())});
      if (option->get_items_expected_max() > 0) level.valued += name + " ";
    };
    for (const auto& name : option->get_snames()) add("-" + name);
    for (const auto& name : option->get_lnames()) add("--" + name);
  }
  const auto children = app.get_subcommands([](const CLI::App*) { return true; });
  for (const auto* child : children)
    level.commands.push_back({child->get_name(), first_line(child->get_description())});
  levels.push_back(std::move(level));
  for (const auto* child : children)
    collect(*child, path.empty() ? child->get_name() : path + " " + child->get_name(), levels);
}

std::vector<Level> levels_of(const CLI::App& app) {
  std::vector<Level> levels;
  collect(app, "", levels);
  return levels;
}

std::string names(const std::vector<Item>& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : " ") + item.name;
  return text;
}

// 'name:what it does' for _describe, in single quotes.
std::string described(const std::vector<Item>& items) {
  std::string text;
  for (const auto& item : items) {
    text += (text.empty() ? "'" : " '") + item.name + ":";
    for (const char c : item.what) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += "'";
  }
  return text;
}

// Where in the command line we are. Both shells run this; only how they name the words differs.
constexpr std::string_view kWalk = R"sh(  for ((i = 1; i < ${#before[@]}; i++)); do
    word=${before[i]}
    if [[ -n $skip ]]; then
      skip=
    elif [[ $word == -- ]]; then
      over=1
      break
    elif [[ $word == -* ]]; then
      [[ $valued == *" $word "* ]] && skip=1
    elif [[ " $commands " == *" $word "* ]]; then
      here="${here:+$here }$word"
      _cove_level "$here"
    else
      ((count++))
      [[ $ids == none ]] || ((count < 2)) || [[ $ids == all || $ids == paths ]] || over=1
    fi
  done
)sh";

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::string text = "# bash completion for cove: source <(cove completion bash)\n_cove_level() {\n  case $1 in\n";
  for (const auto& level : levels_of(app)) {
    text += fmt::format("    '{}') commands='{}' options='{}' valued='{}' ids='{}' ;;\n", level.path,
                        names(level.commands), names(level.options), level.valued, level.ids);
  }
  text += "  esac\n}\n_cove() {\n";
  // COMP_WORDS is cut at every colon; the line itself is not.
  text += R"sh(  local cur commands options valued ids here= word= skip= over= count=0 i before
  local line=${COMP_LINE:0:COMP_POINT}
  read -ra before <<< "$line"
  cur=
  if [[ $line != *[[:space:]] ]]; then
    cur=${before[${#before[@]}-1]}
    unset "before[${#before[@]}-1]"
  fi
  _cove_level ''
)sh";
  text += kWalk;
  text += R"sh(  COMPREPLY=()
  [[ -n $over || -n $skip ]] && return
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n $commands && $count == 0 ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$cur"))
  elif [[ $ids == paths ]]; then
    COMPREPLY=($(compgen -W "$("${before[0]}" ls -q 2>/dev/null | sed 's/$/:/')" -- "$cur") $(compgen -f -- "$cur"))
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2>/dev/null
  elif [[ $ids == all || ($ids == first && $count == 0) ]]; then
    COMPREPLY=($(compgen -W "$("${before[0]}" ls -q 2>/dev/null)" -- "$cur"))
  fi
}
complete -o default -F _cove cove
)sh";
  return text;
}

std::string zsh_completion(const CLI::App& app) {
  std::string text =
      "#compdef cove\n# zsh completion for cove: source <(cove completion zsh), after compinit\n_cove_level() {\n  "
      "case $1 in\n";
  for (const auto& level : levels_of(app)) {
    text += fmt::format("    ('{}') commands='{}' valued='{}' ids='{}'; described=({}); options=({}) ;;\n", level.path,
                        names(level.commands), level.valued, level.ids, described(level.commands),
                        described(level.options));
  }
  text += "  esac\n}\n_cove() {\n";
  text += R"sh(  setopt localoptions ksharrays
  local commands valued ids here= word= skip= over= count=0 i cur=${words[CURRENT-1]}
  local -a described options found before
  before=("${words[@]:0:$((CURRENT - 1))}")
  _cove_level ''
)sh";
  text += kWalk;
  text += R"sh(  unsetopt ksharrays
  if [[ -n $over || -n $skip ]]; then
    _files
  elif [[ $cur == -* ]]; then
    _describe -o 'option' options
  elif [[ -n $commands && $count == 0 ]]; then
    _describe 'command' described
  elif [[ $ids == paths ]]; then
    found=(${(f)"$(${before[1]} ls -q 2>/dev/null)"})
    compadd -S ':' -q -- $found
    _files
  elif [[ $ids == all || ($ids == first && $count == 0) ]]; then
    found=(${(f)"$(${before[1]} ls -q 2>/dev/null)"})
    compadd -- $found
  else
    _files
  fi
}
if [[ $funcstack[1] == _cove ]]; then
  _cove "$@"
else
  compdef _cove cove
fi
)sh";
  return text;
}

void add_completion_command(CLI::App& app, Commands& commands) {
  auto* command = app.add_subcommand("completion", "Print a shell completion script");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->type_name("SHELL");
  command->footer(
      "Examples:\n"
      "  source <(cove completion bash)                          now\n"
      "  cove completion bash > /etc/bash_completion.d/cove      for everybody\n"
      "  cove completion zsh > \"${fpath[1]}/_cove\"");
  commands.push_back({command, [&app, shell](const AfterDashes&) {
                        const auto put =
                            write_all(STDOUT_FILENO, *shell == "bash" ? bash_completion(app) : zsh_completion(app));
                        return put ? 0 : 1;
                      }});
}

}  // namespace cove::cli
