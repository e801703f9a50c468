// The one line to the host: JSON messages in records of at most 64 KiB, one write and one read each. Every record begins
// with a byte of flags.
'use strict';

const fs = require('fs');
const net = require('net');

const RECORD = 65536;
const FIRST = 1;
const LAST = 2;

// Taken now: a cell may replace them.
const { writeSync } = fs;
const { parse, stringify } = JSON;
const { from, allocUnsafe, concat } = Buffer;
const { wait } = Atomics;
const leave = process.reallyExit.bind(process);
const pause = new Int32Array(new SharedArrayBuffer(4));

class Channel {
  // `heard` gets each message; the process ends when the host has closed.
  constructor(descriptor, heard) {
    this.descriptor = descriptor;
    const { Pipe, constants } = process.binding('pipe_wrap'); // net alone takes no sockets that keep borders
    const handle = new Pipe(constants.SOCKET);
    handle.open(descriptor);
    this.socket = new net.Socket({ handle, writable: false });
    let pieces = [];
    this.socket.on('data', (record) => {
      if (record[0] & FIRST) pieces = [];
      pieces.push(record.subarray(1));
      if (record[0] & LAST) heard(parse(concat(pieces).toString()));
    });
    for (const end of ['end', 'error', 'close']) this.socket.on(end, () => leave(0));
    this.socket.resume();
  }

  // Waits while the host reads slowly.
  send(message) {
    const bytes = from(stringify(message));
    for (let at = 0; at < bytes.length; at += RECORD - 1) {
      const piece = bytes.subarray(at, at + RECORD - 1);
      const record = allocUnsafe(piece.length + 1);
      record[0] = (at === 0 ? FIRST : 0) | (at + RECORD - 1 >= bytes.length ? LAST : 0);
      record.set(piece, 1);
      this.put(record);
    }
  }

  put(record) {
    for (;;) {
      try {
        writeSync(this.descriptor, record);
        return;
      } catch (error) {
        if (error.code === 'EAGAIN') wait(pause, 0, 0, 1);
        else if (error.code !== 'EINTR') leave(0);
      }
    }
  }
}

module.exports = { Channel };
