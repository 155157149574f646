/** WebSockets of a gateway that is killed, and of several workers. */
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { exchangeEnds, requestReceived } from '../../src/events/catalogue/exchange.ts';
import { idOf } from '../../src/events/event.ts';
import { openSocket, type TestSocket } from '../support/response-socket.ts';
import { ask, killAll, MASTER_KEY, serve, stopGateway, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ models: ['m', 'm-pace-4'], responses: 'absent', remember: 100_000 });
let upstream = '';
let tests = 0;

beforeAll(async () => {
  upstream = await provider.listen();
});
afterEach(() => {
  killAll();
  tests += 1;
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

/** Sends turns, each of which continues the last, until the socket ends. @returns the ids of the completed responses */
async function chain(socket: TestSocket, more: object, answered: () => void): Promise<string[]> {
  const ids: string[] = [];
  try {
    for (;;) {
      const previous_response_id = ids.at(-1);
      const end = await socket.turn({ model: 'llamacpp/m-pace-4', input: 'go on', previous_response_id, ...more });
      if (end.type !== 'response.completed') return ids;
      ids.push(end.response.id);
      answered();
    }
  } catch {
    return ids;
  }
}

describe.each([1, 2])('sockets of a gateway with %i workers', (workers) => {
  it('get no acknowledgement that a kill can take back, and end orderly with a stop', async () => {
    const dataDir = join(folder.path, String(tests));
    const env = { LLAMACPP_BASE_URL: upstream, RETRY_MAX_RETRIES: '0', GATEWAY_WORKERS: String(workers) };
    const first = await serve({ dataDir, env });
    const sockets = await Promise.all(Array.from({ length: 6 }, () => openSocket(first.url, MASTER_KEY)));
    let turns = 0;
    const enough = Promise.withResolvers<void>();
    const answered = () => {
      turns += 1;
      if (turns === 30) enough.resolve();
    };
    const chains = sockets.map((socket, n) => chain(socket, n % 2 === 0 ? {} : { store: false }, answered));
    await enough.promise;
    first.process.kill('SIGKILL');
    await first.process.exited;
    const ids = await Promise.all(chains);
    expect(ids.flat().length).toBeGreaterThanOrEqual(30);

    const second = await serve({ dataDir, env });
    for (const [n, stored] of ids.entries()) {
      if (n % 2 !== 0) continue;
      for (const id of stored) expect((await ask(second.url, `/v1/responses/${id}`)).status).toBe(200);
    }
    const socket = await openSocket(second.url, MASTER_KEY);
    const last = { model: 'llamacpp/m', previous_response_id: ids[0]?.at(-1), input: 'after the crash' };
    expect(await socket.turn(last)).toMatchObject({ type: 'response.completed' });
    await stopGateway(second);
    expect((await socket.closed)[0]).toBe(1012);

    const ends = new Map<string, string[]>();
    for (const { stream, type } of await eventsIn(dataDir)) {
      if (type === requestReceived.type) ends.set(idOf(stream), []);
      if (exchangeEnds.has(type)) ends.get(idOf(stream))?.push(type);
    }
    expect([...ends.values()].filter(({ length }) => length !== 1)).toEqual([]);
    const acknowledged = ids.flat().map((id) => id.replace('resp_', ''));
    const byId = new Map([...ends].map(([id, types]) => [id.replaceAll('-', ''), types]));
    expect(acknowledged.filter((id) => byId.get(id)?.join() !== 'exchange.completed')).toEqual([]);
  }, 60_000);
});
