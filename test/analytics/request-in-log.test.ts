import { describe, expect, it } from 'vitest';
import { exchangeCompleted } from '../../src/events/catalogue/exchange.ts';
import { placeholdersAssigned } from '../../src/events/catalogue/guardrail.ts';
import type { NewEvent } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { requestInLog } from '../../src/projections/analytics/request-in-log.ts';
import { exchangeOf } from '../projections/exchange-history.ts';

const one = exchangeOf('one');
const { context, stream } = one;

const completed = (attempt: number, body?: string) =>
  exchangeCompleted.create(
    { status: 200, attempt, provider: 'local', finishReason: 'stop', chunks: 1, bytes: 4, durationMs: 5 },
    context,
    body === undefined ? undefined : Buffer.from(body),
  );
async function recorded(...events: NewEvent[]) {
  const log = new MemoryLog();
  await log.append([{ stream, events: [one.received, one.resolved, ...events], expectedRevision: 'any' }]);
  const found = await requestInLog(stream, log);
  if (found === undefined) throw new Error('no request');
  const { delivered, responseBody, revisions, row, verdicts } = found;
  const text = (bytes: Uint8Array | undefined) => (bytes === undefined ? undefined : Buffer.from(bytes).toString());
  return {
    delivered: text(delivered?.joined()),
    sent: text(responseBody.joined()),
    revisions: revisions.map(text),
    row,
    verdicts,
  };
}

describe('a request in the log', () => {
  it('has the frames of the last guarded attempt as what the client received', async () => {
    const found = await recorded(
      one.attempt(1, true),
      one.chunk('raw one'),
      one.frame('lost'),
      one.attemptFailed(1),
      one.attempt(2, true),
      one.chunk('raw two', 2),
      one.frame('shown ', 2),
      one.frame('whole', 2, 1),
      completed(2, '{"final":"object"}'),
    );
    expect(found).toMatchObject({ delivered: 'shown whole', sent: 'raw two' });
  });

  it('has the body of the end event where a guarded answer has no frames', async () => {
    const found = await recorded(one.attempt(1, true), one.chunk('{"raw":1}'), completed(1, '{"shown":1}'));
    expect(found).toMatchObject({ delivered: '{"shown":1}', sent: '{"raw":1}' });
  });

  it('has the answer that a guardrail gave before a provider was called, with its verdict', async () => {
    const found = await recorded(one.applied('respond'), completed(0, '{"answer":"no"}'));
    expect(found).toMatchObject({ delivered: '{"answer":"no"}', sent: '' });
    expect(found.row).toMatchObject({
      guardrail_verdict: 'respond',
      guardrail: 'mask',
      guardrail_code: 'respond_code',
      attempts: [],
    });
    expect(found.verdicts).toMatchObject([{ guardrail: 'mask', verdict: 'respond', decided: 1, attempt: 0 }]);
  });

  it('has nothing delivered of its own where no guardrail evaluated the answer', async () => {
    const restore = Buffer.from('[{"placeholder":"[EMAIL_1]","value":"a@b.example"}]');
    const found = await recorded(
      one.applied('allow', undefined, '{"changed":true}'),
      placeholdersAssigned.create({ count: 1 }, context, restore),
      one.attempt(),
      one.chunk('raw'),
      completed(1),
    );
    expect(found).toMatchObject({ delivered: undefined, sent: 'raw', revisions: ['{"changed":true}'] });
  });
});
