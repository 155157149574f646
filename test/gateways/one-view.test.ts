/** What clients and administrators see through several gateways: one system. */
import { afterEach, describe, expect, it } from 'vitest';
import { type LiveListener, listen } from '../http/live-listener.ts';
import type { Answered } from '../support/answered.ts';
import { withEmbedder } from '../support/embedder.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { dataOf, json, readUntil, user } from '../support/with-gateway.ts';
import { type OneOfSeveral, withSeveral } from './several.ts';

const embedder = withEmbedder();
const several = withSeveral({
  delays: [0, 15, 30],
  env: async () => ({ ...(await embedder.env()), RETRY_MAX_RETRIES: '0', DRAIN_TIMEOUT: '0s' }),
  simulated: { responses: 'absent' },
});
const { simulated } = several;
const at = (place: number): OneOfSeveral => several.all[place] as OneOfSeveral;
afterEach(() => {
  simulated.control.clear();
  simulated.control.release();
});

const model = 'llamacpp/simulated-small';
const chatPath = { path: '/v1/chat/completions' };
const calls = () => simulated.requests.filter(({ method, path }) => method === 'POST' && path === chatPath.path).length;
const ok = async (answer: Response | Promise<Response>): Promise<Answered> => {
  const given = await answer;
  expect(given.ok, await given.clone().text()).toBe(true);
  return json(given);
};
const background = async (one: OneOfSeveral, input: string): Promise<string> => {
  const before = calls();
  const { id } = await ok(one.fetch('/v1/responses', { json: { model, background: true, input } }));
  await expect.poll(calls).toBe(before + 1);
  return id;
};

describe('a change of the configuration', () => {
  it('sets up a provider in every gateway', async () => {
    const saved = {
      name: 'added',
      type: 'vllm',
      base_url: 'http://192.0.2.1/v1',
      models: ['m'],
      models_mode: 'allowlist',
    };
    await ok(at(0).fetch('/admin/provider-credentials', { method: 'PUT', json: saved }));
    const listed = async (one: OneOfSeveral) => (await ok(one.fetch('/v1/models'))).data.map(({ id }: Answered) => id);
    for (const one of several.all) expect(await listed(one)).toContain('added/m');
    expect((await at(2).fetch('/admin/provider-credentials/added', { method: 'DELETE' })).status).toBe(204);
    for (const one of several.all) expect(await listed(one)).not.toContain('added/m');
  });

  it('is confirmed again only when all gateways have applied it, also by a gateway that finds it recorded already', async () => {
    for (let n = 0; n < 5; n++) {
      const { id, value } = await ok(at(0).fetch('/admin/auth-keys', { json: { name: `leaked ${n}` } }));
      const deactivated = (one: OneOfSeveral) =>
        one.fetch(`/admin/auth-keys/${id}/deactivate`, { method: 'POST' }).then(async ({ status }) => {
          expect(status).toBe(204);
          return (await at(2).fetch('/v1/models', { key: value })).status;
        });
      expect(await Promise.all([deactivated(at(0)), deactivated(at(1))])).toEqual([401, 401]);
    }
  });
});

describe('the stream of a background response', () => {
  it('is continued through another gateway while it is generated', async () => {
    simulated.control.next({ holdAfterChunks: 6, chunks: 12 }, chatPath);
    const created = await at(0).fetch('/v1/responses', { json: { model, background: true, stream: true, input: 'x' } });
    const first = await readUntil(created, 'output_text.delta');
    const events = dataOf(first.slice(0, first.lastIndexOf('\n\n') + 2));
    const last = events.at(-1) as Answered;
    const { id } = (events[0] as Answered).response;
    const following = [1, 2].map((place) =>
      at(place).fetch(`/v1/responses/${id}?stream=true&starting_after=${last.sequence_number}`),
    );
    const answers = await Promise.all(following);
    simulated.control.release();
    for (const answer of answers) {
      const rest = dataOf(await answer.text());
      const numbers = [...events, ...rest].map(({ sequence_number }) => sequence_number);
      expect(numbers).toEqual(numbers.map((_, index) => index));
      expect(rest.at(-1)?.type).toBe('response.completed');
    }
  });

  it('ends for followers when it is deleted through a third gateway', async () => {
    simulated.control.next({ hang: true }, chatPath);
    const id = await background(at(0), 'deleted');
    const following = at(1).fetch(`/v1/responses/${id}?stream=true`);
    const follower = await following;
    expect((await at(2).fetch(`/v1/responses/${id}`, { method: 'DELETE' })).status).toBe(200);
    expect(dataOf(await follower.text()).at(-1)?.type).toBe('response.failed');
    for (const one of several.all) expect((await one.fetch(`/v1/responses/${id}`)).status).toBe(404);
  });
});

describe('an Idempotency-Key', () => {
  const keyed = (one: OneOfSeveral, key: string, input: string) =>
    one.fetch('/v1/responses', { json: { model, input }, headers: { 'idempotency-key': key } });

  it('joins requests that two gateways get at the same time: one call of a provider, one answer', async () => {
    for (let n = 0; n < 5; n++) {
      const before = calls();
      const answers = await Promise.all(
        several.all.map((one) => ok(keyed(one, `same ${n}`, `topic=${10 + n} angle=0`))),
      );
      expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
      expect(calls()).toBe(before + 1);
      expect(await ok(keyed(at(2), `same ${n}`, `topic=${10 + n} angle=0`))).toEqual(answers[0]);
    }
  });

  it('is refused with another body', async () => {
    await ok(keyed(at(0), 'once', 'one body'));
    const answer = await keyed(at(2), 'once', 'another body');
    expect([answer.status, (await json(answer)).error.code]).toEqual([409, 'idempotency_key_reused']);
  });
});

