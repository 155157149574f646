/** The checks of cached answers and of the plugin can fail: they find evidence of a real round that was changed. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RecordedEvent } from '../../src/events/event.ts';
import { killAll, serve, temporaryFolder } from '../e2e/gateway-process.ts';
import { eventsIn } from '../e2e/recorded-events.ts';
import { CachedClient, CachedTraffic } from './cached-client.ts';
import { isWholeAnswer } from './check-guarded.ts';
import { knownResponses } from './check-responses.ts';
import { checkRound } from './check-round.ts';
import type { CachedRequest, Conversation, PluginRequest, ProviderCall } from './evidence.ts';
import { guardWithPlugin, PluginClient } from './plugin-client.ts';
import { PluginProcesses } from './plugin-processes.ts';
import { createChance } from './random.ts';
import { RecordedLog } from './recorded-log.ts';
import { Upstreams } from './upstreams.ts';
import { WireClient } from './wire-client.ts';

interface Case {
  events: RecordedEvent[];
  conversations: Conversation[];
  calls: ProviderCall[];
}

const folder = temporaryFolder();
const upstreams = new Upstreams();
const plugins = new PluginProcesses();
const traffic = new CachedTraffic(createChance(7));
const cachedClients = Array.from(
  { length: 4 },
  (_, index) => new CachedClient(`t${index}`, createChance(index + 1), traffic, index === 0),
);
const pluginClients = Array.from({ length: 2 }, (_, index) => new PluginClient(`b${index}`, createChance(index + 11)));
let honest: Case;
let pluginPids: number[];
let pluginPidsLeft: string[];

beforeAll(async () => {
  const settings = { GUARDRAILS_ENABLED: 'true', RESPONSE_CACHE_ENABLED: 'true' };
  const env = { ...(await upstreams.listen()), ...settings, ...plugins.env };
  const { url, process } = await serve({ dataDir: folder.path, env });
  await guardWithPlugin(new WireClient(url));
  const conversations: Conversation[] = [];
  const hasAll = () => kinds.every(([route, stream]) => conversations.some(ofCachedClients(wholeHit(stream, route))));
  const enough = () => conversations.length >= 400 && (hasAll() || conversations.length > 2000);
  const clients = [...cachedClients, ...pluginClients];
  await Promise.all(clients.map((client) => client.run(new WireClient(url), conversations, enough)));
  process.kill('SIGTERM');
  await process.exited;
  const again = await serve({ dataDir: folder.path, env });
  pluginPids = await plugins.pids();
  again.process.kill('SIGKILL');
  await again.process.exited;
  pluginPidsLeft = await plugins.left();
  honest = { events: await eventsIn(folder.path), conversations, calls: upstreams.newCalls() };
}, 60_000);

afterAll(async () => {
  killAll();
  plugins.remove();
  await upstreams.close();
  folder.remove();
});

/** The names of the checks that find something wrong. */
async function findings(tamper: (evidence: Case) => void): Promise<string[]> {
  const evidence = { events: [...honest.events], conversations: [...honest.conversations], calls: [...honest.calls] };
  tamper(evidence);
  const log = new RecordedLog();
  for (const event of evidence.events) log.add(event);
  // Retrievals have a test of their own.
  const rest = { responses: [], deleted: new Map(), killedAt: 0, orderly: false };
  const given = cachedClients.flatMap((client) => client.given());
  const found = await checkRound({ ...evidence, ...rest, given }, log, () =>
    Promise.reject(new Error('not retrieved')),
  );
  return [...new Set(found.map(({ check }) => check))];
}

function change<Thing>(things: Thing[], wanted: (thing: Thing) => boolean, changed: (thing: Thing) => Thing): void {
  const index = things.findIndex(wanted);
  const thing = things[index];
  if (thing === undefined) throw new Error('the round left no such evidence');
  things[index] = changed(thing);
}

const withData = (event: RecordedEvent, data: object): RecordedEvent => ({
  ...event,
  data: { ...Object(event.data), ...data },
});

const ofType = (type: string) => (event: RecordedEvent) => event.type === type;

