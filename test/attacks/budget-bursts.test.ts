/**
 * Random bursts of requests under a budget, with a new seed for each run: no combination of requests exceeds a budget by
 * more than the last token of one request.
 *
 * `CHANCERY_TEST_SEED=7` repeats a run (its requests, not its timing); `ATTACK_BURSTS=200` makes so many bursts in all.
 * `ATTACK_BURSTS=60 npm run test:engine -- kafka --gateways 2 test/attacks/budget-bursts.test.ts` makes them all through two
 * gateways with their log on a Kafka broker.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withSeveral } from '../gateways/several.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { countOf, seed } from '../support/seed.ts';
import { gatewaysOfTests } from '../support/test-log.ts';
import { json, modelsListed, user } from '../support/with-gateway.ts';

const engine = process.env['TEST_LOG_ENGINE'] ?? '';
/** Where the bursts run, each in equal part: without `TEST_LOG_ENGINE`, also on two gateways of this file's own. */
const places = engine === '' ? 3 : 1;
const bursts = Math.ceil(countOf(6, 200, 'ATTACK_BURSTS') / places);
console.info(`budget bursts: ATTACK_BURSTS=${bursts * places}`);

const simulated = { models: ['m', 'n'], responses: 'absent' } as const;
const MODEL = 'llamacpp/m';
/** US dollars for one token of an answer. */
const TOKEN = 0.001;
const NANO = 1e-9;

type Fetch = (path: string, init?: RequestInit & { json?: unknown }) => Promise<Response>;

/** Numbers that follow from the seed (mulberry32). */
function randomFrom(start: number) {
  let state = start;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    chance: (share: number) => next() < share,
    from: (least: number, most: number) => least + Math.floor(next() * (most - least + 1)),
    one: <T>(all: readonly T[]): T => all[Math.floor(next() * all.length)] as T,
  };
}

type Random = ReturnType<typeof randomFrom>;

/** One request of a burst. @returns its status */
function request(random: Random, name: string): (send: Fetch, userPath: string) => Promise<number> {
  const kind = random.one(['chat', 'chat', 'responses', 'messages', 'completions', 'background', 'passed'] as const);
  const content = `Write ${random.from(1, 300)} words about rivers.`;
  const stream = kind !== 'background' && random.chance(0.5);
  const needsLimit = kind === 'messages' || kind === 'passed';
  const limit = needsLimit || random.chance(0.4) ? random.from(1, 400) : undefined;
  const leaves = stream && random.chance(0.1);
  const simulate = random.one([
    ...[{}, {}, {}, {}],
    { usage: false },
    { status: 503, failTimes: 1, key: name },
    { firstByteDelayMs: random.from(1, 60) },
    { cutAfterChunks: 3 },
  ]);
  const model = kind === 'passed' ? 'm' : random.chance(0.2) ? 'either' : MODEL;
  const member = kind === 'responses' || kind === 'background' ? 'max_output_tokens' : 'max_tokens';
  const body = {
    model,
    stream,
    ...(limit === undefined ? {} : { [member]: limit }),
    ...(kind === 'chat' || needsLimit ? { messages: user(content) } : {}),
    ...(kind === 'completions' ? { prompt: content } : {}),
    ...(member === 'max_output_tokens' ? { input: content } : {}),
    ...(kind === 'background' ? { background: true } : {}),
    ...(['chat', 'completions', 'passed'].includes(kind) ? { simulate } : {}),
  };
  const paths: Record<string, string> = {
    ...{ chat: '/v1/chat/completions', passed: '/p/llamacpp/v1/chat/completions', background: '/v1/responses' },
  };
  const path = paths[kind] ?? `/v1/${kind}`;
  return async (send, userPath) => {
    const stop = new AbortController();
    try {
      const answer = await send(path, {
        json: body,
        headers: { 'x-gateway-user-path': userPath },
        signal: stop.signal,
      });
      if (leaves) {
        await answer.body?.getReader().read();
        stop.abort();
      } else {
        await answer.text();
      }
      return answer.status;
    } catch {
      // The client has left, or a broken stream was cut.
      return 200;
    }
  };
}

