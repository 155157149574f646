/** Chains of turns of the Responses API: over one WebSocket each, and as streams over HTTP with kept connections. */
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { WebSocket } from 'ws';
import { cores } from '../servers/cores.ts';
import { GATEWAY_KEY, startGateway } from '../servers/gateway.ts';
import type { Server } from '../servers/launch.ts';
import { processorMs } from '../servers/process-stat.ts';
import { median } from './median.ts';

const TURNS_IN_CHAIN = 20;
/** Chains at the same time. */
const CHAINS = 8;
/** Of each way in a round. */
const CHAINS_IN_ROUND = 40;
const ROUNDS = 7;
const AUTHORIZATION = { authorization: `Bearer ${GATEWAY_KEY}` };

const ways = ['WebSocket', 'HTTP'] as const;
type Way = (typeof ways)[number];

/** Medians of the rounds. */
export interface TurnFigures {
  readonly way: Way;
  readonly perSecond: number;
  /** From the message or request to the end of the response. */
  readonly p50Ms: number;
  /** Processor time of the gateway for a turn. */
  readonly processorUs: number;
}

export interface Turns {
  readonly turnsInChain: number;
  readonly chains: number;
  readonly figures: readonly TurnFigures[];
}

/** @param upstream the base URL of a provider of streams, whose responses are translated */
export async function measureTurns(workDir: string, upstream: string): Promise<Turns> {
  const dataDir = join(workDir, `turns-${process.pid}`);
  const gateway = await startGateway({ dataDir, providers: { LLAMACPP: upstream }, cores: cores.server });
  const agent = new Agent({ connections: CHAINS });
  const chainOf = { WebSocket: socketChain, HTTP: (server: Server) => httpChain(server, agent) };
  const rounds: Record<Way, Omit<TurnFigures, 'way'>[]> = { WebSocket: [], HTTP: [] };
  try {
    // The first round compiles the code.
    for (let round = 0; round <= ROUNDS; round++) {
      for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
        const figures = await measured(gateway, () => chainOf[way](gateway));
        if (round > 0) rounds[way].push(figures);
      }
    }
  } finally {
    await agent.close();
    await gateway.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
  const middle = (way: Way, name: keyof (typeof rounds)[Way][number]) => median(rounds[way].map((one) => one[name]));
  return {
    turnsInChain: TURNS_IN_CHAIN,
    chains: CHAINS,
    figures: ways.map((way) => ({
      ...{ way, perSecond: middle(way, 'perSecond'), p50Ms: middle(way, 'p50Ms') },
      processorUs: middle(way, 'processorUs'),
    })),
  };
}

/** @param chain sends the turns of one, and resolves with the milliseconds of each */
async function measured(gateway: Server, chain: () => Promise<number[]>): Promise<Omit<TurnFigures, 'way'>> {
  const took: number[] = [];
  let left = CHAINS_IN_ROUND;
  const before = processorMs(gateway.pid);
  const began = performance.now();
  await Promise.all(
    Array.from({ length: CHAINS }, async () => {
      while (left-- > 0) took.push(...(await chain()));
    }),
  );
  return {
    perSecond: (took.length * 1000) / (performance.now() - began),
    p50Ms: median(took),
    processorUs: ((processorMs(gateway.pid) - before) * 1000) / took.length,
  };
}

function turn(previous: string | undefined) {
  return {
    model: 'llamacpp/canned',
    input: 'Go on.',
    ...(previous !== undefined && { previous_response_id: previous }),
  };
}

/** The id in a terminal event. */
const COMPLETED = /"type":"response\.completed".*?"response":{"id":"([^"]+)"/s;

function idIn(text: string): string {
  const id = COMPLETED.exec(text)?.[1];
  if (id === undefined) throw new Error(`a turn has not completed: ${text.slice(-500)}`);
  return id;
}

/** The handshake is part of the first turn. */
async function socketChain({ origin }: Server): Promise<number[]> {
  const took: number[] = [];
  let began = performance.now();
  const socket = new WebSocket(`${origin.replace('http', 'ws')}/v1/responses`, { headers: AUTHORIZATION });
  await once(socket, 'open');
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.on('error', reject);
  socket.on('close', () => reject(new Error('the socket was closed')));
  const next = (previous: string | undefined) => {
    socket.send(JSON.stringify({ type: 'response.create', ...turn(previous) }));
  };
  socket.on('message', (data: Buffer) => {
    const head = data.toString('latin1', 0, 40);
    if (!head.includes('"response.completed"')) {
      if (head.includes('"error"') || head.includes('"response.failed"')) reject(new Error(String(data)));
      return;
    }
    took.push(performance.now() - began);
    if (took.length === TURNS_IN_CHAIN) {
      resolve();
      return;
    }
    began = performance.now();
    next(idIn(String(data)));
  });
  next(undefined);
  await promise;
  socket.terminate();
  return took;
}

async function httpChain({ origin }: Server, agent: Agent): Promise<number[]> {
  const took: number[] = [];
  let previous: string | undefined;
  for (let n = 0; n < TURNS_IN_CHAIN; n++) {
    const began = performance.now();
    const { body } = await request(`${origin}/v1/responses`, {
      method: 'POST',
      headers: { ...AUTHORIZATION, 'content-type': 'application/json' },
      body: JSON.stringify({ ...turn(previous), stream: true }),
      dispatcher: agent,
    });
    const text = await body.text();
    took.push(performance.now() - began);
    previous = idIn(text);
  }
  return took;
}
