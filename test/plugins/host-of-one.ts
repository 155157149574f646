/** `node host-of-one.ts <plugin>`: calls the plugin's hook `prompt` and prints the id of its process. */
import { PluginHost } from '../../src/plugins/host/plugin-host.ts';
import { locatePlugin } from '../../src/plugins/locate.ts';

const files = await locatePlugin({ path: process.argv[2] ?? '' }, '/');
const host = new PluginHost({
  ...files,
  memoryBytes: 256 * 1024 * 1024,
  initMs: 10_000,
  graceMs: 60_000,
  maxInFlight: 1,
  output: (line) => process.stdout.write(`${line}\n`),
  crashed() {},
});
await host.start();
const context = { requestId: '', userPath: '/', model: '', provider: '', labels: [] };
void host.call({ hook: 'prompt', input: [], context, config: {}, deadlineMs: 60_000 });
process.stdout.write(`${host.pid}\n`);