const streamsWith = (type: string) => new Set(honest.events.filter(ofType(type)).map(({ stream }) => stream));

/** An event of an exchange that the cache answered. */
const ofHit =
  (type: string) =>
  ({ type: own, stream }: RecordedEvent) =>
    own === type && streamsWith('cache.hit').has(stream);

/** The entry of the first hit. */
function entryOfHit({ events }: Case): (event: RecordedEvent) => boolean {
  const { exchangeId } = Object(events.find(ofType('cache.hit'))?.data);
  return ({ type, stream }) => type === 'cache.stored' && stream === `exchange-${exchangeId}`;
}

const isHit = ({ answer }: Conversation) => answer.headers['x-cache']?.startsWith('HIT') === true;
const isWhole = ({ request, answer }: Conversation) => isWholeAnswer(request, answer);
const hasKey = ({ request }: Conversation) => request.idempotencyKey !== undefined;

function wholeHit(stream: boolean, route: Conversation['request']['route']) {
  return (one: Conversation) =>
    isHit(one) && isWhole(one) && one.request.stream === stream && one.request.route === route;
}

const kinds = [
  ['chat', true],
  ['chat', false],
  ['responses', true],
  ['responses', false],
  ['messages', true],
  ['messages', false],
  ['embeddings', false],
] as const;

function ofCachedClients(wanted: (one: Conversation) => boolean) {
  return (one: Conversation) => wanted(one) && one.request.cached !== undefined;
}

function rewritten({ request, answer }: Conversation, from: string | RegExp, to: string): Conversation {
  const body = Buffer.from(answer.body.toString().replaceAll(from, to));
  if (body.equals(answer.body)) throw new Error('the answer has no such text');
  return { request, answer: { ...answer, body } };
}

function knowing({ request, answer }: Conversation, facts: Partial<CachedRequest>): Conversation {
  if (request.cached === undefined) throw new Error('the request is not of these clients');
  return { request: { ...request, cached: { ...request.cached, ...facts } }, answer };
}

function changed({ request, answer }: Conversation, facts: Partial<PluginRequest>): Conversation {
  if (request.plugin === undefined) throw new Error('the request is not of these clients');
  return { request: { ...request, plugin: { ...request.plugin, ...facts } }, answer };
}

it('find nothing wrong with an untampered round of every kind', async () => {
  expect(await findings(() => {})).toEqual([]);
  const { conversations, events } = honest;
  for (const [route, stream] of kinds) expect(conversations.some(wholeHit(stream, route))).toBe(true);
  expect(events.filter(ofType('cache.purged')).length).toBeGreaterThan(0);
  expect(cachedClients.flatMap((client) => client.given()).some(({ answers }) => answers.length > 1)).toBe(true);
  expect(conversations.some((one) => one.request.plugin !== undefined && isHit(one))).toBe(true);
  expect(knownResponses(conversations).length).toBeGreaterThan(0);
});

