/** The live stream of the dashboard with a real gateway: shared by tabs, resumed after breaks and restarts. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { LogPosition } from '../../dashboard/src/live/live-event.ts';
import { type LiveFilter, liveQuery } from '../../dashboard/src/live/live-filter.ts';
import { type LiveRow, usageOfRow } from '../../dashboard/src/live/live-row.ts';
import { SharedStream, type SharedStreamOptions } from '../../dashboard/src/live/shared-stream.ts';
import { streamName } from '../../dashboard/src/live/stream-name.ts';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask, type GatewayProcess, killAll, MASTER_KEY, serve, temporaryFolder } from '../e2e/gateway-process.ts';
import { newKey } from '../support/managed-keys.ts';
import { json, modelsListed } from '../support/with-gateway.ts';

const simulated = createSimulatedProvider({});
const folder = temporaryFolder();
const env: Record<string, string> = { DASHBOARD_LIVE_LOGS_REPLAY_LIMIT: '60' };
let url = '';
let gateway: GatewayProcess;

async function startGateway(): Promise<void> {
  const started = await serve({
    dataDir: folder.path,
    env: { ...env, ANALYTICS_ENABLED: 'true', ANALYTICS_SANDBOX: 'off' },
  });
  url = started.url;
  gateway = started.process;
}

beforeAll(async () => {
  env['LLAMACPP_BASE_URL'] = await simulated.listen();
  await startGateway();
  await modelsListed({ fetch: (path, init) => ask(url, path, init) });
}, 60_000);
afterAll(async () => {
  killAll();
  await simulated.close();
  folder.remove();
});

/** A tab of a browser, as far as the stream is concerned. */
interface Tab {
  readonly stream: SharedStream;
  /** Cursors of its connections. */
  readonly connections: (LogPosition | undefined)[];
  visible: boolean;
  /** Breaks the connection, as a network does. */
  break(): void;
  /** While true, the gateway cannot be reached. */
  isOffline: boolean;
}

const tabs: Tab[] = [];
afterEach(() => {
  for (const { stream } of tabs.splice(0)) stream.close();
});

class RefusedError extends Error {
  readonly status: number;
  readonly code: string;
  readonly retryAfterSeconds: number | undefined;
  constructor(status: number, error: { code: string; message: string }, retryAfter: string | null) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.retryAfterSeconds = retryAfter === null ? undefined : Number(retryAfter);
  }
}

interface TabOptions extends Partial<SharedStreamOptions> {
  readonly key?: string;
  readonly at?: string;
  readonly visible?: boolean;
}

async function openTab({ key = MASTER_KEY, at, visible = true, ...options }: TabOptions = {}): Promise<Tab> {
  const filter: LiveFilter = options.filter ?? {};
  const connections: Tab['connections'] = [];
  let breaker = new AbortController();
  const answerOf = async (path: string, signal: AbortSignal, headers: Record<string, string> = {}) => {
    if (tab.isOffline) throw new Error('offline');
    const response = await fetch(`${at ?? url}${path}`, {
      headers: { authorization: `Bearer ${key}`, ...headers },
      signal: AbortSignal.any([signal, breaker.signal]),
    });
    if (response.ok) return response;
    const { error } = await json(response);
    throw new RefusedError(response.status, error, response.headers.get('retry-after'));
  };
  const tab: Tab = {
    stream: undefined as unknown as SharedStream,
    connections,
    visible,
    isOffline: false,
    break() {
      breaker.abort(new Error('the network is down'));
      breaker = new AbortController();
    },
  };
  const stream = new SharedStream({
    name: await streamName('here', key, filter),
    filter,
    open: (cursor, signal) => {
      connections.push(cursor);
      const query = new URLSearchParams(liveQuery(filter));
      return answerOf(`/admin/live/logs?${query}`, signal, cursor === undefined ? {} : { 'last-event-id': cursor });
    },
    readLog: async (query, signal) => (await answerOf(`/admin/audit/log?${new URLSearchParams(query)}`, signal)).json(),
    onChange: () => {},
    isVisible: () => tab.visible,
    locks: navigator.locks,
    pause: () => yieldToOthers(),
    pausesMs: [50, 200, 500, 500, 500, 500, 500, 500, 1000, 2000, 4000],
    ...options,
  });
  const opened = Object.assign(tab, { stream });
  tabs.push(opened);
  return opened;
}

