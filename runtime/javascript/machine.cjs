'use strict';
// What node's os module says of the machine, with the sandbox's own size: it would read /proc/cpuinfo, which is not there,
// and ask for the host's memory.
const os = require('os');
const cores = Number(process.env.SANDBOX_CPUS) || 1;
const memory = Number(process.env.SANDBOX_MEMORY_BYTES);

os.cpus = () => Array.from({length: cores}, () => ({model: 'cpu', speed: 0, times: {user: 0, nice: 0, sys: 0, idle: 0, irq: 0}}));
if (memory > 0) {
  os.totalmem = () => memory;
  os.freemem = () => Math.max(0, memory - process.memoryUsage().rss);
  process.constrainedMemory = () => memory;
}
require('module').syncBuiltinESMExports();  // for `import os from 'os'`