describe('a hit', () => {
  it.each(['attempt.started', 'chunk.received', 'answer.replayed', 'cache.stored'])(
    'with %s is reported',
    async (type) => {
      const found = await findings(({ events }) =>
        change(events, ofHit('model.resolved'), (event) => ({
          ...event,
          type,
          ...(type === 'cache.stored' && { data: honest.events.find(ofType(type))?.data }),
        })),
      );
      expect(found).toContain('cache hit');
    },
  );

  it('that did not complete is reported', async () => {
    const found = await findings(({ events }) =>
      change(events, ofHit('exchange.completed'), (event) => ({ ...event, type: 'exchange.failed' })),
    );
    expect(found).toContain('cache hit');
  });

  it.each([{ cacheType: undefined }, { totalCost: '1' }])('with the usage %j is reported', async (data) => {
    const found = await findings(({ events }) =>
      change(events, ofHit('usage.recorded'), (event) => withData(event, data)),
    );
    expect(found).toEqual(['cache hit']);
  });

  it('without usage is reported', async () => {
    const found = await findings(({ events }) =>
      change(events, ofHit('usage.recorded'), (event) => ({ ...event, type: 'labels.added' })),
    );
    expect(found).toContain('cache hit');
  });

  it('of an entry that is not on record is reported', async () => {
    const found = await findings((evidence) =>
      change(evidence.events, entryOfHit(evidence), (event) => ({ ...event, type: 'labels.added' })),
    );
    expect(found).toEqual(['cache source']);
  });

  it('with another digest than that of its entry is reported', async () => {
    const found = await findings(({ events }) =>
      change(events, ofType('cache.hit'), (event) => withData(event, { digest: 'other' })),
    );
    expect(found).toEqual(['cache source']);
  });

  it('of another path is reported', async () => {
    const found = await findings((evidence) =>
      change(evidence.events, entryOfHit(evidence), (event) => ({
        ...event,
        context: { ...event.context, userPath: '/elsewhere' as RecordedEvent['context']['userPath'] },
      })),
    );
    expect(found).toContain('cache scope');
  });

  it('of an expired entry is reported', async () => {
    const found = await findings((evidence) =>
      change(evidence.events, entryOfHit(evidence), (event) => withData(event, { expiresAt: 1 })),
    );
    expect(found).toContain('cache expiry');
  });

  it('of an entry that an acknowledged purge removed is reported', async () => {
    const found = await findings(({ events, conversations }) => {
      const last = events.at(-1);
      if (last === undefined) throw new Error('there are no events');
      const position = String(events.length + 1).padStart(16, '0') as RecordedEvent['position'];
      const context = { ...last.context, requestId: 'late' };
      events.push({
        ...{ ...last, id: 'late', type: 'cache.purged', position, context, data: { userPath: '/cached' } },
        revision: last.revision + 1n,
      });
      change(conversations, ofCachedClients(isHit), (one) => knowing(one, { purges: ['late'] }));
    });
    expect(found).toContain('purge');
  });

  it('in spite of no-cache is reported', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, ofCachedClients(isHit), (one) => knowing(one, { reads: false })),
    );
    expect(found).toEqual(['cache control']);
  });

  it.each(kinds)('with another text is reported (%s, stream: %s)', async (route, stream) => {
    const found = await findings(({ conversations }) =>
      change(conversations, ofCachedClients(wholeHit(stream, route)), (one) =>
        knowing(one, { text: 'something else' }),
      ),
    );
    expect(found).toEqual(['cache text']);
  });

  it.each(['chat', 'messages', 'responses'] as const)('with other bytes is reported (%s)', async (route) => {
    const found = await findings(({ conversations }) =>
      change(conversations, wholeHit(true, route), (one) => rewritten(one, '"model":"', '"model":"x')),
    );
    expect(found).toContain('cache bytes');
  });

  it('whose stored response is another one is reported', async () => {
    const found = await findings(({ conversations }) =>
      change(
        conversations,
        (one) => wholeHit(false, 'responses')(one) && one.request.store === true,
        (one) => rewritten(one, '"created_at":1', '"created_at":2'),
      ),
    );
    expect(found).toEqual(['bytes']);
  });

  it('without the header is reported, and the header without a hit', async () => {
    for (const [wanted, header] of [
      [isHit, 'MISS'],
      [(one: Conversation) => one.answer.headers['x-cache'] === 'MISS' && isWhole(one), 'HIT (exact)'],
    ] as const) {
      const found = await findings(({ conversations }) =>
        change(conversations, wanted, ({ request, answer }) => ({
          request,
          answer: { ...answer, headers: { ...answer.headers, 'x-cache': header } },
        })),
      );
      expect(found).toEqual(['cache header']);
    }
  });

  it.each(['chat', 'messages', 'responses'] as const)(
    'with the ids of another answer is reported (%s)',
    async (route) => {
      const found = await findings(({ conversations }) => {
        const [first, second] = conversations.filter((one) => wholeHit(false, route)(one) && !hasKey(one));
        if (first === undefined || second === undefined) throw new Error('the round left no such evidence');
        const ids = [first, second].map(({ answer }) => /"id":"([^"]+)"/.exec(answer.body.toString())?.[1] ?? '');
        change(
          conversations,
          (one) => one === second,
          (one) => ({
            ...rewritten(one, ids[1] ?? '', ids[0] ?? ''),
            request: { ...one.request, provider: first.request.provider },
          }),
        );
      });
      expect(found).toContain('ids');
    },
  );
});

