/** The crash suite's checks can fail: they find evidence that was changed. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RecordedEvent } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { ask, killAll, serve, temporaryFolder } from '../e2e/gateway-process.ts';
import { deletions, type KnownResponse, knownResponses } from './check-responses.ts';
import { checkRound } from './check-round.ts';
import { type Conversation, framesOf, type ProviderCall, type Retrieved } from './evidence.ts';
import { LoadClient } from './load.ts';
import { createChance } from './random.ts';
import { RecordedLog } from './recorded-log.ts';
import { Upstreams } from './upstreams.ts';
import { WireClient } from './wire-client.ts';

/** The evidence of a round, to be changed by a test. */
interface Case {
  events: RecordedEvent[];
  conversations: Conversation[];
  calls: ProviderCall[];
  retrieved: Map<string, Retrieved>;
  responses: KnownResponse[];
  killedAt: number;
  orderly: boolean;
}

const folder = temporaryFolder();
const upstreams = new Upstreams();
let honest: Case;

/** One round: a few clients, a kill, a restart. */
beforeAll(async () => {
  const env = await upstreams.listen();
  const killed = await serve({ dataDir: folder.path, env });
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

  const again = await serve({ dataDir: folder.path, env });
  const responses = knownResponses(conversations);
  const retrieved = new Map<string, Retrieved>();
  for (const { id } of responses) {
    const response = await ask(again.url, `/v1/responses/${id}`);
    retrieved.set(id, { status: response.status, json: await response.json() });
  }
  again.process.kill('SIGTERM');
  await again.process.exited;
  const log = await openLog(`file:${folder.path}/log`, { readOnly: true });
  const events: RecordedEvent[] = [];
  for await (const event of log.readAll()) events.push(event);
  await log.close();
  honest = { events, conversations, calls: upstreams.newCalls(), retrieved, responses, killedAt, orderly: false };
}, 60_000);

afterAll(async () => {
  killAll();
  await upstreams.close();
  folder.remove();
});

