/** Calls of a tool at an MCP server: through the gateway, and direct. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Agent, request } from 'undici';
import { cores } from '../servers/cores.ts';
import { GATEWAY_KEY, startGateway } from '../servers/gateway.ts';
import { announced, launchNode, type Server } from '../servers/launch.ts';
import { processorMs } from '../servers/process-stat.ts';
import { median } from './median.ts';

/** Sessions that call at the same time. */
const SESSIONS = 8;
/** Of each way in a round. */
const CALLS_IN_ROUND = 1000;
const ROUNDS = 5;
const VERSION = '2025-11-25';
const TEXT = 'a text of a few words';

const ways = ['direct', 'gateway'] as const;
type Way = (typeof ways)[number];

/** Medians of the rounds. */
export interface ToolFigures {
  readonly way: Way;
  readonly perSecond: number;
  /** From the request to the end of its result. */
  readonly p50Ms: number;
  /** Processor time of the gateway for a call; of the MCP server when it is called directly. */
  readonly processorUs: number;
}

export interface Tools {
  readonly sessions: number;
  readonly figures: readonly ToolFigures[];
}

export async function measureTools(workDir: string): Promise<Tools> {
  const dataDir = join(workDir, `tools-${process.pid}`);
  const file = fileURLToPath(new URL('../upstream/tool-server.ts', import.meta.url));
  const server = await announced(launchNode(file, [], { cores: cores.rest }));
  const agent = new Agent({ connections: SESSIONS });
  const rounds: Record<Way, Omit<ToolFigures, 'way'>[]> = { direct: [], gateway: [] };
  try {
    const servers = JSON.stringify([{ name: 'bench', url: `${server.origin}/mcp` }]);
    const gateway = await startGateway({ dataDir, providers: {}, cores: cores.server, env: { MCP_SERVERS: servers } });
    try {
      const called = {
        direct: await sessionsAt(server, '/mcp', agent),
        gateway: await sessionsAt(gateway, '/mcp/bench', agent),
      };
      const processes = { direct: server, gateway };
      // The first round compiles the code.
      for (let round = 0; round <= ROUNDS; round++) {
        for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
          const figures = await measured(processes[way], called[way]);
          if (round > 0) rounds[way].push(figures);
        }
      }
    } finally {
      await gateway.stop();
    }
  } finally {
    await agent.close();
    await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
  const middle = (way: Way, name: keyof (typeof rounds)[Way][number]) => median(rounds[way].map((one) => one[name]));
  return {
    sessions: SESSIONS,
    figures: ways.map((way) => ({
      ...{ way, perSecond: middle(way, 'perSecond'), p50Ms: middle(way, 'p50Ms') },
      processorUs: middle(way, 'processorUs'),
    })),
  };
}

/** Sends one message in a session, and resolves with the response when it is whole. */
type Send = (message: object) => Promise<string>;

function sessionsAt({ origin }: Server, path: string, agent: Agent): Promise<Send[]> {
  return Promise.all(Array.from({ length: SESSIONS }, () => sessionAt(`${origin}${path}`, agent)));
}

async function sessionAt(url: string, agent: Agent): Promise<Send> {
  const headers = {
    ...{ authorization: `Bearer ${GATEWAY_KEY}`, 'content-type': 'application/json' },
    ...{ accept: 'application/json, text/event-stream', 'mcp-protocol-version': VERSION },
  };
  const post = async (message: object, more: Readonly<Record<string, string>>) => {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    const answer = await request(url, { method: 'POST', headers: { ...headers, ...more }, body, dispatcher: agent });
    return { session: answer.headers['mcp-session-id'], text: await answer.body.text() };
  };
  const params = { protocolVersion: VERSION, capabilities: {}, clientInfo: { name: 'bench', version: '1' } };
  const { session, text } = await post({ id: 0, method: 'initialize', params }, {});
  if (typeof session !== 'string') throw new Error(`no session was begun: ${text}`);
  const send: Send = async (message) => (await post(message, { 'mcp-session-id': session })).text;
  await send({ method: 'notifications/initialized' });
  return send;
}

async function measured(called: Server, sessions: readonly Send[]): Promise<Omit<ToolFigures, 'way'>> {
  const took: number[] = [];
  let left = CALLS_IN_ROUND;
  const before = processorMs(called.pid);
  const began = performance.now();
  await Promise.all(
    sessions.map(async (send) => {
      while (left-- > 0) {
        const sent = performance.now();
        const params = { name: 'echo', arguments: { text: TEXT } };
        const text = await send({ id: left + 1, method: 'tools/call', params });
        took.push(performance.now() - sent);
        if (!text.includes(`"text":"${TEXT}"`)) throw new Error(`a call has failed: ${text}`);
      }
    }),
  );
  return {
    perSecond: (took.length * 1000) / (performance.now() - began),
    p50Ms: median(took),
    processorUs: ((processorMs(called.pid) - before) * 1000) / took.length,
  };
}
