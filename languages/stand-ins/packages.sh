#!/bin/sh
# pip, npm, npx and apt in a sandbox, which may have no network. What needs none is done by the program of that name,
# behind /cove/stand-ins in PATH. What would wait for an answer fails at once, and one line tells where packages come
# from. Where there is a network it is used; one line tells its policy when that was not enough.
name=${0##*/}
program=
IFS=:
for directory in $PATH; do
  [ "$directory" = /cove/stand-ins ] || [ ! -x "$directory/$name" ] || { program=$directory/$name; break; }
done
unset IFS
[ -n "$program" ] || [ -n "$SANDBOX_PIP_PYTHON" ] || { echo "$name: command not found" >&2; exit 127; }

case $name in
  pip*) hint='this sandbox has no network; Python packages come through `cove install ID NAME` or the install_packages tool' ;;
  np*) hint='this sandbox has no network; upload node_modules, or build a template that has the packages' ;;
  apt*) hint='this sandbox has no network and no root; Debian packages come with a template: `cove template build`' ;;
esac
command= # the first word that is no option
for word in "$@"; do
  case $word in -*) ;; *) command=$word; break ;; esac
done

# %pip in a kernel names its own interpreter.
case $name in pip*) [ -z "$SANDBOX_PIP_PYTHON" ] || { program=$SANDBOX_PIP_PYTHON; set -- -m pip "$@"; } ;; esac

# The policy, from the proxy that listens where there is a network. Empty: there is none.
policy() { printf 'GET / HTTP/1.0\r\n\r\n' | /cove/bin/connect 3128 2>/dev/null | sed '1,/^\r*$/d'; }

# Runs the program; where it fails, says why.
attempt() {
  "$program" "$@"
  status=$?
  [ "$status" -eq 0 ] || echo "$name: $hint" >&2
  exit "$status"
}
case $name-$command in
  pip*-install | pip*-download | pip*-wheel | pip*-index | pip*-search) ;;
  npm-i | npm-install | npm-add | npm-ci | npm-update | npm-up | npm-exec | npm-x | npm-view | npm-info | npm-search | \
    npm-outdated | npm-audit | npm-create | npm-init | npm-publish | npm-login | npm-ping | npx-?*) ;;
  apt*-install | apt*-update | apt*-upgrade | apt*-full-upgrade | apt*-dist-upgrade | apt*-remove | apt*-purge | \
    apt*-autoremove | apt*-build-dep | apt*-source | apt*-download)
    echo "$name: $hint" >&2
    exit 100 ;;
  *) exec "$program" "$@" ;;
esac

policy=$(policy)
if [ -n "$policy" ]; then
  hint=$policy
  # What is refused is refused for good: nobody waits for another attempt.
  export PIP_RETRIES="${PIP_RETRIES:-0}" npm_config_fetch_retries="${npm_config_fetch_retries:-0}"
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_BREAK_SYSTEM_PACKAGES=1 npm_config_update_notifier=false
  # /etc/pip.conf names an index that does not exist; who wrote a file of their own names another.
  [ -e "$HOME/.config/pip/pip.conf" ] || [ -e "$HOME/.pip/pip.conf" ] ||
    export PIP_CONFIG_FILE="${PIP_CONFIG_FILE:-/dev/null}"
else
  # That index does not exist here: what is installed already or lies on the disk is found.
  export npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
fi
attempt "$@"
