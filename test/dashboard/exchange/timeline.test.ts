/** The timeline of a request follows from its recorded events. */
import { beforeAll, describe, expect, it } from 'vitest';
import { totalsOf } from '../../../dashboard/src/pages/exchange/cost/totals.ts';
import { endedWhy } from '../../../dashboard/src/pages/exchange/record/ended-why.ts';
import { type ExchangeFacts, factsOf } from '../../../dashboard/src/pages/exchange/record/exchange-facts.ts';
import { guardedBodies, recordedStream } from '../../../dashboard/src/pages/exchange/record/recorded-bodies.ts';
import { timeOf, withEvents } from '../../../dashboard/src/pages/exchange/record/recorded-event.ts';
import { type Timeline, timelineOf } from '../../../dashboard/src/pages/exchange/timeline/timeline.ts';
import { administrator } from '../../http/admin-history-steps.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { user, withGateway } from '../../support/with-gateway.ts';
import { type Recorded, recorded } from './recorded.ts';

const gateway = withGateway({
  env: {
    ...withGuardrails,
    RESPONSE_CACHE_ENABLED: 'true',
    RETRY_MAX_RETRIES: '2',
    RETRY_INITIAL_BACKOFF: '30ms',
    CIRCUIT_BREAKER_ENABLED: 'false',
  },
});
const admin = administrator(gateway);
const model = 'llamacpp/simulated-small';
const path = '/v1/chat/completions';
let number = 0;
/** A text that is in no cached answer. */
const fresh = () => user(`Text ${++number}`);
const as = (value: string) => ({ authorization: `Bearer ${value}` });

function factsIn({ events }: Recorded): ExchangeFacts {
  const facts = factsOf(events);
  if (facts === undefined) throw new Error('there are no events');
  return facts;
}

function timelineIn(record: Recorded): Timeline {
  return timelineOf(record.events, factsIn(record), record.related, Date.now());
}

const titles = ({ steps }: Timeline) => steps.map(({ title, depth }) => (depth === 1 ? `  ${title}` : title));

/** Every step lies within the request, and a part of a step within it. */
function expectOrdered({ steps, totalMs }: Timeline): void {
  for (const { startMs, endMs = totalMs } of steps) {
    expect(startMs).toBeGreaterThanOrEqual(0);
    expect(endMs).toBeGreaterThanOrEqual(startMs);
    expect(endMs).toBeLessThanOrEqual(totalMs);
  }
  const starts = steps.filter(({ depth }) => depth === 0).map(({ startMs }) => startMs);
  expect(starts).toEqual([...starts].sort((one, other) => one - other));
}

beforeAll(async () => {
  await saveGuardrail(gateway, { name: 'personal', type: 'pii' });
  const config = { rules: 'Falcon => x', on_match: 'block' };
  await saveGuardrail(gateway, { name: 'no-falcons', type: 'string_replace', config });
});

describe('the timeline', () => {
  it('has the steps of an answered request', async () => {
    const record = await recorded(gateway, path, { model, messages: fresh() });
    const timeline = timelineIn(record);
    expect(titles(timeline)).toEqual([
      'Received',
      'Model',
      'Workflow',
      'Attempt 1: llamacpp/simulated-small',
      '  Until the first byte',
      'Cached',
      'Completed',
    ]);
    expectOrdered(timeline);
    const facts = factsIn(record);
    expect(facts).toMatchObject({ outcome: 'completed', status: 200, provider: 'llamacpp', model: 'simulated-small' });
    expect(endedWhy(facts)).toBeUndefined();
    expect(totalsOf(facts).inputTokens).toBeGreaterThan(0);
  });

  it('has the wait for the first byte when its rounded time lies before the attempt', async () => {
    const record = await recorded(gateway, path, { model, messages: fresh() });
    const timeline = timelineOf(record.events, { ...factsIn(record), firstByteMs: -1 }, record.related, Date.now());
    expect(titles(timeline)).toContain('  Until the first byte');
    expectOrdered(timeline);
  });

  it('has a row for each attempt, with its failure and the wait that follows', async () => {
    gateway.simulated.control.next({ status: 503, failTimes: 1 }, { path });
    const record = await recorded(gateway, path, { model, messages: fresh() });
    const timeline = timelineIn(record);
    expect(titles(timeline)).toEqual([
      'Received',
      'Model',
      'Workflow',
      'Attempt 1: llamacpp/simulated-small',
      '  Wait before the next attempt',
      'Attempt 2: llamacpp/simulated-small',
      '  Until the first byte',
      'Cached',
      'Completed',
    ]);
    const [first, wait, second] = timeline.steps.slice(3);
    expect(first).toMatchObject({ tone: 'bad' });
    expect(first?.details).toContain('status 503');
    expect(wait?.endMs).toBeLessThanOrEqual((second?.startMs ?? 0) + 1);
    expect(second?.tone).toBe('ok');
    expectOrdered(timeline);
  });

  it('has the stream, and its frames at their times', async () => {
    gateway.simulated.control.next({ paceMs: 20 }, { path });
    const record = await recorded(gateway, path, { model, messages: fresh(), stream: true });
    const timeline = timelineIn(record);
    const stream = timeline.steps.find(({ title }) => title === 'Stream');
    const frames = recordedStream(record.events);
    expect(stream?.details).toEqual([`${frames?.frames.length} pieces`]);
    expect((stream?.endMs ?? 0) - (stream?.startMs ?? 0)).toBeGreaterThan(100);
    expect(frames?.side).toBe('provider');
    expect(frames?.frames.at(-1)?.text).toContain('[DONE]');
    const offsets = frames?.frames.map(({ offsetMs }) => offsetMs) ?? [];
    expect(offsets).toEqual([...offsets].sort((one, other) => one - other));
    expectOrdered(timeline);
  });

  it('has the runs of guardrails below their phase, and the changed request', async () => {
    await guard(gateway, '/hidden', [{ ref: 'personal' }]);
    const { value } = await admin.newKey({ user_path: '/hidden' });
    const messages = user('Write to ada@example.org');
    const record = await recorded(gateway, path, { model, messages }, as(value));
    const timeline = timelineIn(record);
    const at = titles(timeline).indexOf('Guardrails of the request');
    expect(timeline.steps[at]?.details).toEqual(['content was changed']);
    expect(timeline.steps[at + 1]).toMatchObject({ title: 'personal', depth: 1, tone: 'ok' });
    expect(timeline.steps[at + 1]?.details).toEqual(['pii', 'edited', 'EMAIL: 1']);
    expect(titles(timeline)).toContain('Placeholders');
    const [changed] = guardedBodies(record.events);
    expect(changed?.text).not.toContain('ada@');
    expectOrdered(timeline);
  });

  it('names the exchange whose answer the cache gave', async () => {
    const messages = fresh();
    const first = await recorded(gateway, path, { model, messages });
    const second = await recorded(gateway, path, { model, messages });
    const hit = timelineIn(second).steps.find(({ title }) => title === 'Cache hit');
    expect(hit?.exchange).toBe(first.id);
    expect(factsIn(second)).toMatchObject({ answerOf: first.id, attempts: [] });
    expect(totalsOf(factsIn(second)).dollars).toBe(0);
  });

  it('lasts until now while the request is running', async () => {
    const record = await recorded(gateway, path, { model, messages: fresh() });
    const events = record.events.slice(0, 3);
    const facts = factsIn({ ...record, events });
    const { steps, totalMs } = timelineOf(events, facts, [], facts.receivedAt + 5000);
    expect(totalMs).toBe(5000);
    expect(steps.at(-1)).toMatchObject({
      title: 'Attempt 1: llamacpp/simulated-small',
      endMs: undefined,
      tone: 'info',
    });
    expect(facts.outcome).toBe('in_progress');
  });
});

