// What every official client does here, on whichever transport: prints what it saw as one JSON object.
// node session.mjs CLIENT TRANSPORT TARGET…    CLIENT: v1 | v2-legacy | v2-modern    TRANSPORT: stdio | http | sse
const [client, transport, ...target] = process.argv.slice(2);
const seen = {client, transport};

async function connectV1() {
  const {Client} = await import('@modelcontextprotocol/sdk/client/index.js');
  const types = await import('@modelcontextprotocol/sdk/types.js');
  const made = new Client({name: 'test', version: '1'}, {capabilities: {elicitation: {}, sampling: {}, roots: {}}});
  made.setNotificationHandler(types.LoggingMessageNotificationSchema, message => seen.logs.push(message.params));
  const Transport = {
    stdio: async () => new (await import('@modelcontextprotocol/sdk/client/stdio.js')).StdioClientTransport({command: target[0], args: target.slice(1), env: process.env, stderr: 'pipe'}),
    http: async () => new (await import('@modelcontextprotocol/sdk/client/streamableHttp.js')).StreamableHTTPClientTransport(new URL(target[0])),
    sse: async () => new (await import('@modelcontextprotocol/sdk/client/sse.js')).SSEClientTransport(new URL(target[0])),
  };
  await made.connect(await Transport[transport]());
  return {made, call: (params, options) => made.callTool(params, undefined, options)};
}

async function connectV2(mode) {
  const sdk = await import('@modelcontextprotocol/client');
  const options = {capabilities: {elicitation: {form: {}}}};
  if (mode === 'modern') options.versionNegotiation = {mode: {pin: '2026-07-28'}};
  const made = new sdk.Client({name: 'test', version: '1'}, options);
  made.setNotificationHandler('notifications/message', message => seen.logs.push(message.params));
  const Transport = {
    stdio: async () => new (await import('@modelcontextprotocol/client/stdio')).StdioClientTransport({command: target[0], args: target.slice(1), env: process.env, stderr: 'pipe'}),
    http: async () => new sdk.StreamableHTTPClientTransport(new URL(target[0])),
    sse: async () => new sdk.SSEClientTransport(new URL(target[0])),
  };
  await made.connect(await Transport[transport]());
  return {made, call: (params, given) => made.callTool(params, given)};
}

seen.logs = [];
const {made, call} = client === 'v1' ? await connectV1() : await connectV2(client.slice(3));
const session = 'sdk-' + Math.random().toString(36).slice(2);
const run = (code, language = 'python', options) => call({name: 'execute_code', arguments: {code, language, session_id: session}}, options);

seen.server = made.getServerVersion();
seen.tools = (await made.listTools()).tools.map(tool => tool.name);  // from here on results are checked against output schemas
seen.first = (await run('x = 20')).structuredContent;
seen.second = (await run('x + 22')).structuredContent;
seen.failed = (await run('1/0')).structuredContent;
seen.exit = (await run('exit 3', 'bash')).structuredContent;
seen.mistake = await call({name: 'execute_code', arguments: {code: '1', language: 'cobol'}});
seen.progress = [];
await run('import time\nfor i in range(4): print("line", i, flush=True); time.sleep(0.3)', 'python', {onprogress: step => seen.progress.push(step)});
const abort = new AbortController();
const cancelled = run('import time; time.sleep(300)', 'python', {signal: abort.signal}).then(() => 'answered', () => 'cancelled');
setTimeout(() => abort.abort('enough'), 300);
seen.cancelled = await cancelled;
seen.after = (await run('"alive"')).structuredContent;
seen.unknown = await call({name: 'no_such_tool', arguments: {}}).then(() => 'answered', error => ({code: error.code, message: error.message}));
await made.close();
process.stdout.write(JSON.stringify(seen) + '\n');
process.exit(0);
