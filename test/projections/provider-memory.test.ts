import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import * as provider from '../../src/events/catalogue/provider.ts';
import { type NewEvent, type RecordedEvent, streamName } from '../../src/events/event.ts';
import { fold } from '../../src/projections/projection.ts';
import { type ProviderMemory, providerMemory } from '../../src/projections/provider-memory.ts';
import { engines, openTestLog, type TestLog } from './log-engines.ts';

const context = { actor: 'system' as const };
let opened: TestLog;
afterEach(() => opened.discard());

const configured = (baseUrl = 'http://a/v1', type = 'llamacpp') =>
  provider.providerConfigured.create({ name: 'local', type, baseUrl, hasApiKey: false, configuredModels: [] }, context);
const listed = (...ids: string[]) =>
  provider.providerModelsListed.create({ models: ids.map((id) => ({ id, created: 1, ownedBy: 'me' })) }, context);
const learned = (supported: boolean) =>
  provider.providerCapabilityLearned.create({ capability: 'responses', supported }, context);
const unavailable = provider.providerBecameUnavailable.create({ message: 'gone' }, context);
const available = provider.providerBecameAvailable.create({}, context);
const circuit = provider.providerCircuitChanged.create({ state: 'open', failures: 5 }, context);
const removed = provider.providerRemoved.create({ name: 'local' }, context);

async function write(name: string, ...events: NewEvent[]) {
  await opened.log.append([{ stream: streamName('provider', name), events, expectedRevision: 'any' }]);
}

async function remembered(): Promise<ProviderMemory> {
  const events: RecordedEvent[] = [];
  for await (const event of opened.log.readAll({ filter: providerMemory.filter })) events.push(event);
  return fold(providerMemory, events);
}

describe.each(engines)('the state of a provider in a log in %s', (engine) => {
  beforeEach(async () => {
    opened = await openTestLog(engine);
  });

  test('is the last good model list, also while it is out of reach', async () => {
    await write('local', configured(), listed('a'), listed('a', 'b'), unavailable, circuit);
    await write('other-1', listed('c'));
    const memory = await remembered();
    expect([...memory.keys()]).toEqual(['local', 'other-1']);
    expect(memory.get('local')).toMatchObject({
      models: [{ id: 'a' }, { id: 'b' }],
      available: false,
      circuit: 'open',
      revision: '4',
    });
    await write('local', available);
    expect((await remembered()).get('local')).toMatchObject({ available: true, revision: '5' });
  });

  test('has its learned capabilities, as long as it is the same server', async () => {
    await write('local', configured(), learned(false), listed('a'));
    await write('local', configured());
    expect((await remembered()).get('local')?.capabilities).toEqual({ responses: false });
    await write('local', configured('http://elsewhere/v1'));
    const after = (await remembered()).get('local');
    expect(after).toMatchObject({ capabilities: {}, models: undefined });
    expect(after?.configuration?.baseUrl).toBe('http://elsewhere/v1');
  });

  test('loses a missing capability when it lists other models, was away or is configured otherwise', async () => {
    await write('local', configured(), listed('a'), learned(false));
    expect((await remembered()).get('local')).toMatchObject({
      capabilities: { responses: false },
      capabilitiesLearnedAt: expect.any(Number),
    });
    await write('local', listed('a', 'b'));
    expect((await remembered()).get('local')?.capabilities).toEqual({});
    await write('local', learned(false), unavailable, available);
    expect((await remembered()).get('local')?.capabilities).toEqual({});
  });

  test('is removed with the provider', async () => {
    await write('local', configured(), listed('a'), learned(true), removed);
    expect((await remembered()).get('local')).toMatchObject({
      configuration: undefined,
      models: undefined,
      capabilities: {},
    });
  });
});

test('it is the same from the beginning and from a snapshot anywhere with the rest', async () => {
  opened = await openTestLog('memory');
  const any = fc.constantFrom(
    configured(),
    configured('http://b/v1'),
    configured('http://a/v1', 'ollama'),
    listed('a'),
    listed(),
    learned(true),
    learned(false),
    unavailable,
    available,
    circuit,
    removed,
  );
  await fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(2), any), { maxLength: 30 }), fc.nat(30), (steps, at) => {
      const revisions = [0n, 0n, 0n];
      const events = steps.map(([which, event], index): RecordedEvent => {
        const revision = revisions[which] ?? 0n;
        revisions[which] = revision + 1n;
        const place = { id: String(index), stream: streamName('provider', `p${which}`), revision, at: index };
        return { ...event, ...place, position: String(index) as RecordedEvent['position'] };
      });
      const whole = fold(providerMemory, events);
      const saved: unknown = structuredClone(providerMemory.save?.(fold(providerMemory, events.slice(0, at))));
      const resumed = fold(providerMemory, events.slice(at), providerMemory.load?.(saved));
      expect(plain(resumed)).toEqual(plain(whole));
    }),
  );
});

function plain(state: Map<string, object>): unknown {
  return JSON.parse(JSON.stringify([...state]));
}