const isLive = (tab: Tab) => expect.poll(() => tab.stream.status.state).toBe('live');
const ids = (tab: Tab) => tab.stream.state.rows.map(({ id }) => id);

/** @returns the id of its exchange */
async function send(body: object = {}, key?: string): Promise<string> {
  const answer = await ask(url, '/v1/chat/completions', {
    json: { model: 'llamacpp/simulated-small', messages: [{ role: 'user', content: 'Hello' }], ...body },
    ...(key === undefined ? {} : { key }),
  });
  await answer.text();
  return answer.headers.get('x-exchange-id') ?? '';
}

async function hasEnded(tab: Tab, id: string): Promise<LiveRow> {
  const find = () => tab.stream.state.get(id);
  await expect.poll(() => find()?.outcome, { interval: 10 }).toBeDefined();
  await expect.poll(() => usageOfRow(find() as LiveRow)?.entries, { interval: 10 }).toBeGreaterThan(0);
  return find() as LiveRow;
}

describe('the live stream', () => {
  it('shows a request with its end, its answer and its usage', async () => {
    const tab = await openTab();
    await isLive(tab);
    const id = await send({ stream: true, messages: [{ role: 'user', content: 'Reply with exactly: good day' }] });
    const row = await hasEnded(tab, id);
    expect(row).toMatchObject({
      state: 'completed',
      status: 200,
      path: '/v1/chat/completions',
      answerTail: 'good day',
    });
    expect(usageOfRow(row)).toMatchObject({ entries: 1, inputTokens: expect.any(Number) });
    expect(tab.stream.state.gaps).toEqual([]);
  });

  it('resumes from the last event after a break, without a gap', async () => {
    const tab = await openTab();
    await isLive(tab);
    const before = await send();
    await hasEnded(tab, before);
    const { position } = tab.stream.state;
    tab.isOffline = true;
    tab.break();
    await expect.poll(() => tab.stream.status.state).toBe('waiting');
    const during = [await send(), await send()];
    tab.isOffline = false;
    tab.stream.retry();
    for (const id of during) await hasEnded(tab, id);
    expect(ids(tab)).toEqual([before, ...during]);
    expect(tab.connections.at(-1)).toBe(position);
    expect(tab.stream.state.gaps).toEqual([]);
  });

  it('marks a gap when more was missed than is replayed, and adds its requests from the audit log', async () => {
    const tab = await openTab();
    await isLive(tab);
    const pausing = send({ stream: true, simulate: { holdAfterChunks: 2 } });
    await expect.poll(() => tab.stream.state.rows.length).toBe(1);
    tab.isOffline = true;
    tab.break();
    simulated.control.release();
    const missed = [await pausing];
    for (let count = 0; count < 30; count += 1) missed.push(await send());
    tab.isOffline = false;
    tab.stream.retry();
    await expect.poll(() => tab.stream.state.gaps.map(({ state }) => state), { timeout: 20_000 }).toEqual(['loaded']);
    expect(ids(tab).sort()).toEqual(missed.sort());
    expect(tab.stream.state.rows.every(({ state }) => state === 'completed')).toBe(true);
    const after = await send();
    await hasEnded(tab, after);
    expect(ids(tab).at(-1)).toBe(after);
  }, 40_000);

  it('stops with the reason when the key is not accepted', async () => {
    const unknown = await openTab({ key: 'sk_unknown' });
    await expect.poll(() => unknown.stream.status).toMatchObject({ state: 'stopped', reason: 'key_refused' });
    const { value } = await newKey({ fetch: (path, init) => ask(url, path, init) }, { name: 'no dashboard' });
    const denied = await openTab({ key: value });
    await expect.poll(() => denied.stream.status).toMatchObject({ state: 'stopped', reason: 'access_denied' });
    expect(denied.connections).toEqual([undefined]);
  });

  it('stops with the message of the gateway for a filter that it refuses', async () => {
    const tab = await openTab({ filter: { userPath: '/a/../b' } });
    await expect
      .poll(() => tab.stream.status)
      .toMatchObject({
        ...{ state: 'stopped', reason: 'request_refused', message: expect.stringContaining('user_path') },
      });
  });

  it('shows only the requests of its filter', async () => {
    const tab = await openTab({ filter: { show: 'failed' } });
    await isLive(tab);
    await send();
    const failed = await send({ model: 'llamacpp/nothing' });
    await expect.poll(() => ids(tab)).toEqual([failed]);
    expect(tab.stream.state.rows[0]).toMatchObject({ state: 'refused', status: 404 });
  });
});

