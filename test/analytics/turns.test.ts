/** The order in which queries run, and the end of slow ones when others wait. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { ClickHouseException } from '../../src/http/clickhouse/embedded-clickhouse.ts';
import { type QueryTurn, QueryTurns, type TurnLimits, UnreadAnswers } from '../../src/http/clickhouse/turns.ts';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';

const limits: TurnLimits = { quick: 2, slow: 2, slowAfterMs: 1000, waiting: 3 };
const staying = new AbortController().signal;

/** A reader, and whether it has its turn by now. */
interface Reader {
  turn: QueryTurn | undefined;
  code: number | undefined;
  readonly over: Promise<void>;
}

function enter(turns: QueryTurns, gone = staying): Reader {
  const reader: Reader = {
    turn: undefined,
    code: undefined,
    over: turns.enter(gone).then(
      (turn) => {
        reader.turn = turn;
      },
      (error: unknown) => {
        reader.code = error instanceof ClickHouseException ? error.code : -1;
      },
    ),
  };
  return reader;
}

describe('turns', () => {
  let turns: QueryTurns;
  beforeEach(() => {
    vi.useFakeTimers();
    turns = new QueryTurns(limits);
  });
  afterEach(() => vi.useRealTimers());

  /** Advances the clock, and lets all readers enter that may. */
  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
  const running = (readers: readonly Reader[]) => readers.map(({ turn }) => turn !== undefined);
  const displaced = (readers: readonly Reader[]) => readers.map(({ turn }) => turn?.preempted.aborted);

  test('two run at once, and others follow in the order in which they came', async () => {
    const readers = [enter(turns), enter(turns), enter(turns), enter(turns)];
    await pass(0);
    expect(running(readers)).toEqual([true, true, false, false]);
    readers[1]?.turn?.end();
    await pass(0);
    expect(running(readers)).toEqual([true, true, true, false]);
    readers[0]?.turn?.end();
    await pass(0);
    expect(running(readers)).toEqual([true, true, true, true]);
  });

  test('a third reader does not wait for two slow queries', async () => {
    const readers = [enter(turns), enter(turns), enter(turns)];
    await pass(999);
    expect(running(readers)).toEqual([true, true, false]);
    await pass(1);
    expect(running(readers)).toEqual([true, true, true]);
    expect(displaced(readers)).toEqual([false, false, false]);
  });

  test('a slow query continues as long as no reader waits', async () => {
    const readers = [enter(turns), enter(turns), enter(turns), enter(turns)];
    await pass(60_000);
    expect(displaced(readers)).toEqual([false, false, false, false]);
  });

  test('when the slow places are taken, a late query ends for each waiting reader, the oldest first', async () => {
    const readers = [enter(turns), enter(turns)];
    await pass(1000);
    readers.push(enter(turns), enter(turns));
    await pass(1000);
    expect(displaced(readers)).toEqual([false, false, false, false]);
    readers.push(enter(turns));
    await pass(0);
    expect(displaced(readers)).toEqual([false, false, true, false, undefined]);
    readers[2]?.turn?.end();
    await pass(0);
    expect(running(readers)).toEqual([true, true, true, true, true]);
    readers.push(enter(turns), enter(turns));
    await pass(0);
    expect(displaced(readers).slice(0, 5)).toEqual([false, false, true, true, false]);
  });

  test('a place is free again when a slow query ends', async () => {
    const readers = [enter(turns), enter(turns)];
    await pass(1000);
    readers.push(enter(turns), enter(turns));
    await pass(1000);
    readers[0]?.turn?.end();
    readers.push(enter(turns));
    await pass(0);
    expect(running(readers)).toEqual([true, true, true, true, true]);
    expect(displaced(readers)).toEqual([false, false, false, false, false]);
  });

  test('readers beyond the queue are refused, and one that leaves makes room', async () => {
    const leaving = new AbortController();
    const readers = [enter(turns), enter(turns), enter(turns), enter(turns, leaving.signal), enter(turns)];
    const refused = enter(turns);
    await refused.over;
    expect(refused.code).toBe(202);
    leaving.abort();
    await readers[3]?.over;
    expect(readers[3]?.code).toBe(394);
    const next = enter(turns);
    readers[0]?.turn?.end();
    readers[1]?.turn?.end();
    await pass(0);
    expect(running([...readers, next])).toEqual([true, true, true, false, true, false]);
    const gone = enter(turns, AbortSignal.abort());
    await gone.over;
    expect(gone.code).toBe(394);
  });
});

