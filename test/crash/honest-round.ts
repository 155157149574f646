/** One round without a fault, and how a test changes its evidence. */
import type { RecordedEvent } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { ask, killAll, serve, temporaryFolder } from '../e2e/gateway-process.ts';
import { deletions, type KnownResponse, knownResponses } from './check-responses.ts';
import { checkRound } from './check-round.ts';
import type { Conversation, LogFailure, ProviderCall, Retrieved } from './evidence.ts';
import { LoadClient } from './load.ts';
import { createChance } from './random.ts';
import { RecordedLog } from './recorded-log.ts';
import { Upstreams } from './upstreams.ts';
import { WireClient } from './wire-client.ts';

/** The evidence of a round, to be changed by a test. */
export interface Case {
  events: RecordedEvent[];
  conversations: Conversation[];
  calls: ProviderCall[];
  retrieved: Map<string, Retrieved>;
  responses: KnownResponse[];
  killedAt: number;
  orderly: boolean;
  logFailures: LogFailure[];
}

export interface HonestRound {
  readonly evidence: Case;
  /** The names of the checks that find something wrong after the evidence was changed. */
  findings(tamper: (evidence: Case) => void): Promise<string[]>;
}

/** One round: a few clients, a kill, a restart. */
export async function honestRound(): Promise<HonestRound> {
  const folder = temporaryFolder();
  const upstreams = new Upstreams();
  try {
    const evidence = await oneRound(folder.path, upstreams);
    return { evidence, findings: (tamper) => findings(evidence, tamper) };
  } finally {
    killAll();
    await upstreams.close();
    folder.remove();
  }
}

async function oneRound(dataDir: string, upstreams: Upstreams): Promise<Case> {
  const env = await upstreams.listen();
  const killed = await serve({ dataDir, env });
  const conversations: Conversation[] = [];
  let stopped = false;
  const clients = Array.from({ length: 8 }, (_, index) =>
    new LoadClient(`t${index}`, createChance(index + 1), 0.05).run(
      new WireClient(killed.url),
      conversations,
      () => stopped,
    ),
  );
  while (conversations.length < 250) await Promise.race([new Promise(setImmediate), killed.process.exited]);
  stopped = true;
  const killedAt = performance.now();
  killed.process.kill('SIGKILL');
  await Promise.all([...clients, killed.process.exited]);

  const again = await serve({ dataDir, env });
  const responses = knownResponses(conversations);
  const retrieved = new Map<string, Retrieved>();
  for (const { id } of responses) {
    const response = await ask(again.url, `/v1/responses/${id}`);
    retrieved.set(id, { status: response.status, json: await response.json() });
  }
  again.process.kill('SIGTERM');
  await again.process.exited;
  const log = await openLog(`file:${dataDir}/log`, { readOnly: true });
  const events: RecordedEvent[] = [];
  for await (const event of log.readAll()) events.push(event);
  await log.close();
  const calls = upstreams.newCalls();
  return { events, conversations, calls, retrieved, responses, killedAt, orderly: false, logFailures: [] };
}

async function findings(honest: Case, tamper: (evidence: Case) => void): Promise<string[]> {
  const { events, conversations, calls, retrieved, responses } = honest;
  const evidence: Case = {
    ...honest,
    events: [...events],
    conversations: [...conversations],
    calls: [...calls],
    retrieved: new Map(retrieved),
    responses: [...responses],
    logFailures: [],
  };
  tamper(evidence);
  const log = new RecordedLog();
  for (const event of evidence.events) log.add(event);
  const violations = await checkRound(
    { ...evidence, deleted: deletions(evidence.conversations) },
    log,
    async (id) => evidence.retrieved.get(id) ?? { status: 404, json: undefined },
  );
  return [...new Set(violations.map(({ check }) => check))];
}

export function findIndex<Thing>(things: readonly Thing[], wanted: (thing: Thing) => boolean): number {
  const index = things.findIndex(wanted);
  if (index === -1) throw new Error('the round left no such evidence');
  return index;
}

export function drop<Thing>(things: Thing[], wanted: (thing: Thing) => boolean): Thing {
  const [dropped] = things.splice(findIndex(things, wanted), 1);
  if (dropped === undefined) throw new Error('the round left no such evidence');
  return dropped;
}

export function change<Thing>(
  things: Thing[],
  wanted: (thing: Thing) => boolean,
  changed: (thing: Thing) => Thing,
): void {
  const index = findIndex(things, wanted);
  const thing = things[index];
  if (thing !== undefined) things[index] = changed(thing);
}

export const ofType = (type: string) => (event: RecordedEvent) => event.type === type;

/** Numbers the events again, so that only the tampering itself can be noticed. */
export function renumber(evidence: Case): void {
  const revisions = new Map<string, bigint>();
  evidence.events = evidence.events.map((event, index) => {
    const revision = (revisions.get(event.stream) ?? -1n) + 1n;
    revisions.set(event.stream, revision);
    return { ...event, revision, position: String(index + 1).padStart(16, '0') as RecordedEvent['position'] };
  });
}

export function dropEvent(evidence: Case, wanted: (event: RecordedEvent) => boolean): RecordedEvent {
  const dropped = drop(evidence.events, wanted);
  renumber(evidence);
  return dropped;
}

/** The event once more, as a new one right after it. */
export function repeatEvent(evidence: Case, wanted: (event: RecordedEvent) => boolean): void {
  const index = findIndex(evidence.events, wanted);
  const event = evidence.events[index];
  if (event !== undefined) evidence.events.splice(index + 1, 0, { ...event, id: `${event.id}-again` });
  renumber(evidence);
}

export type Route = Conversation['request']['route'];

export function whole(route: Route, options: { stream: boolean; provider?: string } = { stream: false }) {
  return ({ request, answer }: Conversation) =>
    request.route === route &&
    request.stream === options.stream &&
    (options.provider === undefined || request.provider === options.provider) &&
    answer.status === 200 &&
    answer.end === 'whole';
}

/** The same conversation, but for one byte in the middle of what the client received. */
export function altered(conversation: Conversation, near = '"created'): Conversation {
  const body = Buffer.from(conversation.answer.body);
  const at = Math.max(0, body.indexOf(near)) + 1;
  body[at] = body[at] === 0x61 ? 0x62 : 0x61;
  return { ...conversation, answer: { ...conversation.answer, body } };
}
