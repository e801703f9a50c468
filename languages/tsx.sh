#!/bin/sh
# Runs a TypeScript program: esbuild bundles it in a few milliseconds, node runs the result. A syntax error is esbuild's own
# message with file, line and column, and exit status 1. Imports of other .ts files are followed; packages stay outside.
# With --check the program is only parsed.
for tool in esbuild node; do
  command -v "$tool" >/dev/null 2>&1 || { echo "Command not found: $tool" >&2; exit 127; }
done
case "$1" in
  --check) shift; exec esbuild "$1" --log-level=error --outfile=/dev/null --allow-overwrite ;;
esac
source=$1
shift
out=$(mktemp -d /tmp/tsx-XXXXXX) || exit 125
esbuild "$source" --bundle --platform=node --packages=external --format=esm --target=node18 --sourcemap=inline --log-level=warning \
  --banner:js="import{createRequire as __cr}from'node:module';import{dirname as __dn}from'node:path';const __filename='$(realpath "$source")',__dirname=__dn(__filename),require=__cr(__filename);" \
  --outfile="$out/program.mjs" || exit 1
exec node --enable-source-maps "$out/program.mjs" "$@"
