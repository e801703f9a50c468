# What becomes /cove/javascript in every sandbox.
set(COVE_JAVASCRIPT_RUNTIME
  cells.js
  channel.js
  kernel.js
  machine.cjs
  touched.js
)
