/** `Idempotency-Key` without recorded answer bodies: an answer that cannot be returned again is refused. */
import { describe, expect, it } from 'vitest';
import { both, translated, withBothKinds } from '../support/both-kinds.ts';
import { errorOf, user } from '../support/with-gateway.ts';

const { gateway } = withBothKinds({ LOGGING_LOG_BODIES: 'false' });
let keys = 0;

async function twice(path: string, body: object): Promise<{ first: string; second: Response }> {
  const headers = { 'idempotency-key': `bare-${++keys}` };
  const first = await gateway.post(path, body, { headers });
  expect(first.status).toBe(200);
  return { first: await first.text(), second: await gateway.post(path, body, { headers }) };
}

it('a translated response that was stored is returned again', async () => {
  const { first, second } = await twice('/v1/responses', { model: translated, input: 'hi' });
  expect(second.headers.get('idempotent-replayed')).toBe('true');
  expect(await second.text()).toBe(first);
});

describe.each(both)('a second request to a %s provider', (_kind, model) => {
  it.each([
    ['/v1/responses', { input: 'hi', stream: true }],
    ['/v1/responses', { input: 'hi', store: false }],
    ['/v1/responses', { input: 'hi', store: false, stream: true }],
    ['/v1/chat/completions', { messages: user('hi') }],
    ['/v1/chat/completions', { messages: user('hi'), stream: true }],
  ])('%s is refused for %j', async (path, body) => {
    const { second } = await twice(path, { model, ...body });
    expect(await errorOf(second, 409)).toMatchObject({ code: 'idempotent_answer_not_kept', param: 'Idempotency-Key' });
  });
});