/** The names of the checks that find something wrong. */
async function findings(tamper: (evidence: Case) => void): Promise<string[]> {
  const { events, conversations, calls, retrieved, responses } = honest;
  const evidence: Case = {
    ...honest,
    events: [...events],
    conversations: [...conversations],
    calls: [...calls],
    retrieved: new Map(retrieved),
    responses: [...responses],
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

function findIndex<Thing>(things: readonly Thing[], wanted: (thing: Thing) => boolean): number {
  const index = things.findIndex(wanted);
  if (index === -1) throw new Error('the round left no such evidence');
  return index;
}

function drop<Thing>(things: Thing[], wanted: (thing: Thing) => boolean): Thing {
  const [dropped] = things.splice(findIndex(things, wanted), 1);
  if (dropped === undefined) throw new Error('the round left no such evidence');
  return dropped;
}

function change<Thing>(things: Thing[], wanted: (thing: Thing) => boolean, changed: (thing: Thing) => Thing): void {
  const index = findIndex(things, wanted);
  const thing = things[index];
  if (thing !== undefined) things[index] = changed(thing);
}

const ofType = (type: string) => (event: RecordedEvent) => event.type === type;

/** Numbers the events again, so that only the tampering itself can be noticed. */
function renumber(evidence: Case): void {
  const revisions = new Map<string, bigint>();
  evidence.events = evidence.events.map((event, index) => {
    const revision = (revisions.get(event.stream) ?? -1n) + 1n;
    revisions.set(event.stream, revision);
    return { ...event, revision, position: String(index + 1).padStart(16, '0') as RecordedEvent['position'] };
  });
}

function dropEvent(evidence: Case, wanted: (event: RecordedEvent) => boolean): RecordedEvent {
  const dropped = drop(evidence.events, wanted);
  renumber(evidence);
  return dropped;
}

/** The event once more, as a new one right after it. */
function repeatEvent(evidence: Case, wanted: (event: RecordedEvent) => boolean): void {
  const index = findIndex(evidence.events, wanted);
  const event = evidence.events[index];
  if (event !== undefined) evidence.events.splice(index + 1, 0, { ...event, id: `${event.id}-again` });
  renumber(evidence);
}

type Route = Conversation['request']['route'];

function whole(route: Route, options: { stream: boolean; provider?: string } = { stream: false }) {
  return ({ request, answer }: Conversation) =>
    request.route === route &&
    request.stream === options.stream &&
    (options.provider === undefined || request.provider === options.provider) &&
    answer.status === 200 &&
    answer.end === 'whole';
}

/** The same conversation, but for one byte in the middle of what the client received. */
function altered(conversation: Conversation, near = '"created'): Conversation {
  const body = Buffer.from(conversation.answer.body);
  const at = Math.max(0, body.indexOf(near)) + 1;
  body[at] = body[at] === 0x61 ? 0x62 : 0x61;
  return { ...conversation, answer: { ...conversation.answer, body } };
}

const kept = (evidence: Case, seen: boolean) =>
  evidence.responses.find((one) => one.stored && (one.seen !== undefined) === seen && isThere(evidence, one.id));
const isThere = ({ retrieved }: Case, id: string) => retrieved.get(id)?.status === 200;

it('find nothing wrong with an untampered round', async () => {
  expect(await findings(() => {})).toEqual([]);
});

describe('an event that is missing', () => {
  it.each([
    ['a piece of an answer', 'chunk.received', 'pieces'],
    ['the call to a provider', 'attempt.started', 'provider calls'],
    ['the beginning of an exchange', 'request.received', 'one beginning'],
    ['the end of an exchange', 'exchange.completed', 'one end'],
    ['the closing of an exchange that was open at the kill', 'exchange.failed', 'one end'],
    ['the usage', 'usage.recorded', 'usage once'],
    ['a stored response', 'response.stored', 'bytes'],
  ])('%s (%s) is reported', async (_what, type, check) => {
    expect(await findings((evidence) => dropEvent(evidence, ofType(type)))).toContain(check);
  });

  it('leaves a gap in the positions and in its stream', async () => {
    const found = await findings(({ events }) => drop(events, ofType('attempt.started')));
    expect(found).toEqual(expect.arrayContaining(['positions', 'revisions']));
  });

  it('is reported when the whole exchange is missing', async () => {
    const found = await findings((evidence) => {
      const { stream } = dropEvent(evidence, ofType('request.received'));
      evidence.events = evidence.events.filter((event) => event.stream !== stream);
      renumber(evidence);
    });
    expect(found).toEqual(expect.arrayContaining(['provider calls', 'answers']));
  });
});

describe('an event that is recorded twice', () => {
  it.each([
    ['exchange.completed', 'one end'],
    ['usage.recorded', 'usage once'],
    ['request.received', 'one beginning'],
    ['chunk.received', 'pieces'],
    ['attempt.started', 'attempts'],
  ])('%s is reported', async (type, check) => {
    expect(await findings((evidence) => repeatEvent(evidence, ofType(type)))).toContain(check);
  });

  it('is reported by its id', async () => {
    const found = await findings(({ events }) => {
      const event = events[5];
      if (event !== undefined) events.splice(6, 0, event);
    });
    expect(found).toContain('event ids');
  });

  it('is reported when it is a whole exchange under another id', async () => {
    const found = await findings((evidence) => {
      const stream = evidence.events.find(ofType('exchange.completed'))?.stream;
      const copies = evidence.events.filter((event) => event.stream === stream);
      const other = `${stream}0` as RecordedEvent['stream'];
      evidence.events.push(...copies.map((event) => ({ ...event, id: `${event.id}-again`, stream: other })));
      renumber(evidence);
    });
    expect(found).toContain('recorded once');
  });
});

describe('bytes that a client received', () => {
  it.each([
    ['a JSON answer', whole('chat')],
    ['embeddings', whole('embeddings')],
    ['a passthrough answer', whole('passthrough')],
    ['a chat stream', whole('chat', { stream: true })],
    ['a passthrough stream', whole('passthrough', { stream: true })],
    ['a native response', whole('responses', { stream: false, provider: 'openai' })],
    ['a native response stream', whole('responses', { stream: true, provider: 'openai' })],
    ['a translated response', whole('responses', { stream: false, provider: 'llamacpp' })],
  ])('differ from the log in one place of %s', async (_what, wanted) => {
    const found = await findings(({ conversations }) => change(conversations, wanted, (one) => altered(one)));
    expect(found).toContain('bytes');
  });

  it.each(['"delta":"', '"completed_at":1', '"usage":{'])(
    'differ from the log at %s of a translated stream',
    async (near) => {
      const wanted = whole('responses', { stream: true, provider: 'llamacpp' });
      const found = await findings(({ conversations }) => change(conversations, wanted, (one) => altered(one, near)));
      expect(found).toContain('bytes');
    },
  );

  it('are more than the log has', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole('chat', { stream: true }), (one) => {
        const more = Buffer.concat([one.answer.body, Buffer.from('data: {"more":1}\n\n')]);
        return { ...one, answer: { ...one.answer, body: more } };
      }),
    );
    expect(found).toContain('bytes');
  });

  it('lack a frame in the middle of a stream', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole('chat', { stream: true }), (one) => {
        const body = Buffer.concat(framesOf(one.answer.body).frames.filter((_, index) => index !== 3));
        return { ...one, answer: { ...one.answer, body } };
      }),
    );
    expect(found).toContain('bytes');
  });

  it('are of an exchange that is unfinished in the log', async () => {
    const found = await findings((evidence) =>
      change(evidence.events, ofType('exchange.completed'), (event) => ({ ...event, type: 'client.disconnected' })),
    );
    expect(found).toContain('completed');
  });

  it('were sent by another client than the recorded one', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole('chat'), ({ request, answer }) => ({
        request: { ...request, body: Buffer.from('{}') },
        answer,
      })),
    );
    expect(found).toContain('requests');
  });

  it('end before the gateway was killed', async () => {
    const found = await findings((evidence) => {
      evidence.killedAt = Number.POSITIVE_INFINITY;
    });
    expect(found).toContain('connections');
  });

  it('break off although the gateway got only SIGTERM', async () => {
    const found = await findings((evidence) => {
      evidence.orderly = true;
    });
    expect(found).toContain('orderly stop');
  });

  it('are an error that the log does not have', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole('chat'), ({ request, answer }) => ({ request, answer: { ...answer, status: 502 } })),
    );
    expect(found).toContain('answers');
  });

  it('come without the id of an exchange', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole('chat'), ({ request, answer }) => ({ request, answer: { ...answer, headers: {} } })),
    );
    expect(found).toContain('answers');
  });
});