describe('a conversation', () => {
  it('keeps the items of turns that end at the same time through several gateways', async () => {
    const { id } = await ok(at(0).fetch('/v1/conversations', { json: {} }));
    const turns = several.all.map((one, n) =>
      ok(one.fetch('/v1/responses', { json: { model, input: `turn ${n}`, conversation: id } })),
    );
    const outputs = (await Promise.all(turns)).map(({ output }) => output[0].id);
    const lists = several.all.map(async (one) => {
      const { data } = await ok(one.fetch(`/v1/conversations/${id}/items?order=asc`));
      return data.map((item: Answered) => item.id);
    });
    const [first, ...others] = await Promise.all(lists);
    expect(first).toHaveLength(6);
    for (const other of others) expect(other).toEqual(first);
    // Each turn is whole: its output follows its input.
    expect(first.filter((_: string, index: number) => index % 2 === 1).toSorted()).toEqual(outputs.toSorted());
  });
});

describe('the response cache', () => {
  const asked = async (one: OneOfSeveral, text: string) => {
    const answer = await one.fetch('/v1/chat/completions', { json: { model, messages: user(text) } });
    expect(answer.status).toBe(200);
    await answer.text();
    return answer.headers.get('x-cache');
  };

  it('has the answers of other gateways, to equal and to similar requests, until a purge through any of them', async () => {
    await asked(at(0), 'topic=1 angle=0');
    for (const one of [at(1), at(2)]) {
      await expect.poll(() => asked(one, 'topic=1 angle=0')).toBe('HIT (exact)');
      await expect.poll(() => asked(one, 'topic=1 angle=1')).toBe('HIT (semantic)');
    }
    await ok(at(2).fetch('/admin/cache/purge', { json: { all: true } }));
    // The order matters: an answer is cached again by the first of them.
    expect(await asked(at(0), 'topic=1 angle=1')).toBe('MISS');
    await ok(at(0).fetch('/admin/cache/purge', { json: { all: true } }));
    expect(await asked(at(2), 'topic=1 angle=0')).toBe('MISS');
  });
});

describe('the live tail', () => {
  const headers = { authorization: `Bearer ${MASTER_KEY}` };
  const keyOf = ({ data }: LiveListener['events'][number]) => `${data.seq} ${data.type}`;
  const exchanges = (listener: LiveListener) => listener.news().map(keyOf);
  const follow = async ({ url }: OneOfSeveral, cursor?: string) => {
    const query = { view: 'events', stream: 'exchange-', ...(cursor !== undefined && { cursor }) };
    const listener = await listen(url, query, headers);
    // It gets everything after its first heartbeat.
    await expect.poll(() => listener.events.length).toBeGreaterThan(0);
    return listener;
  };

  it('is equal in all gateways, with equal positions', async () => {
    const listeners = await Promise.all(several.all.map((one) => follow(one)));
    for (const one of several.all)
      await ok(one.fetch('/v1/chat/completions', { json: { model, messages: user('live') } }));
    const completed = (list: readonly string[]) => list.filter((one) => one.endsWith('exchange.completed')).length;
    // One embedding, and an exchange through each gateway.
    await expect
      .poll(() => {
        const [first = [], ...others] = listeners.map(exchanges);
        return completed(first) >= 4 && others.every((other) => other.join() === first.join());
      })
      .toBe(true);
    for (const one of listeners) one.leave();
  });

  it('has neither a gap nor a repetition for a client that moves to a gateway that has read less', async () => {
    const whole = await follow(at(0));
    const seen: string[] = [];
    let cursor: string | undefined;
    for (let n = 0; n < 6; n++) {
      const listener = await follow(at(n % 2 === 0 ? 0 : 2), cursor);
      await ok(at(0).fetch('/v1/chat/completions', { json: { model, messages: user(`move ${n}`) } }));
      await expect.poll(() => exchanges(listener).some((one) => one.endsWith('exchange.completed'))).toBe(true);
      expect(listener.events.map(({ event }) => event)).not.toContain('reset');
      seen.push(...exchanges(listener));
      cursor = listener.lastId();
      listener.leave();
    }
    await expect.poll(() => exchanges(whole).slice(0, seen.length)).toEqual(seen);
    whole.leave();
  });
});

describe('a gateway that is cut off from the log', () => {
  it('is replaced: its response is cancelled, its answer under a key is made again, and it refuses reads', async () => {
    const lonely = await several.start(0);
    const input = 'topic=20 angle=0';
    simulated.control.next({ hang: true }, chatPath);
    const id = await background(lonely, 'cut off');
    simulated.control.next({ hang: true }, chatPath);
    const headers = { 'idempotency-key': 'of the cut off one' };
    const before = calls();
    lonely.fetch('/v1/responses', { json: { model, input }, headers }).catch(() => undefined);
    await expect.poll(calls).toBe(before + 1);
    lonely.network.cut();
    const cancelled = at(1).fetch(`/v1/responses/${id}/cancel`, { method: 'POST' });
    const again = at(2).fetch('/v1/responses', { json: { model, input }, headers });
    const read = await lonely.fetch(`/v1/responses/${id}`);
    expect([read.status, (await json(read)).error.code]).toEqual([503, 'log_unavailable']);
    expect(read.headers.get('retry-after')).toBe('1');
    const stale = await lonely.fetch('/admin/gateways');
    expect([stale.status, stale.headers.get('x-stale')]).toEqual([200, 'true']);
    expect((await ok(cancelled)).status).toBe('cancelled');
    expect((await ok(again)).status).toBe('completed');
    expect(calls()).toBe(before + 2);
    lonely.network.heal();
    await lonely.gateway.leaseLost;
  }, 30_000);
});
