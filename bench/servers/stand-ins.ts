/** The processes around the gateway: other measured servers, and the simulated provider. */
import { fileURLToPath } from 'node:url';
import { announced, freePort, launchNode, type NodeLaunch, type Server } from './launch.ts';

const fileAt = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export function startProvider(options: {
  responses: 'native' | 'absent';
  words: number;
  models: readonly string[];
}): Promise<Server> {
  const { responses, words, models } = options;
  const args = ['--port', '0', '--responses', responses, '--words', String(words), '--models', models.join(',')];
  return announced(launchNode(fileAt('../../infra/simulated-provider/main.ts'), args, {}));
}

export async function startBarePassthrough(upstream: Server, more: NodeLaunch = {}): Promise<Server> {
  const port = await freePort();
  return announced(launchNode(fileAt('../bare-passthrough.ts'), [String(port), upstream.origin], more));
}
