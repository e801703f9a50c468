// JupyterLab's own client at a server: everything a notebook does. Prints one JSON object of what it saw.
// node notebook.mjs URL TOKEN
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const WebSocket = require('ws');
const { KernelManager, KernelSpecManager, ServerConnection, SessionManager } = require('@jupyterlab/services');

const [url, token] = process.argv.slice(2);
const serverSettings = ServerConnection.makeSettings({ baseUrl: url, wsUrl: url.replace('http', 'ws'), token: token ?? '', appendToken: Boolean(token), WebSocket });
const seen = {};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const specs = new KernelSpecManager({ serverSettings });
await specs.ready;
seen.specs = [specs.specs.default, Object.keys(specs.specs.kernelspecs).sort()];

const kernels = new KernelManager({ serverSettings });
const sessions = new SessionManager({ kernelManager: kernels, serverSettings });
await sessions.ready;
const session = await sessions.startNew({ path: 'trial.ipynb', type: 'notebook', name: 'trial', kernel: { name: 'python3' } });
const kernel = session.kernel;
seen.info = (await kernel.info).language_info.name;
seen.subprotocol = kernel._ws ? kernel._ws.protocol : '';

async function run(code, options = {}) {
  const out = { text: '', results: [], displays: [], types: [] };
  const future = kernel.requestExecute({ code, ...options });
  future.onIOPub = (message) => {
    out.types.push(message.header.msg_type);
    if (message.header.msg_type === 'stream') out.text += message.content.text;
    if (message.header.msg_type === 'execute_result') out.results.push(message.content.data['text/plain']);
    if (message.header.msg_type === 'display_data') out.displays.push(Object.keys(message.content.data).sort());
  };
  future.onStdin = (message) => {
    if (message.header.msg_type === 'input_request') kernel.sendInputReply({ value: 'typed', status: 'ok' }, message.header);
  };
  out.reply = (await future.done).content;
  return out;
}

seen.print = (await run('print(6*7)')).text;
seen.state = [(await run('x = 5')).reply.status, (await run('x')).results];
seen.plot = (await run('import matplotlib.pyplot as plt; plt.plot([1, 2, 3]); plt.show()')).displays;
seen.error = (await run('1/0')).reply.ename;
seen.input = (await run("input('who? ')", { allow_stdin: true })).results;
const many = await run("print('y' * 5_000_000)");
seen.megabytes = many.text.length;
const lines = await run('for i in range(500_000): print(i)');
seen.lines = [lines.text.split('\n').length, lines.text.endsWith('499999\n')];
seen.complete = (await kernel.requestComplete({ code: 'prin', cursor_pos: 4 })).content.matches.includes('print');
seen.inspect = (await kernel.requestInspect({ code: 'len', cursor_pos: 3, detail_level: 0 })).content.found;
seen.isComplete = (await kernel.requestIsComplete({ code: 'if True:' })).content.status;
seen.history = Array.isArray((await kernel.requestHistory({ hist_access_type: 'tail', n: 5, output: false, raw: true })).content.history);
seen.comms = Object.keys((await kernel.requestCommInfo({})).content.comms);

// A widget's way: a comm in either direction, with binary buffers.
const answered = new Promise((resolve) => kernel.registerCommTarget('to_client', (comm, message) => {
  comm.onMsg = (more) => resolve([message.content.data, more.content.data, [...new Uint8Array(more.buffers[0].buffer ?? more.buffers[0])]]);
}));
await run("from comm import create_comm\nc = create_comm(target_name='to_client', data={'hello': 1})\nc.send({'more': 2}, buffers=[b'\\x01\\x02'])");
seen.commToClient = await answered;
await run("def opened(comm, message):\n    comm.on_msg(lambda m: comm.send({'got': m['content']['data'], 'sizes': [len(b) for b in m['buffers']]}))\nget_ipython().kernel.comm_manager.register_target('to_kernel', opened)");
const comm = kernel.createComm('to_kernel');
const echoed = new Promise((resolve) => { comm.onMsg = (message) => resolve(message.content.data); });
await comm.open({}).done;
await comm.send({ n: 1 }, undefined, [new Uint8Array([1, 2, 3]).buffer]).done;
seen.commToKernel = await echoed;

const endless = kernel.requestExecute({ code: 'while True: pass' });
await sleep(500);
await kernel.interrupt();
seen.interrupted = (await endless.done).content.ename;
seen.afterInterrupt = (await run('x')).results;

await kernel.restart();
seen.afterRestart = (await run("'x' in dir()")).results;
const died = kernel.requestExecute({ code: 'import os; os._exit(3)' });
seen.died = (await Promise.race([died.done.then((reply) => reply.content.ename, () => 'cancelled'), sleep(20_000).then(() => 'never')]));
for (let i = 0; i < 100 && kernel.connectionStatus !== 'connected'; ++i) await sleep(100);
await sleep(500);
seen.afterDeath = (await run('1 + 1')).results;

seen.running = [...kernels.running()].length >= 1;
await session.shutdown();
await sessions.refreshRunning();
seen.left = [...sessions.running()].length;
console.log(JSON.stringify(seen));
process.exit(0);
