#include "cli/client/completion_command.hpp"

#include <memory>

#include "cli/console.hpp"
#include "config/languages.hpp"

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
  std::string second;  // the command that lists what the word after the first sandbox names: "kernel ls"
};

std::string first_line(std::string text) {
  return text.substr(0, text.find('\n'));
}

void collect(const App& app, const std::string& path, std::vector<Level>& levels) {
  Level level{.path = path, .valued = " ", .ids = "none"};
  for (const auto& option : app.options()) {
    if (const auto& name = option.positional; !name.empty()) {
      if (name == "id") level.ids = option.most_values > 1 ? "all" : "first";
      if (name == "source") level.ids = "paths";
      if (name == "kernel") level.second = "kernel ls";
      if (name == "process") level.second = "ps";
      if (name == "execution") level.second = "executions ls";
      continue;
    }
    for (const auto& name : option.names) {
      level.options.push_back({name, first_line(option.description)});
      if (option.most_values > 0) level.valued += name + " ";
    }
  }
  const auto children = app.subcommands();
  for (const auto* child : children) level.commands.push_back({child->name(), first_line(child->description())});
  levels.push_back(std::move(level));
  for (const auto* child : children) collect(*child, path.empty() ? child->name() : path + " " + child->name(), levels);
}

std::vector<Level> levels_of(const App& app) {
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

std::string languages() {
  const auto known = config::Languages::built_in();
  std::string text;
  if (!known) return text;
  for (const auto& language : known->all()) text += (text.empty() ? "" : " ") + language.name;
  return text;
}

// What completes the value of an option, and the word after a sandbox. Both shells run these.
std::string value_functions() {
  return fmt::format(R"sh(_cove_column() {{ "$@" 2>/dev/null | awk 'NR > 1 {{print $1}}'; }}
_cove_values() {{
  case $2 in
    --lang | --language) echo '{0}' ;;
    -l) [[ $3 != *' --lang '* ]] || echo '{0}' ;;
    --template) _cove_column "$1" template list ;;
    --kernel) [[ -z $4 ]] || _cove_column "$1" kernel ls "$4" ;;
  esac
}}
)sh",
                     languages());
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
      [[ $valued == *" $word "* ]] && skip=$word
    elif [[ " $commands " == *" $word "* ]]; then
      here="${here:+$here }$word"
      _cove_level "$here"
    else
      ((count++)) || first=$word
      [[ $ids == none ]] || ((count < 2)) || [[ $ids == all || $ids == paths ]] || over=1
    fi
  done
)sh";

}  // namespace

std::string bash_completion(const App& app) {
  std::string text = "# bash completion for cove: source <(cove completion bash)\n" + value_functions() +
                     "_cove_level() {\n  case $1 in\n";
  for (const auto& level : levels_of(app)) {
    text += fmt::format("    '{}') commands='{}' options='{}' valued='{}' ids='{}' second='{}' ;;\n", level.path,
                        names(level.commands), names(level.options), level.valued, level.ids, level.second);
  }
  text += "  esac\n}\n_cove() {\n";
  // COMP_WORDS is cut at every colon; the line itself is not.
  text += R"sh(  local cur commands options valued ids second here= word= skip= over= count=0 first= i before
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
  [[ -n $over ]] && return
  if [[ -n $skip ]]; then
    COMPREPLY=($(compgen -W "$(_cove_values "${before[0]}" "$skip" "$valued" "$first")" -- "$cur"))
  elif [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n $commands && $count == 0 ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$cur"))
  elif [[ $ids == paths ]]; then
    COMPREPLY=($(compgen -W "$("${before[0]}" ls -q 2>/dev/null | sed 's/$/:/')" -- "$cur") $(compgen -f -- "$cur"))
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2>/dev/null
  elif [[ $ids == all || ($ids == first && $count == 0) ]]; then
    COMPREPLY=($(compgen -W "$("${before[0]}" ls -q 2>/dev/null)" -- "$cur"))
  elif [[ $ids == first && $count == 1 && -n $second ]]; then
    COMPREPLY=($(compgen -W "$(_cove_column "${before[0]}" $second "$first")" -- "$cur"))
  fi
  # Where a colon ends a word, only what follows it is replaced.
  if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
    before=${cur%"${cur##*:}"}
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
  fi
}
complete -o default -F _cove cove
)sh";
  return text;
}

