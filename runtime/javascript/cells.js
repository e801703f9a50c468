// Runs pieces of code one after the other in the global scope, as a console does: names may be declared again, await may
// stand anywhere, and the last value is told. SIGINT ends one that does not end by itself.
'use strict';

const inspector = require('inspector');
const util = require('util');
const vm = require('vm');

const CALL = Symbol.for('cove.call');
// SIGINT ends what runs inside of a script that says so, whatever it calls.
const trampoline = new vm.Script(`globalThis[Symbol.for('cove.call')]()`, { filename: 'cove:call' });

class Interrupted extends Error {
  constructor() {
    super('the execution was interrupted');
    this.name = 'Interrupted';
    this.stack = `${this.name}: ${this.message}`; // where it was is nobody's mistake
  }
}

class Cells {
  constructor() {
    this.session = new inspector.Session();
    this.session.connect();
    this.holder = {}; // what we get at the values of the other side with
    globalThis[CALL] = this.holder;
    this.session.post('Runtime.evaluate', { expression: `globalThis[Symbol.for('cove.call')]` }, (failed, answer) => {
      this.holderId = answer.result.objectId;
    });
    delete globalThis[CALL];
  }

  // The value of the last expression. What is thrown is what the code threw; a SyntaxError has `place`. `announce` is
  // called when SIGINT ends the code from then on: the server sends none before.
  run(code, file, announce) {
    return this.evaluate(code, file, announce).catch((thrown) => {
      const other = redeclared(thrown, code);
      if (other === null) throw thrown;
      return this.evaluate(other, file, () => {}); // nothing of the code has run
    });
  }

  evaluate(code, file, announce) {
    return new Promise((resolve, reject) => {
      const expression = `${withOwnImport(code)}\n//# sourceURL=${file}`;
      const answered = (failed, answer) => {
        if (failed) return reject(new Error(failed.message));
        const { result, exceptionDetails } = answer;
        if (!exceptionDetails) return resolve(this.take(result));
        const thrown = exceptionDetails.exception ? this.take(exceptionDetails.exception) : new Error(exceptionDetails.text);
        this.release();
        return reject(placed(thrown, exceptionDetails, code, file));
      };
      const call = () => {
        delete globalThis[CALL];
        announce();
        this.session.post('Runtime.evaluate', { expression, replMode: true, objectGroup: 'cell' }, answered);
      };
      Object.defineProperty(globalThis, CALL, { value: call, configurable: true });
      try {
        trampoline.runInThisContext({ breakOnSigint: true });
      } catch (error) {
        reject(error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new Interrupted() : error);
      }
    });
  }

  take(remote) {
    if (remote.type === 'undefined') return undefined;
    const argument = remote.objectId ? { objectId: remote.objectId }
      : remote.unserializableValue ? { unserializableValue: remote.unserializableValue } : { value: remote.value };
    this.session.post('Runtime.callFunctionOn',
      { functionDeclaration: 'function (value) { this.value = value; }', objectId: this.holderId, arguments: [argument] });
    const { value } = this.holder;
    delete this.holder.value;
    this.release();
    return value;
  }

  release() {
    this.session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  }
}

// Code that is evaluated so may not import() by itself: kernel.js does. Texts, comments and methods of that name stay.
function withOwnImport(code) {
  const text = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/\/[^\n]*|\/\*[\s\S]*?\*\//.source;
  const called = /(?<![.\w$])import(?=\s*\()/.source;
  return code.replace(new RegExp(`${text}|${called}`, 'g'), (found) => (found === 'import' ? '__import' : found));
}

// A name may be declared again, but not with `const` what was declared with `let`, or the other way round: then as it was.
function redeclared(thrown, code) {
  if (!(thrown instanceof SyntaxError)) return null;
  const [, name] = /^Identifier '([\w$]+)' has already been declared$/.exec(thrown.message) || [];
  if (name === undefined) return null;
  const declaration = new RegExp(`\\b(const|let)(?=\\s+${name.replace(/\$/g, '\\$&')}(?![\\w$]))`);
  const other = code.replace(declaration, (word) => (word === 'let' ? 'const' : 'let'));
  return other === code ? null : other;
}

// Where code could not be read, as node itself shows it.
function placed(thrown, details, code, file) {
  if (!(thrown instanceof SyntaxError) || !/^Uncaught/.test(details.text) || details.scriptId === undefined) return thrown;
  const first = String(thrown.stack).split('\n')[1] || '';
  if (details.stackTrace && details.stackTrace.callFrames.some((frame) => frame.url === file)) return thrown;
  if (first.includes(`${file}:`)) return thrown;
  const line = code.split('\n')[details.lineNumber];
  if (line === undefined) return thrown;
  Object.defineProperty(thrown, 'place', {
    value: `${file}:${details.lineNumber + 1}\n${line}\n${' '.repeat(details.columnNumber)}^\n\n`, configurable: true });
  return thrown;
}

const MOST = 65536; // of what is told of an error

// What somebody threw, for people. What it does to those who look at it is its own affair.
function told(thrown) {
  try {
    const { ename, evalue, lines } = looked(thrown);
    return { ename: ename.slice(0, MOST), evalue: evalue.slice(0, MOST), lines: lines.join('\n').slice(0, MOST).split('\n') };
  } catch {
    return { ename: 'Uncaught', evalue: 'something that cannot be shown', lines: ['Uncaught: something that cannot be shown'] };
  }
}

// Without the frames that are ours.
function looked(thrown) {
  if (!util.types.isNativeError(thrown) && !(thrown instanceof Error)) {
    return { ename: 'Uncaught', evalue: util.inspect(thrown), lines: [`Uncaught ${util.inspect(thrown)}`] };
  }
  const lines = util.inspect(thrown).split('\n');
  const ours = lines.findIndex((line) => /^\s+at .*\(?(node:inspector|cove:call|\/cove\/javascript\/)/.test(line));
  const kept = ours < 0 ? lines : lines.slice(0, ours);
  if (ours > 0) {
    const rest = lines.slice(ours);
    if (rest.some((line) => /^\s+at .* \{$/.test(line))) kept[ours - 1] += ' {'; // what the error has of its own
    kept.push(...rest.filter((line) => !/^\s+at /.test(line)));
  }
  const text = (thrown.place || '') + kept.join('\n');
  return { ename: String(thrown.name), evalue: String(thrown.message), lines: text.split('\n') };
}

module.exports = { Cells, Interrupted, told };
