/** Bodies of requests to providers are recorded by what differs, and read again as they were sent. */
import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { differenceOf, type RecordedBodies, sentRequest } from '../../../src/commands/exchange/attempts/retry-loop.ts';
import type { Plan } from '../../../src/commands/exchange/plan.ts';
import { attemptStarted, requestReceived } from '../../../src/events/catalogue/exchange.ts';
import { guardrailApplied } from '../../../src/events/catalogue/guardrail.ts';
import { type EventContext, type NewEvent, streamName } from '../../../src/events/event.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';
import { providerRequest } from '../../../src/projections/provider-request.ts';
import { countOf } from '../../support/seed.ts';

const context: EventContext = { actor: 'master' };
const stream = streamName('exchange', 'one');

const plan = (body: Buffer): Plan => ({
  kind: 'model',
  dialect: 'chat',
  body,
  newStream: () => {
    throw new Error('nothing is relayed');
  },
});

function attemptEvent(recorded: RecordedBodies, attempt: number, body: Buffer): NewEvent {
  const { request, body: sent } = sentRequest(recorded, attempt, plan(body), '/v1/chat/completions');
  const facts = { attempt, kind: 'primary', provider: 'p', providerType: 'llamacpp', dialect: 'chat' } as const;
  return attemptStarted.create({ ...facts, request }, context, sent);
}

const received = (body: Buffer): NewEvent =>
  requestReceived.create(
    {
      ...{ dialect: 'chat', method: 'POST', path: '/v1/chat/completions', headers: {} },
      ...{ stream: false, authMethod: 'master_key', capture: 'full' },
    },
    context,
    body,
  );

const applied = (body: Buffer): NewEvent =>
  guardrailApplied.create({ phase: 'prompt', verdict: 'allow', edited: true, runs: [] }, context, body);

async function logOf(events: readonly NewEvent[]): Promise<MemoryLog> {
  const log = new MemoryLog();
  await log.append([{ stream, events, expectedRevision: 'noStream' }]);
  return log;
}

/** Few different bytes, so that equal ranges occur anywhere. */
const bytes = fc.uint8Array({ max: 3, maxLength: 300 }).map((given) => Buffer.from(given));
/** The body, with a part of it replaced. */
const edited = (body: Buffer) =>
  fc.tuple(fc.nat(body.length), fc.nat(body.length), bytes).map(([one, other, middle]) => {
    const [from, to] = [Math.min(one, other), Math.max(one, other)];
    return Buffer.concat([body.subarray(0, from), middle, body.subarray(to)]);
  });

describe('common bytes', () => {
  it('are counted as by a comparison of single bytes', () => {
    fc.assert(
      fc.property(
        bytes.chain((body) => fc.tuple(fc.constant(body), fc.oneof(edited(body), bytes))),
        ([one, other]) => {
          let prefix = 0;
          while (prefix < Math.min(one.length, other.length) && one[prefix] === other[prefix]) prefix += 1;
          const most = Math.min(one.length, other.length) - prefix;
          let suffix = 0;
          while (suffix < most && one[one.length - 1 - suffix] === other[other.length - 1 - suffix]) suffix += 1;
          const found = differenceOf(one, 'client', other);
          expect(found).toEqual({ base: 'client', prefixBytes: prefix, suffixBytes: suffix });
        },
      ),
      { numRuns: countOf(500, 2000) },
    );
  });
});

describe('the recorded requests of an exchange', () => {
  it('are read as they were sent, with anything in common with the one before', async () => {
    const exchange = bytes.chain((client) =>
      fc.record({
        client: fc.constant(client),
        guardrails: fc.option(edited(client), { nil: undefined }),
        attempts: fc.array(fc.oneof(edited(client), bytes, fc.constant(client)), { minLength: 1, maxLength: 5 }),
      }),
    );
    await fc.assert(
      fc.asyncProperty(exchange, async ({ client, guardrails, attempts }) => {
        const sent: RecordedBodies = { keepBodies: true, client, guardrails };
        const before = [received(client), ...(guardrails === undefined ? [] : [applied(guardrails)])];
        const log = await logOf([...before, ...attempts.map((body, place) => attemptEvent(sent, place + 1, body))]);
        for (const [place, body] of attempts.entries()) {
          const found = await providerRequest(stream, place + 1, log);
          expect(found?.content).toEqual({ kind: 'body', bytes: body });
        }
        expect((await providerRequest(stream, undefined, log))?.attempt.attempt).toBe(attempts.length);
        expect(await providerRequest(stream, attempts.length + 1, log)).toBeUndefined();
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  const client = Buffer.from(`{"model":"alias","messages":[${'"text",'.repeat(2000)}0]}`);
  const renamed = Buffer.from(client.toString().replace('alias', 'provider-model'));

  it('record a changed name of the model by its bytes, and a retry by none', () => {
    const sent: RecordedBodies = { keepBodies: true, client, guardrails: undefined };
    const first = sentRequest(sent, 1, plan(renamed), undefined);
    expect(first.body?.toString()).toBe('provider-model');
    expect(first.request).toEqual({ bytes: renamed.length, base: 'client', prefixBytes: 10, suffixBytes: 14017 });
    const again = sentRequest(sent, 2, plan(renamed), undefined);
    expect(again.body).toBeUndefined();
    expect(again.request).toMatchObject({ base: 'attempt:1', prefixBytes: renamed.length });
    expect(sentRequest(sent, 3, plan(client), undefined).request).toMatchObject({ base: 'client', suffixBytes: 0 });
  });

  it('keep only size and digest where bodies are not kept', async () => {
    const sent: RecordedBodies = { keepBodies: false, client, guardrails: undefined };
    const log = await logOf([attemptEvent(sent, 1, renamed)]);
    const digest = { bytes: renamed.length, sha256: hash('sha256', renamed) };
    expect((await providerRequest(stream, 1, log))?.content).toEqual({ kind: 'digest', ...digest });
    for await (const { body } of log.readStream(stream)) expect(body).toBeUndefined();
  });

  it('are unknown in events of earlier versions, and where their base is missing', async () => {
    const facts = { attempt: 1, kind: 'primary', provider: 'p', providerType: 'llamacpp', dialect: 'chat' } as const;
    const before = await logOf([received(client), attemptStarted.create(facts, context)]);
    expect((await providerRequest(stream, 1, before))?.content).toEqual({ kind: 'unknown' });
    const sent: RecordedBodies = { keepBodies: true, client, guardrails: undefined };
    const without = await logOf([attemptEvent(sent, 1, renamed)]);
    expect((await providerRequest(stream, 1, without))?.content).toEqual({ kind: 'unknown' });
  });
});