std::string zsh_completion(const App& app) {
  std::string text = "#compdef cove\n# zsh completion for cove: source <(cove completion zsh), after compinit\n" +
                     value_functions() + "_cove_level() {\n  case $1 in\n";
  for (const auto& level : levels_of(app)) {
    text += fmt::format("    ('{}') commands='{}' valued='{}' ids='{}' second='{}'; described=({}); options=({}) ;;\n",
                        level.path, names(level.commands), level.valued, level.ids, level.second,
                        described(level.commands), described(level.options));
  }
  text += "  esac\n}\n_cove() {\n";
  text += R"sh(  setopt localoptions ksharrays
  local commands valued ids second here= word= skip= over= count=0 first= i cur=${words[CURRENT-1]}
  local -a described options found before
  before=("${words[@]:0:$((CURRENT - 1))}")
  _cove_level ''
)sh";
  text += kWalk;
  text += R"sh(  unsetopt ksharrays
  if [[ -n $over ]]; then
    _files
  elif [[ -n $skip ]]; then
    found=(${=${(f)"$(_cove_values ${before[1]} $skip $valued "$first")"}})
    if (( ${#found} )); then compadd -- $found; else _files; fi
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
  elif [[ $ids == first && $count == 1 && -n $second ]]; then
    found=(${(f)"$(_cove_column ${before[1]} ${=second} $first)"})
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

std::string fish_completion(const App& app) {
  const auto quoted = [](const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out + "'";
  };
  std::string text = "# fish completion for cove: cove completion fish | source\n";
  const auto levels = levels_of(app);
  text += "set -g __cove_paths";
  for (const auto& level : levels) text += level.path.empty() ? "" : " " + quoted(level.path);
  text += R"fish(
function __cove_path
    set -l path
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; and continue
        set -l next (string join ' ' $path $word)
        contains -- $next $__cove_paths; or break
        set path $next
    end
    echo $path
end
function __cove_at
    set -l here (__cove_path)
    test "$here" = "$argv[1]"
end
function __cove_column
    $argv 2>/dev/null | awk 'NR > 1 {print $1}'
end
complete -c cove -e
)fish";
  for (const auto& level : levels) {
    const auto here = fmt::format("complete -c cove -n {} ", quoted("__cove_at " + quoted(level.path)));
    for (const auto& command : level.commands)
      text += here + fmt::format("-f -a {} -d {}\n", quoted(command.name), quoted(command.what));
    for (const auto& option : level.options) {
      const bool is_long = option.name.starts_with("--");
      const bool valued = level.valued.find(" " + option.name + " ") != std::string::npos;
      text += here + fmt::format("-{} {} -d {}", is_long ? "l" : "s", option.name.substr(is_long ? 2 : 1),
                                 quoted(option.what));
      if (option.name == "--lang" || option.name == "--language")
        text += fmt::format(" -x -a {}", quoted(languages()));
      else if (option.name == "--template")
        text += " -x -a '(__cove_column cove template list)'";
      else if (valued)
        text += " -r";
      text += "\n";
    }
    if (level.ids == "first" || level.ids == "all") text += here + "-f -a '(cove ls -q 2>/dev/null)'\n";
    if (level.ids == "paths") text += here + "-a '(cove ls -q 2>/dev/null | string replace -r \\$ :)'\n";
  }
  return text;
}

void add_completion_command(App& app, Commands& commands) {
  auto* command = app.add_subcommand("completion", "Print a shell completion script");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->one_of({"bash", "zsh", "fish"})
      ->type_name("SHELL");
  command->footer(
      "Examples:\n"
      "  source <(cove completion bash)                          now\n"
      "  cove completion bash > /etc/bash_completion.d/cove      for everybody\n"
      "  cove completion zsh > \"${fpath[1]}/_cove\"\n"
      "  cove completion fish > ~/.config/fish/completions/cove.fish");
  commands.push_back({command, [&app, shell](const AfterDashes&) {
                        const auto put = write_all(STDOUT_FILENO, *shell == "bash"  ? bash_completion(app)
                                                                  : *shell == "zsh" ? zsh_completion(app)
                                                                                    : fish_completion(app));
                        return put ? 0 : 1;
                      }});
}

}  // namespace cove::cli