/** Sets the price, and a virtual model whose targets replace each other. */
async function prepare(send: Fetch): Promise<void> {
  const put = async (path: string, body: object) => {
    expect((await send(path, { method: 'PUT', json: body })).ok, path).toBe(true);
  };
  const pricing = { input_per_mtok: 1, output_per_mtok: TOKEN * 1_000_000 };
  for (const selector of [MODEL, 'llamacpp/n']) await put('/admin/model-pricing-overrides', { selector, pricing });
  await put('/admin/virtual-models', {
    source: 'either',
    targets: [
      { provider: 'llamacpp', model: 'm' },
      { provider: 'llamacpp', model: 'n' },
    ],
    strategy: 'round_robin',
  });
}

async function burst(random: Random, name: string, sends: readonly Fetch[]): Promise<{ served: number; text: string }> {
  const userPath = `/attack/${name}`;
  const [first] = sends;
  if (first === undefined) throw new Error('there is no gateway');
  const amount = random.from(20, 1500) * TOKEN;
  const path = `/admin/budgets/${encodeURIComponent(userPath)}/daily`;
  expect((await first(path, { method: 'PUT', json: { amount } })).ok).toBe(true);
  for (let n = random.from(0, 4); n > 0; n--) {
    const short = { model: MODEL, messages: user('Reply with exactly: a b') };
    await (await first('/v1/chat/completions', { json: short, headers: { 'x-gateway-user-path': userPath } })).text();
  }
  const requests = Array.from({ length: random.from(5, 40) }, (_, n) => request(random, `${name}-${n}`));
  const statuses = await Promise.all(requests.map((one) => one(random.one(sends), userPath)));
  const row = async () => {
    const { budgets } = await json(await first('/admin/budgets'));
    return budgets.find(({ user_path }: { user_path: string }) => user_path === userPath);
  };
  await expect.poll(async () => (await row()).reserved, { timeout: 30_000, interval: 50 }).toBe(0);
  const { spent } = await row();
  const text = `${name}: ${requests.length} requests, ${spent} of ${amount} USD, statuses ${[...new Set(statuses)]}`;
  expect(spent, text).toBeLessThanOrEqual(amount + TOKEN + NANO);
  return { served: statuses.filter((status) => status === 200).length, text };
}

function attack(kind: string, sends: () => readonly Fetch[]): void {
  test(`${bursts} bursts stay within their budgets`, { timeout: 60_000 + bursts * 15_000 }, async () => {
    await prepare(sends()[0] as Fetch);
    let served = 0;
    for (let n = 0; n < bursts; n++) {
      const name = `${kind}-${seed}-${n}`;
      const end = await burst(randomFrom(seed + n * 7919 + kind.length), name, sends());
      served += end.served;
      if (process.env['ATTACK_BURSTS'] !== undefined) console.info(end.text);
    }
    expect(served).toBeGreaterThan(0);
  });
}

type Place = readonly [name: string, kind: string, env: Record<string, string>];
const inFiles: readonly Place[] = [
  ['one gateway', 'one', {}],
  ['two workers', 'workers', { GATEWAY_WORKERS: '2' }],
];
const onEngine: readonly Place[] = [[`${gatewaysOfTests} gateways on ${engine}`, engine, {}]];

describe.each(engine === '' ? inFiles : onEngine)('%s', (_name, kind, env) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway({ simulated, env });
    await modelsListed(gateway);
  });
  afterAll(() => gateway?.close());
  attack(kind, () => [gateway.fetch]);
});

if (engine === '') {
  describe('two gateways on one log', () => {
    const several = withSeveral({ delays: [0, 20], simulated, env: { LOG_LEASE: '30s' } });
    attack('two', () => several.all.map(({ fetch }) => fetch));
  });
}