describe('an answer that is cached', () => {
  const stored = (userPath: string) => (event: RecordedEvent) =>
    event.type === 'cache.stored' && event.context.userPath === userPath;
  const conversationOf = ({ events, conversations }: Case) => {
    const streams = new Set(events.filter(stored('/cached/a')).map(({ stream }) => stream));
    return conversations.findIndex(({ answer }) =>
      streams.has(`exchange-${answer.headers['x-exchange-id']}` as RecordedEvent['stream']),
    );
  };

  it('of an exchange that did not complete is reported', async () => {
    const ofStored = streamsWith('cache.stored');
    const found = await findings(({ events }) =>
      change(
        events,
        ({ type, stream }) => type === 'exchange.completed' && ofStored.has(stream),
        (event) => ({ ...event, type: 'client.disconnected' }),
      ),
    );
    expect(found).toContain('cache stored');
  });

  it.each([{ stores: false }, { ttlSeconds: 1 }])('in spite of %j is reported', async (facts) => {
    const found = await findings((evidence) => {
      const at = conversationOf(evidence);
      change(
        evidence.conversations,
        (one) => one === evidence.conversations[at],
        (one) => knowing(one, facts),
      );
    });
    expect(found).toEqual(['cache control']);
  });
});

it('an acknowledged purge that is not on record is reported', async () => {
  const found = await findings(({ conversations }) =>
    change(conversations, ofCachedClients(isHit), (one) => knowing(one, { purges: ['lost'] })),
  );
  expect(found).toEqual(['purge']);
});

describe('the plugin', () => {
  const atBirds = ({ context }: RecordedEvent) => context.userPath === '/birds';
  const ofPlugin = (one: Conversation) => one.request.plugin !== undefined && isWhole(one);

  it('that let a provider get the word is reported', async () => {
    const found = await findings(({ calls }) =>
      change(
        calls,
        ({ method }) => method === 'POST',
        (call) => ({ ...call, body: 'a Heron' }),
      ),
    );
    expect(found).toEqual(['plugin']);
  });

  it.each([{ phase: 'response' }, { edited: false }, { runs: [] }, { verdict: 'failure' }])(
    'that did not run before a call is reported (%j)',
    async (data) => {
      const called = new Set(
        honest.events.filter((event) => event.type === 'attempt.started' && atBirds(event)).map(({ stream }) => stream),
      );
      const found = await findings(({ events }) =>
        change(
          events,
          ({ type, stream }) => type === 'guardrail.applied' && called.has(stream),
          (event) => withData(event, data),
        ),
      );
      expect(found).toEqual(['plugin']);
    },
  );

  it('that did not run before a hit is reported', async () => {
    const found = await findings(({ events }) =>
      change(
        events,
        (event) => ofHit('guardrail.applied')(event) && atBirds(event),
        (event) => withData(event, { runs: [] }),
      ),
    );
    expect(found).toEqual(['plugin']);
  });

  it('under another workflow is reported', async () => {
    const found = await findings(({ events }) =>
      change(
        events,
        (event) => event.type === 'request.received' && atBirds(event),
        (event) => withData(event, { workflow: undefined }),
      ),
    );
    expect(found).toEqual(['plugin']);
  });

  it.each([{ text: 'something else' }, { exits: true }])('whose answer should be %j is reported', async (facts) => {
    const found = await findings(({ conversations }) => change(conversations, ofPlugin, (one) => changed(one, facts)));
    expect(found).toEqual(['plugin']);
  });

  it('that fails with another error is reported', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, ofPlugin, ({ request, answer }) => ({
        request,
        answer: { ...answer, status: 500, body: Buffer.from('{"error":{"code":"internal"}}') },
      })),
    );
    expect(found).toContain('plugin');
  });

  it('has one process while its gateway runs, and none after it was killed', () => {
    expect({ running: pluginPids.length, left: pluginPidsLeft }).toEqual({ running: 1, left: [] });
  });
});