describe('answers that their clients do not read', () => {
  const sending = () => Promise.withResolvers<void>();

  test('are broken off after their time', async () => {
    vi.useFakeTimers();
    try {
      const { promise, resolve } = sending();
      const breakOff = vi.fn(resolve);
      const over = new UnreadAnswers({ bytes: 100, ms: 1000 }).during(10, breakOff, () => promise);
      await vi.advanceTimersByTimeAsync(999);
      expect(breakOff).not.toHaveBeenCalled();
      await vi.advanceTimersByTimeAsync(1);
      expect(breakOff).toHaveBeenCalledOnce();
      await over;
    } finally {
      vi.useRealTimers();
    }
  });

  test('are broken off, the oldest first, when a newer one needs their bytes', async () => {
    const unread = new UnreadAnswers({ bytes: 100, ms: 60_000 });
    const broken: string[] = [];
    const begin = (name: string, bytes: number) => {
      const { promise, resolve } = sending();
      const breakOff = () => {
        broken.push(name);
        resolve();
      };
      return { over: unread.during(bytes, breakOff, () => promise), taken: resolve };
    };
    const answers = [begin('a', 40), begin('b', 40), begin('c', 20)];
    expect(broken).toEqual([]);
    answers.push(begin('d', 30));
    expect(broken).toEqual(['a']);
    answers[1]?.taken();
    await answers[1]?.over;
    answers.push(begin('e', 50));
    expect(broken).toEqual(['a']);
    answers.push(begin('larger than all', 150));
    expect(broken).toEqual(['a', 'c', 'd', 'e']);
    for (const { taken } of answers) taken();
    await Promise.all(answers.map(({ over }) => over));
  });
});

describe.skipIf(!hasChdb)('readers of the embedded ClickHouse', () => {
  const unread = { bytes: 60_000_000, ms: 3000 };
  let embedded: Embedded;
  beforeAll(async () => {
    embedded = await startEmbedded({ turns: { quick: 1, slow: 2, slowAfterMs: 300, waiting: 10 }, unread });
  });
  afterAll(() => embedded?.close());

  test('others are answered while clients do not read their answers, which end', { timeout: 60_000 }, async () => {
    const closed: Promise<unknown>[] = [];
    const ended = (socket: Socket) => new Promise((resolve) => socket.once('close', resolve));
    embedded.server.on('connection', (socket) => closed.push(ended(socket)));
    const query = "SELECT number, repeat('a', 1000) FROM numbers(20000) FORMAT TSV";
    const { hostname, port } = new URL(embedded.url);
    const clients = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const client = connect({ host: hostname, port: Number(port) });
        await once(client, 'connect');
        // Broken off by the server, at last.
        client.on('error', () => {});
        client.pause();
        client.write(
          'POST / HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: administrator\r\nX-ClickHouse-Key: governs\r\n' +
            `Content-Length: ${query.length}\r\n\r\n${query}`,
        );
        return client;
      }),
    );
    const held = closed.slice(0, clients.length);
    const answer = await fetch(embedded.url, {
      method: 'POST',
      headers: { 'x-clickhouse-user': 'administrator', 'x-clickhouse-key': 'governs' },
      body: 'SELECT 1',
    });
    expect(await answer.text()).toBe('1\n');
    await Promise.all(held);
    for (const client of clients) client.destroy();
  });

  test('a third is answered while two slow queries run, and another by ending a late one', {
    timeout: 60_000,
  }, async () => {
    const leaving = new AbortController();
    const ask = async (query: string) => {
      const headers = { 'x-clickhouse-user': 'administrator', 'x-clickhouse-key': 'governs' };
      const answer = await fetch(embedded.url, { method: 'POST', headers, body: query, signal: leaving.signal });
      return answer.text();
    };
    const over: string[] = [];
    const slow = (name: string) =>
      ask(`SELECT '${name}', sleepEachRow(0.5) FROM numbers(90) SETTINGS max_block_size = 1`).then(
        (text) => over.push(text),
        () => over.push('left'),
      );
    const ends = [slow('first'), slow('second')];
    expect(await ask('SELECT 3')).toBe('3\n');
    expect(over).toEqual([]);

    ends.push(slow('third'));
    expect(await ask('SELECT 4')).toBe('4\n');
    expect(over).toHaveLength(1);
    expect(over[0]).toMatch(/ended after more than 0\.3 seconds, because others wait and 2 slow queries run already/);
    leaving.abort();
    await Promise.all(ends);
    const running = async () => {
      const query =
        "SELECT count() FROM system.processes WHERE query LIKE '%sleepEachRow%' AND query NOT LIKE '%processes%'";
      return (await embedded.clientOf('projector').query({ query, format: 'TabSeparated' })).text();
    };
    await expect.poll(running, { timeout: 20_000 }).toBe('0\n');
  });
});