describe('why a request was not answered', () => {
  it('names the access rule, and where it is explained', async () => {
    await admin.change('PUT', '/admin/users', { user_path: '/limited', allowed_models: ['llamacpp/other'] });
    const { value, id } = await admin.newKey({ user_path: '/limited' });
    const record = await recorded(gateway, path, { model, messages: fresh() }, as(value));
    const why = endedWhy(factsIn(record));
    expect(why).toMatchObject({ decidedBy: 'access rule', code: 'model_access_denied', status: 400 });
    expect(why?.facts).toMatchObject({ path: '/admin/explain', query: { model, key: id } });
  });

  it('names an unknown model', async () => {
    const record = await recorded(gateway, path, { model: 'nothing', messages: fresh() });
    expect(endedWhy(factsIn(record))).toMatchObject({ decidedBy: 'request', code: 'model_not_found', status: 404 });
  });

  it('names the provider and its status', async () => {
    gateway.simulated.control.next({ status: 400, message: 'no such parameter' }, { path });
    const record = await recorded(gateway, path, { model, messages: fresh() });
    const why = endedWhy(factsIn(record));
    expect(why).toMatchObject({ decidedBy: 'provider', status: 400 });
    expect(why?.decision).toBe('The provider llamacpp answered with status 400.');
    expect(why?.message).toContain('no such parameter');
  });

  it('names the rate limit', async () => {
    const limit = { user_path: '/slow', limit_key: { period: 'hour' }, max_requests: 1 };
    await admin.change('PUT', '/admin/rate-limits', limit);
    const { value } = await admin.newKey({ user_path: '/slow' });
    await recorded(gateway, path, { model, messages: fresh() }, as(value));
    const record = await recorded(gateway, path, { model, messages: fresh() }, as(value));
    expect(endedWhy(factsIn(record))).toMatchObject({
      ...{ decidedBy: 'rate limit', code: 'rate_limit_exceeded', status: 429 },
      decision: 'A rate limit is reached.',
    });
  });

  it('names the guardrail that blocked the request', async () => {
    await guard(gateway, '/birds', [{ ref: 'no-falcons' }]);
    const { value } = await admin.newKey({ user_path: '/birds' });
    const record = await recorded(gateway, path, { model, messages: user('A Falcon') }, as(value));
    const why = endedWhy(factsIn(record));
    expect(why).toMatchObject({ decidedBy: 'guardrail' });
    expect(why?.decision).toBe('The guardrail no-falcons blocked the request: Request blocked by policy (match: 1)');
    expect(timelineIn(record).steps.find(({ title }) => title === 'no-falcons')?.tone).toBe('bad');
  });
});

describe('events that are read twice', () => {
  it('count once', async () => {
    const { events } = await recorded(gateway, path, { model, messages: fresh() });
    expect(withEvents(events.slice(0, 3), events)).toEqual(events);
    expect(withEvents(events, events.slice(2))).toBe(events);
    const times = events.map(timeOf);
    expect(times.every((time) => Number.isFinite(time))).toBe(true);
  });
});