describe('a provider call', () => {
  it('without an exchange is reported', async () => {
    const call: ProviderCall = {
      provider: 'openai',
      method: 'POST',
      path: '/v1/chat/completions',
      requestId: 'not-in-the-log',
    };
    expect(await findings(({ calls }) => calls.push(call))).toContain('provider calls');
  });

  it('that carries no request id is reported', async () => {
    const call: ProviderCall = { provider: 'llamacpp', method: 'POST', path: '/v1/embeddings', requestId: undefined };
    expect(await findings(({ calls }) => calls.push(call))).toContain('provider calls');
  });

  it('made once more than there are attempts is reported', async () => {
    const found = await findings(({ calls }) => {
      const call = calls.find(({ method }) => method === 'POST');
      if (call !== undefined) calls.push(call);
    });
    expect(found).toContain('provider calls');
  });
});

describe('a response', () => {
  it('that is lost is reported, whether it was whole or cut', async () => {
    for (const seen of [true, false]) {
      const found = await findings((evidence) => evidence.retrieved.delete(kept(evidence, seen)?.id ?? ''));
      expect(found).toContain('responses');
    }
  });

  it('that differs from the one its client saw is reported', async () => {
    const found = await findings((evidence) => {
      evidence.retrieved.set(kept(evidence, true)?.id ?? '', { status: 200, json: { status: 'completed' } });
    });
    expect(found).toContain('responses');
  });

  it('that was cut and has the status completed is reported', async () => {
    const found = await findings((evidence) => {
      const id = kept(evidence, false)?.id ?? '';
      const json = evidence.retrieved.get(id)?.json;
      evidence.retrieved.set(id, { status: 200, json: { ...Object(json), status: 'completed' } });
    });
    expect(found).toContain('responses');
  });

  it('that was cut and lacks text that its client has is reported', async () => {
    const found = await findings((evidence) => {
      const cut = evidence.responses.findIndex((one) => one.stored && one.seen === undefined);
      const response = evidence.responses[cut];
      if (response !== undefined) evidence.responses[cut] = { ...response, text: `${response.text} and more` };
    });
    expect(found).toContain('responses');
  });

  it('that was deleted and exists again is reported', async () => {
    const found = await findings(({ conversations, retrieved }) => {
      const deleted = conversations.find(whole('delete'))?.request.responseId ?? '';
      retrieved.set(deleted, { status: 200, json: {} });
    });
    expect(found).toContain('responses');
  });

  it('that was not to be stored and exists is reported', async () => {
    const found = await findings(({ responses, retrieved }) => {
      retrieved.set(responses.find(({ stored }) => !stored)?.id ?? '', { status: 200, json: {} });
    });
    expect(found).toContain('responses');
  });

  it('that lacks an earlier turn is reported', async () => {
    const found = await findings(({ conversations }) =>
      change(
        conversations,
        (one) => one.request.recalls !== undefined && whole('responses', one.request)(one),
        ({ request, answer }) => ({ request: { ...request, recalls: 'never said' }, answer }),
      ),
    );
    expect(found).toContain('contents');
  });

  it('that is different right after it was made is reported', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole('retrieve'), ({ request, answer }) => ({
        request: { ...request, shows: {} },
        answer,
      })),
    );
    expect(found).toContain('contents');
  });
});

describe('the digest of the log', () => {
  it('changes with a single byte of an old event', () => {
    const digestOf = (events: readonly RecordedEvent[]) => {
      const log = new RecordedLog();
      for (const event of events) log.add(event);
      return log.digest();
    };
    const changed = [...honest.events];
    change(changed, ofType('chunk.received'), (event) => {
      const body = Buffer.from(event.body ?? []);
      body[0] = (body[0] ?? 0) ^ 1;
      return { ...event, body };
    });
    expect(digestOf(honest.events)).toBe(digestOf([...honest.events]));
    expect(digestOf(changed)).not.toBe(digestOf(honest.events));
  });
});
