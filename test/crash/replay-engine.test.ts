/** The replay of an engine finds what a replica has wrongly. */
import { afterEach, expect, it } from 'vitest';
import { gatewayStopped } from '../../src/events/catalogue/gateway.ts';
import { type RecordedEvent, streamName } from '../../src/events/event.ts';
import { WrongExpectedRevision } from '../../src/events/log.ts';
import { MemoryEngineStore } from '../support/memory-engine.ts';
import { Replica } from '../support/replicas.ts';
import { replayEngine } from './replay-engine.ts';

const disposals: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const dispose of disposals.splice(0)) await dispose();
});

const stream = streamName('thing', '1');
const event = () => gatewayStopped.create({ reason: 'test', cutExchanges: 0 }, { actor: 'system' });
const placeOf = ({ id, stream, revision }: RecordedEvent) => `${id} ${stream} ${revision}`;

/** A log with events, an append that was refused and one that was sent twice, and its engine. */
async function recorded() {
  const store = new MemoryEngineStore();
  const replica = await Replica.open(() => store.connect());
  disposals.push(() => replica.dispose());
  const { log } = replica;
  await log.append([{ stream, events: [event(), event()], expectedRevision: 'noStream' }]);
  const other = streamName('thing', '2');
  await log.append([
    { stream: other, events: [event()], expectedRevision: 'any' },
    { stream, events: [event()], expectedRevision: 1n },
  ]);
  const refused = log.append([{ stream, events: [event()], expectedRevision: 'noStream' }]);
  await expect(refused).rejects.toBeInstanceOf(WrongExpectedRevision);
  replica.loseAnswer(true);
  await log.append([{ stream, events: [event()], expectedRevision: 'any' }]);
  const events = await Array.fromAsync(log.readAll());
  return { store, places: events.map(placeOf) };
}

it('has the events of a replica, in their order', async () => {
  const { store, places } = await recorded();
  const { events, ignored } = await replayEngine(store.connect(), places.length, 5_000);
  expect(places).toHaveLength(5);
  expect(events).toEqual(places);
  expect(ignored).toBeGreaterThanOrEqual(1);
});

it('lacks an event that is not on the engine', async () => {
  const { store, places } = await recorded();
  store.records.splice(1, 2);
  const { events } = await replayEngine(store.connect(), places.length, 200).catch(() => ({ events: [] }));
  expect(events).not.toEqual(places);
});
