#!/bin/sh
# curl, wget and git in a sandbox: the program of that name, behind /cove/stand-ins in PATH. Where it fails for want of a
# network, one line tells the policy of the sandbox and who can change it.
name=${0##*/}
program=
IFS=:
for directory in $PATH; do
  [ "$directory" = /cove/stand-ins ] || [ ! -x "$directory/$name" ] || { program=$directory/$name; break; }
done
unset IFS
[ -n "$program" ] || { echo "$name: command not found" >&2; exit 127; }

if [ "$name" = git ]; then
  command= # the first word that is no option, nor the value of one
  skip=
  for word in "$@"; do
    [ -z "$skip" ] || { skip=; continue; }
    case $word in -C | -c) skip=1 ;; -*) ;; *) command=$word; break ;; esac
  done
  case $command in clone | fetch | pull | push | ls-remote | submodule | remote) ;; *) exec "$program" "$@" ;; esac
fi

# A signal for this is one for the program.
exec 3<&0
"$program" "$@" <&3 3<&- &
child=$!
exec 3<&-
for signal in HUP INT TERM; do trap "kill -$signal $child 2>/dev/null" "$signal"; done
wait "$child"
status=$?
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  status=$?
done

case $name-$status in
  curl-5 | curl-6 | curl-7 | curl-28 | curl-35 | curl-52 | curl-56 | curl-97 | wget-4 | git-1 | git-128) ;;
  *) exit "$status" ;;
esac
policy=$(printf 'GET / HTTP/1.0\r\n\r\n' | /cove/bin/connect 3128 2>/dev/null | sed '1,/^\r*$/d')
[ -n "$policy" ] ||
  policy='This sandbox has no network (network policy: mode none); outside, `cove network ID --allow HOST:PORT`, or --allow of `cove run`, opens one.'
echo "$name: $policy" >&2
exit "$status"
