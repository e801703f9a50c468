// Whether anything below a directory was written since a time: a quick look that may say yes for nothing, and says yes
// where there is much to look at. Whoever wants to know what it was looks again.
'use strict';

const fs = require('fs');
const path = require('path');

const MOST = 400;
const GRAIN = 10; // milliseconds that a file's time may lie before ours: the kernel counts in ticks
const passedOver = (name) => name.startsWith('.') || name === '__pycache__' || name === 'node_modules';

function touched(root, since) {
  let left = MOST;
  const directories = [root];
  try {
    while (directories.length > 0) {
      const directory = directories.pop();
      if (fs.lstatSync(directory).ctimeMs >= since - GRAIN) return true;
      for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
        if (passedOver(entry.name)) continue;
        if (--left < 0) return true;
        const whole = path.join(directory, entry.name);
        if (entry.isDirectory()) directories.push(whole);
        else if (fs.lstatSync(whole).ctimeMs >= since - GRAIN) return true;
      }
    }
  } catch {
    return true;
  }
  return false;
}

module.exports = { touched };