describe('tabs with the same stream', () => {
  it('share one connection; each has all rows, also those from before it was opened', async () => {
    const first = await openTab();
    await isLive(first);
    const sent = [await send(), await send()];
    for (const id of sent) await hasEnded(first, id);
    const others = [await openTab(), await openTab()];
    for (const tab of others) await expect.poll(() => ids(tab)).toEqual(sent);
    sent.push(await send());
    for (const tab of tabs) await hasEnded(tab, sent[2] ?? '');
    for (const tab of others) {
      expect(tab.stream.state.rows).toEqual(first.stream.state.rows);
      expect(tab.stream.status).toEqual({ state: 'live' });
      expect(tab.connections).toEqual([]);
    }
    expect(first.connections).toEqual([undefined]);
  });

  it('lose nothing when the leading one closes, again and again, while requests arrive', async () => {
    const first = await openTab();
    await isLive(first);
    for (let count = 0; count < 5; count += 1) await openTab();
    const survivor = tabs.at(-1) as Tab;
    await isLive(survivor);
    const sent: string[] = [];
    while (tabs.length > 1) {
      sent.push(await send({ stream: true }));
      const leader = tabs.find(({ stream }) => stream.isLeader);
      // The survivor is the last in the queue for the lock.
      if (leader !== undefined && leader !== survivor) {
        leader.stream.close();
        tabs.splice(tabs.indexOf(leader), 1);
      }
      sent.push(await send());
    }
    for (const id of sent) await hasEnded(survivor, id);
    expect(ids(survivor)).toEqual(sent);
    expect(survivor.stream.state.gaps).toEqual([]);
    expect(survivor.stream.isLeader).toBe(true);
    expect(survivor.connections).toHaveLength(1);
    expect(survivor.connections[0]).toBeDefined();
  }, 40_000);

  it('have a stream of their own when the filter or the key is another', async () => {
    const names = await Promise.all([
      streamName('here', MASTER_KEY, {}),
      streamName('here', MASTER_KEY, { show: 'failed' }),
      streamName('here', 'another key', {}),
      streamName('there', MASTER_KEY, {}),
    ]);
    expect(new Set(names).size).toBe(4);
    expect(await streamName('here', MASTER_KEY, { show: 'all', path: '' })).toBe(names[0]);
  });

  it('post no key', async () => {
    const posted: string[] = [];
    const name = await streamName('here', MASTER_KEY, {});
    const channel = new BroadcastChannel(name);
    channel.onmessage = (event) => posted.push(JSON.stringify((event as { data: unknown }).data));
    await openTab();
    const second = await openTab();
    await isLive(second);
    await hasEnded(second, await send());
    channel.close();
    expect(posted.length).toBeGreaterThan(3);
    expect(`${name}${posted.join()}`).not.toContain(MASTER_KEY);
  });

  it('read the stream in the visible one', async () => {
    const hidden = await openTab();
    await isLive(hidden);
    const visible = await openTab();
    await isLive(visible);
    expect(visible.stream.isLeader).toBe(false);
    hidden.visible = false;
    hidden.stream.visibilityChanged();
    await expect.poll(() => visible.stream.isLeader).toBe(true);
    await expect.poll(() => hidden.stream.isLeader).toBe(false);
    const id = await send();
    for (const tab of [hidden, visible]) await hasEnded(tab, id);
    hidden.visible = true;
    visible.stream.close();
    const later = await send();
    await hasEnded(hidden, later);
    expect(ids(hidden)).toEqual([id, later]);
    expect(hidden.stream.state.gaps).toEqual([]);
  });

  it('read streams of their own without Web Locks', async () => {
    const one = await openTab({ locks: undefined });
    const other = await openTab({ locks: undefined });
    for (const tab of [one, other]) await isLive(tab);
    const id = await send();
    for (const tab of [one, other]) {
      await hasEnded(tab, id);
      expect(tab.connections).toHaveLength(1);
    }
  });

  it('stop the connection when the last one closes', async () => {
    const tab = await openTab();
    await isLive(tab);
    const clients = async () => /gateway_live_log_clients (\d+)/.exec(await (await ask(url, '/metrics')).text())?.[1];
    await expect.poll(clients).toBe('1');
    tab.stream.close();
    await expect.poll(clients).toBe('0');
  });
});

