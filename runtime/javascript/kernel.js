// A kernel of node: `node kernel.js`, the channel on descriptor 3. Requests in, one after another; messages out, the
// reply last. It speaks as that of runtime/python does.
'use strict';

const fs = require('fs');
const EventEmitter = require('events');
const path = require('path');
const util = require('util');
const { pathToFileURL } = require('url');
const { StringDecoder } = require('string_decoder');
const { createRequire } = require('module');
const { Channel } = require('./channel.js');
const { Cells, Interrupted, told } = require('./cells.js');
const { touched } = require('./touched.js');

const { setTimeout, setImmediate, process, Buffer } = globalThis; // a cell may replace them
const Timeout = setTimeout(() => {}, 0).unref().constructor;
const Immediate = setImmediate(() => {}).constructor;
const LOOK = 5; // milliseconds between two looks at what a cell has begun

const cells = new Cells();
const waiting = [];
let channel;
let parent = null; // of what is said now
let count = 0;
let fail = null; // ends the running cell
let stopWaiting = null; // for what the running cell has begun
let seen = new Map(); // modules of the user's, and how old they were when they were loaded

// JSON for the host has no halves of characters.
const whole = (text) => (/[\ud800-\udfff]/.test(text) ? Buffer.from(text).toString() : text);
const say = (type, content) => channel.send({ type, parent, content });

function speakThrough(stream, name) {
  const decoder = new StringDecoder('utf8');
  stream.write = (chunk, encoding, done) => {
    const bytes = typeof chunk === 'string' && (typeof encoding !== 'string' || /^utf-?8$/i.test(encoding)) ? null
      : typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const text = bytes === null ? chunk : decoder.write(bytes);
    if (text !== '') say('stream', { name, text: whole(text) });
    const called = typeof encoding === 'function' ? encoding : done;
    if (typeof called === 'function') process.nextTick(called);
    return true;
  };
}

// What a program finds: its own place, and modules relative to it.
function setPlace(file) {
  const mine = { exports: {}, id: '.', filename: file, loaded: false, children: [], paths: [] };
  const require = createRequire(file);
  require.main = mine;
  const names = { require, module: mine, exports: mine.exports, __filename: file, __dirname: path.dirname(file) };
  for (const [name, value] of Object.entries(names)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
  const __import = (name) => import(/^\.{0,2}\//.test(name) ? pathToFileURL(path.resolve(path.dirname(file), name)).href : name);
  Object.defineProperty(globalThis, '__import', { value: __import, writable: true, configurable: true, enumerable: false });
  process.argv = [process.execPath, file];
  forgetChanged(require.cache);
}

const ageOf = (file) => {
  try {
    return fs.statSync(file).mtimeMs;
  } catch {
    return null;
  }
};

// A file that was written anew is loaded anew.
function forgetChanged(cache) {
  const now = new Map();
  for (const file of Object.keys(cache)) {
    if (!file.startsWith(process.cwd() + path.sep)) continue;
    const age = ageOf(file);
    if (seen.has(file) && seen.get(file) !== age) delete cache[file];
    else now.set(file, age);
  }
  seen = now;
}

function rememberModules() {
  for (const file of Object.keys(createRequire(process.cwd() + path.sep).cache)) {
    if (!seen.has(file) && file.startsWith(process.cwd() + path.sep)) seen.set(file, ageOf(file));
  }
}

const busy = () => process.getActiveResourcesInfo().length;

// Until everything is done that the cell began, as the end of a program is. What earlier cells left going on is not its.
function quiet(before) {
  return new Promise((resolve) => {
    stopWaiting = () => {
      stopWaiting = null;
      channel.socket.ref();
      resolve();
    };
    const mine = stopWaiting;
    channel.socket.unref();
    const idle = before - 1; // without the channel, which does not count now
    if (idle <= 0) return; // the loop says when it is empty: beforeExit
    const look = () => {
      if (stopWaiting !== mine) return;
      if (busy() <= idle) mine();
      else setTimeout(look, LOOK).unref();
    };
    setTimeout(look, 0).unref();
  });
}

// The value of a block is nobody's wish, nor is what stands for something that goes on; that of an expression is.
function wanted(value, code) {
  if (value === undefined || value instanceof EventEmitter || value instanceof Timeout || value instanceof Immediate) return false;
  const plain = value === null || (typeof value !== 'object' && typeof value !== 'function');
  return !(plain && /(}|\bstd(out|err)\.write\([^\n]*\))\s*;?\s*$/.test(code));
}

async function runCell(code, file, announce) {
  const before = busy();
  let value = await cells.run(code, file, announce);
  const done = quiet(before);
  if (util.types.isPromise(value)) {
    const pending = {};
    value = await Promise.race([value, done.then(() => pending)]);
    if (value === pending) value = undefined;
  }
  await done;
  return value;
}

async function execute(content) {
  const code = String(content.code || '');
  const file = content.file || path.join(process.cwd(), 'main.js');
  const began = Date.now();
  if (!content.silent && content.store_history !== false) count += 1;
  const announce = () => say('execute_input', content.silent ? {} : { execution_count: count });
  setPlace(file);
  process.exitCode = undefined;
  const reply = { status: 'ok', execution_count: count, user_expressions: {}, payload: [] };
  try {
    const value = await Promise.race([runCell(code, file, announce), new Promise((_, reject) => { fail = reject; })]);
    if (!content.silent && wanted(value, code)) {
      say('execute_result', { data: { 'text/plain': whole(util.inspect(value)) }, metadata: {}, execution_count: count });
    }
  } catch (thrown) {
    const { ename, evalue, lines } = told(thrown);
    const error = { ename: whole(ename), evalue: whole(evalue), traceback: lines.map(whole) };
    say('error', error);
    Object.assign(reply, { status: 'error' }, error);
  }
  fail = null;
  if (stopWaiting) stopWaiting();
  rememberModules();
  if (typeof process.exitCode === 'number') reply.exit_code = process.exitCode & 0xff;
  if (content.watch) reply.touched = touched(process.cwd(), began);
  return ['execute_reply', reply];
}

const answers = {
  execute,
  ping: () => ['pong', {}],
};

let answering = false;
async function answerAll() {
  if (answering) return;
  answering = true;
  while (waiting.length > 0) {
    const request = waiting.shift();
    parent = request.id;
    const answer = answers[request.op];
    const [type, content] = answer ? await answer(request.content || {})
      : ['done', { status: 'error', ename: 'LookupError', evalue: `no such request: ${request.op}` }];
    say(type, content);
    parent = null;
  }
  answering = false;
}

function begin(first) {
  try {
    process.chdir(first.cwd || '/');
  } catch (error) {
    channel.send({ type: 'failed', message: `cannot enter ${first.cwd}: ${error.code}` });
    process.reallyExit(1);
  }
  speakThrough(process.stdout, 'stdout');
  speakThrough(process.stderr, 'stderr');
  const failed = (thrown) => {
    if (fail) fail(thrown);
    else say('stream', { name: 'stderr', text: `${told(thrown).lines.map(whole).join('\n')}\n` });
  };
  process.on('uncaughtException', failed);
  process.on('unhandledRejection', failed);
  process.on('beforeExit', () => stopWaiting && stopWaiting());
  process.on('SIGINT', () => fail && fail(new Interrupted()));
  channel.send({ type: 'ready', language: { name: 'javascript', version: process.versions.node, mimetype: 'application/javascript', file_extension: '.js' }, pid: process.pid });
}

let begun = false;
channel = new Channel(3, (message) => {
  if (!begun) {
    begun = true;
    return begin(message);
  }
  waiting.push(message);
  return setImmediate(answerAll);
});
