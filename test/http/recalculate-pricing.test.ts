/** `POST /admin/usage/recalculate-pricing`: recorded usage at the current prices. */
import { describe, expect, it } from 'vitest';
import { dateRange } from '../../src/http/dates.ts';
import { startTestGateway } from '../support/gateway.ts';
import { put } from '../support/managed-keys.ts';
import {
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const gateway = withGateway();
const PATH = '/admin/usage/recalculate-pricing';
const MODEL = 'llamacpp/simulated-small';
const recalculate = (body: object = {}, headers: Record<string, string> = {}) =>
  gateway.fetch(PATH, { json: { confirmation: 'recalculate', ...body }, headers });
const done = async (body: object = {}) => {
  const answer = await recalculate(body);
  expect(answer.status, await answer.clone().text()).toBe(200);
  return json(answer);
};
const price = (selector: string, perRequest: number) =>
  gateway.fetch('/admin/model-pricing-overrides', put({ selector, pricing: { per_request: perRequest } }));

async function spend(userPath: string): Promise<string> {
  const headers = { 'x-gateway-user-path': userPath };
  const answer = await gateway.post('/v1/chat/completions', { model: MODEL, messages: user('Hello') }, { headers });
  expect(answer.status).toBe(200);
  await answer.text();
  const id = exchangeOf(answer);
  await eventsOfExchange(gateway, id);
  return id;
}

describe('recalculated usage', () => {
  it('has the current cost, in the record and in the budget of its user path', async () => {
    const id = await spend('/past/a');
    expect((await price('simulated-small', 0.5)).status).toBe(200);
    expect(await done({ user_path: '/past' })).toEqual({
      status: 'ok',
      matched: 1,
      recalculated: 1,
      with_pricing: 1,
      without_pricing: 0,
    });
    const events = await eventsUntil(gateway, `stream=exchange-${id}`, ({ type }) => type === 'usage.recalculated');
    expect(events.at(-1)).toMatchObject({
      actor: 'master',
      userPath: '/past/a',
      data: {
        totalCost: '500000000',
        priceSource: 'override:simulated-small',
        previousTotalCost: null,
        price: { per_request: 0.5 },
      },
    });
    expect(events.find(({ type }) => type === 'usage.recorded')?.data.totalCost).toBeNull();
    expect(await done({ user_path: '/past' })).toMatchObject({ matched: 1, recalculated: 0 });
  });

  it('is unpriced again after its price was removed', async () => {
    await spend('/back');
    await price(MODEL, 0.5);
    await done({ user_path: '/back' });
    await gateway.fetch('/admin/model-pricing-overrides', { method: 'DELETE', json: { selector: MODEL } });
    await gateway.fetch('/admin/model-pricing-overrides', { method: 'DELETE', json: { selector: 'simulated-small' } });
    expect(await done({ user_path: '/back' })).toMatchObject({ recalculated: 1, with_pricing: 0, without_pricing: 1 });
  });

  it('may be that of a model, of the models behind an alias, or of some days', async () => {
    await spend('/scope');
    const alias = { source: 'quick', targets: [{ provider: 'llamacpp', model: 'simulated-small' }] };
    expect((await gateway.fetch('/admin/virtual-models', put(alias))).status).toBe(200);
    const matched = async (body: object) => (await done({ user_path: '/scope', ...body })).matched;
    expect(await matched({ selector: MODEL })).toBe(1);
    expect(await matched({ selector: 'simulated-small' })).toBe(1);
    expect(await matched({ selector: 'quick' })).toBe(1);
    expect(await matched({ selector: 'llamacpp/another' })).toBe(0);
    expect(await matched({ days: 1 })).toBe(1);
    expect(await matched({ end_date: '2020-01-01' })).toBe(0);
    expect(await matched({ start_date: '2020-01-01' })).toBe(1);
  });

  it('accepts the confirmation under its other name and in other spellings', async () => {
    const answer = await gateway.fetch(PATH, { json: { confirm: ' Recalculate ', user_path: '/nobody' } });
    expect(await json(answer)).toMatchObject({ status: 'ok', matched: 0 });
  });

  it.each([
    ['no JSON', 'recalculate', null],
    ['no confirmation', {}, 'confirmation'],
    ['another word', { confirmation: 'yes' }, 'confirmation'],
    ['a confirmation that is not a string', { confirmation: true }, 'confirmation'],
    ['an unknown field', { confirmation: 'recalculate', dry_run: true }, 'dry_run'],
    ['zero days', { confirmation: 'recalculate', days: 0 }, 'days'],
    ['half a day', { confirmation: 'recalculate', days: 0.5 }, 'days'],
    ['days and dates', { confirmation: 'recalculate', days: 1, end_date: '2026-01-01' }, 'days'],
    ['an invalid day', { confirmation: 'recalculate', start_date: '2026-02-30' }, 'start_date'],
    ['a time in place of a day', { confirmation: 'recalculate', end_date: '2026-02-03T00:00:00Z' }, 'end_date'],
    [
      'an end before its beginning',
      { confirmation: 'recalculate', start_date: '2026-02-02', end_date: '2026-02-01' },
      'start_date',
    ],
    ['a path that goes up', { confirmation: 'recalculate', user_path: '/a/../b' }, 'user_path'],
    ['an unknown model', { confirmation: 'recalculate', selector: 'nobody-serves-it' }, 'selector'],
    ['an empty selector', { confirmation: 'recalculate', selector: '' }, 'selector'],
  ])('is refused with %s', async (_what, body, param) => {
    const answer = await gateway.fetch(PATH, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    expect(await errorOf(answer, 400)).toMatchObject({ type: 'invalid_request_error', param });
  });

  it('can be switched off, which is reported only for valid requests', async () => {
    const without = await startTestGateway({ env: { USAGE_PRICING_RECALCULATION_ENABLED: 'false' } });
    try {
      const ask = (json: object) => without.fetch(PATH, { json });
      expect(await errorOf(await ask({ confirmation: 'recalculate' }), 503)).toMatchObject({
        code: 'feature_unavailable',
      });
      await errorOf(await ask({ confirmation: 'recalculate', days: -1 }), 400);
    } finally {
      await without.close();
    }
  });
});

describe('days in the time zone of the caller', () => {
  const noon = Date.parse('2026-03-29T12:00:00Z');
  const at = (written: object, zone = 'UTC') => {
    const { from, until } = dateRange(written, zone, noon);
    return [from, until].map((time) => (time === undefined ? undefined : new Date(time).toISOString()));
  };

  it.each([
    [{}, 'UTC', [undefined, undefined]],
    [{ days: 1 }, 'UTC', ['2026-03-29T00:00:00.000Z', '2026-03-30T00:00:00.000Z']],
    [{ days: 30 }, 'UTC', ['2026-02-28T00:00:00.000Z', '2026-03-30T00:00:00.000Z']],
    [{ start_date: '2026-03-01' }, 'UTC', ['2026-03-01T00:00:00.000Z', '2026-03-30T00:00:00.000Z']],
    [{ end_date: '2026-03-01' }, 'UTC', ['2026-01-31T00:00:00.000Z', '2026-03-02T00:00:00.000Z']],
    // The clocks went forward in Berlin that day, so it has 23 hours.
    [{ days: 1 }, 'Europe/Berlin', ['2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z']],
    [{ days: 1 }, 'Pacific/Kiritimati', ['2026-03-29T10:00:00.000Z', '2026-03-30T10:00:00.000Z']],
    [{ days: 1 }, 'Asia/Kolkata', ['2026-03-28T18:30:00.000Z', '2026-03-29T18:30:00.000Z']],
    [
      { start_date: '2026-11-01', end_date: '2026-11-01' },
      'America/New_York',
      ['2026-11-01T04:00:00.000Z', '2026-11-02T05:00:00.000Z'],
    ],
  ])('%j in %s', (written, zone, expected) => {
    expect(at(written, zone)).toEqual(expected);
  });

  it('are those of UTC for an unknown zone', async () => {
    await spend('/zones');
    const answer = await recalculate({ user_path: '/zones', days: 1 }, { 'x-gateway-timezone': 'Mars/Olympus_Mons' });
    expect(await json(answer)).toMatchObject({ matched: 1 });
  });
});
