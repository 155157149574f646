/** The two upstreams: a very cheap one, and one with delays and a pace. */
import { fileURLToPath } from 'node:url';
import { cores } from '../servers/cores.ts';
import { announced, freePort, launchNode, type Server } from '../servers/launch.ts';
import { hasNginx, startNginx } from './nginx.ts';

export type UpstreamName = 'instant' | 'timed';

export interface Upstreams {
  readonly servers: Readonly<Record<UpstreamName, Server>>;
  /** The software of the upstream without delays. */
  readonly instant: 'nginx' | 'raw-socket responder';
  stop(): Promise<void>;
}

export async function startUpstreams(): Promise<Upstreams> {
  const timed = await startResponder();
  const instant = hasNginx() ? await startNginx() : await startResponder();
  return {
    servers: { instant, timed },
    instant: hasNginx() ? 'nginx' : 'raw-socket responder',
    stop: async () => {
      await Promise.all([instant.stop(), timed.stop()]);
    },
  };
}

export async function startResponder(): Promise<Server> {
  const file = fileURLToPath(new URL('responder.ts', import.meta.url));
  return announced(launchNode(file, [String(await freePort())], { cores: cores.rest }));
}