describe('a gateway that is killed and started again', () => {
  it('loses no row and repeats none, in every tab; a request in flight is shown as failed', async () => {
    const tab = await openTab();
    const other = await openTab();
    for (const one of [tab, other]) await isLive(one);
    const sent = [await send()];
    const broken = send({ stream: true, simulate: { holdAfterChunks: 3 } }).catch(() => '');
    await expect.poll(() => tab.stream.state.rows.some(({ state }) => state === 'streaming')).toBe(true);
    gateway.kill('SIGKILL');
    await gateway.exited;
    await broken;
    simulated.control.release();
    await expect.poll(() => other.stream.status.state).toBe('waiting');
    await startGateway();
    tab.stream.retry();
    other.stream.retry();
    for (const one of [tab, other]) {
      await isLive(one);
      await expect.poll(() => one.stream.state.rows.map(({ state }) => state)).toEqual(['completed', 'failed']);
    }
    sent.push(tab.stream.state.rows[1]?.id ?? '', await send());
    for (const one of [tab, other]) {
      await hasEnded(one, sent[2] ?? '');
      expect(ids(one)).toEqual(sent);
      expect(one.stream.state.gaps).toEqual([]);
    }
  }, 60_000);
});

describe('a server that does not answer as it should', () => {
  it('is connected again when it is silent', async () => {
    let connections = 0;
    const server = createServer((_request, response) => {
      connections += 1;
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const tab = await openTab({
      at: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      silenceMs: 100,
      key: 'silent',
    });
    await expect.poll(() => connections, { timeout: 10_000 }).toBeGreaterThan(1);
    tab.stream.close();
    server.closeAllConnections();
    server.close();
  });

  it('is not called before the time of Retry-After', async () => {
    const calls: number[] = [];
    const server = createServer((_request, response) => {
      calls.push(performance.now());
      response.writeHead(429, { 'content-type': 'application/json', 'retry-after': '1' });
      response.end('{"error":{"code":"too_many_live_clients","message":"The maximum of 1 listeners is reached."}}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const tab = await openTab({ at: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, key: 'late' });
    await expect
      .poll(() => tab.stream.status)
      .toMatchObject({
        ...{ state: 'waiting', message: 'The maximum of 1 listeners is reached.' },
      });
    await expect.poll(() => calls.length, { timeout: 10_000 }).toBe(2);
    expect((calls[1] ?? 0) - (calls[0] ?? 0)).toBeGreaterThanOrEqual(990);
    tab.stream.close();
    server.close();
  });
});
