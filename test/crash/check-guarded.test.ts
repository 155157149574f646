/** The checks of guarded requests can fail: they find evidence of a real round that was changed. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RecordedEvent } from '../../src/events/event.ts';
import { killAll, serve, temporaryFolder } from '../e2e/gateway-process.ts';
import { eventsIn } from '../e2e/recorded-events.ts';
import { checkPromises } from './check-background-and-repeated.ts';
import { isWholeAnswer, PERSONAL_DOMAIN } from './check-guarded.ts';
import { knownResponses } from './check-responses.ts';
import { checkRound } from './check-round.ts';
import type { Conversation, GuardedRequest, ProviderCall, SentRequest } from './evidence.ts';
import { GuardedClient } from './guarded-client.ts';
import { GuardedWorkflows } from './guarded-workflows.ts';
import { createChance } from './random.ts';
import { RecordedLog } from './recorded-log.ts';
import { Upstreams } from './upstreams.ts';
import { WireClient } from './wire-client.ts';

interface Case {
  events: RecordedEvent[];
  conversations: Conversation[];
  calls: ProviderCall[];
}

const folder = temporaryFolder();
const upstreams = new Upstreams();
const workflows = new GuardedWorkflows();
const clients = Array.from(
  { length: 4 },
  (_, index) => new GuardedClient(`t${index}`, createChance(index + 1), workflows, index === 0),
);
let honest: Case;

beforeAll(async () => {
  const env = { ...(await upstreams.listen()), GUARDRAILS_ENABLED: 'true' };
  const { url, process } = await serve({ dataDir: folder.path, env });
  await workflows.create(new WireClient(url));
  const conversations: Conversation[] = [];
  const enough = () => conversations.length >= 120;
  await Promise.all(clients.map((client) => client.run(new WireClient(url), conversations, enough)));
  process.kill('SIGTERM');
  await process.exited;
  honest = { events: await eventsIn(folder.path), conversations, calls: upstreams.newCalls() };
}, 60_000);

afterAll(async () => {
  killAll();
  await upstreams.close();
  folder.remove();
});

/** The names of the checks that find something wrong. */
async function findings(tamper: (evidence: Case) => void): Promise<string[]> {
  const evidence = { events: [...honest.events], conversations: [...honest.conversations], calls: [...honest.calls] };
  tamper(evidence);
  const log = new RecordedLog();
  for (const event of evidence.events) log.add(event);
  // Retrievals have a test of their own.
  const rest = { responses: [], deleted: new Map(), killedAt: 0, orderly: false, workflows: workflows.kinds };
  const given = clients.flatMap((client) => client.given());
  const found = await checkRound({ ...evidence, ...rest, given }, log, () =>
    Promise.reject(new Error('not retrieved')),
  );
  return [...new Set(found.map(({ check }) => check))];
}

function change<Thing>(things: Thing[], wanted: (thing: Thing) => boolean, changed: (thing: Thing) => Thing): void {
  const index = things.findIndex(wanted);
  const thing = things[index];
  if (thing === undefined) throw new Error('the round left no such evidence');
  things[index] = changed(thing);
}

const ofPhase = (phase: string) => (event: RecordedEvent) =>
  event.type === 'guardrail.applied' && Object(event.data).phase === phase;

/** An event of another kind in its place, so that only its absence can be noticed. */
const withdrawn = (event: RecordedEvent): RecordedEvent => ({ ...event, type: 'model.resolved', data: {} });

const whole =
  (stream: boolean, route: SentRequest['route'] = 'chat') =>
  ({ request, answer }: Conversation) =>
    request.route === route && request.stream === stream && isWholeAnswer(request, answer) && isNotRepeated(request);
const isNotRepeated = ({ idempotencyKey }: SentRequest) => idempotencyKey === undefined;

function rewritten({ request, answer }: Conversation, from: string | RegExp, to: string): Conversation {
  const body = Buffer.from(answer.body.toString().replace(from, to));
  if (body.equals(answer.body)) throw new Error('the answer has no such text');
  return { request, answer: { ...answer, body } };
}

function expecting(one: Conversation, facts: Partial<GuardedRequest>): Conversation {
  const { guarded } = one.request;
  if (guarded === undefined) throw new Error('the request has no guardrails');
  return { ...one, request: { ...one.request, guarded: { ...guarded, ...facts } } };
}

it('find nothing wrong with an untampered round of every kind', async () => {
  expect(await findings(() => {})).toEqual([]);
  const { conversations } = honest;
  for (const route of ['chat', 'messages', 'responses'] as const) {
    for (const stream of [true, false]) expect(conversations.filter(whole(stream, route)).length).toBeGreaterThan(0);
  }
  expect(conversations.some(({ request }) => request.recalls !== undefined)).toBe(true);
  expect(clients.flatMap((client) => client.given()).some(({ answers }) => answers.length > 1)).toBe(true);
  expect(new Set(workflows.kinds.values())).toEqual(new Set(['live', 'collected']));
  expect(knownResponses(conversations).length).toBeGreaterThan(0);
});

describe('a provider', () => {
  it.each(['body', 'path'] as const)('that gets an original value in the %s is reported', async (member) => {
    const found = await findings(({ calls }) =>
      change(
        calls,
        ({ method }) => method === 'POST',
        (call) => ({ ...call, [member]: `…a@${PERSONAL_DOMAIN}…` }),
      ),
    );
    expect(found).toEqual(['original value']);
  });

  it('that was called before guardrails ran is reported', async () => {
    expect(await findings(({ events }) => change(events, ofPhase('prompt'), withdrawn))).toContain('applied');
  });
});

describe('an exchange that was completed', () => {
  it.each(['prompt', 'stream', 'response'])('without guardrails of the %s phase is reported', async (phase) => {
    expect(await findings(({ events }) => change(events, ofPhase(phase), withdrawn))).toEqual(['applied']);
  });

  it.each([undefined, 'path:/elsewhere'])('under the workflow of %s is reported', async (scope) => {
    const found = await findings(({ events }) =>
      change(
        events,
        ({ type, context }) => type === 'request.received' && context.userPath?.startsWith('/guarded/') === true,
        (event) => ({ ...event, data: { ...Object(event.data), workflow: scope && { id: 'x', version: 9, scope } } }),
      ),
    );
    expect(found).toContain('workflow');
  });

  it('under an older version than the acknowledged one is reported', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole(true), (one) => expecting(one, { leastVersion: 1000 })),
    );
    expect(found).toEqual(['workflow']);
  });
});

describe('a client', () => {
  it.each([true, false])('that got a placeholder is reported (stream: %s)', async (stream) => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole(stream), (one) => rewritten(one, /[\w.]+@personal\.example/, '<EMAIL_1>')),
    );
    expect(found).toContain('placeholder');
  });

  it('that got a placeholder in two pieces is reported', async () => {
    const piece = (content: string) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
    const found = await findings(({ conversations }) =>
      change(conversations, whole(true), ({ request, answer }) => {
        const body = Buffer.concat([Buffer.from(piece('<EMA') + piece('IL_1>')), answer.body]);
        return { request, answer: { ...answer, body } };
      }),
    );
    expect(found).toContain('placeholder');
  });

  it.each([true, false])('that got another text is reported (stream: %s)', async (stream) => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole(stream), (one) => expecting(one, { texts: ['something else'] })),
    );
    expect(found).toEqual(['text']);
  });

  it.each([
    ['a stream', true, 'chat'],
    ['a stream of a message', true, 'messages'],
    ['an answer', false, 'chat'],
    ['a response', false, 'responses'],
  ] as const)('that got other bytes of %s than the recorded ones is reported', async (_what, stream, route) => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole(stream, route), (one) => rewritten(one, '"id":"', '"id":"x')),
    );
    expect(found).toEqual(['delivered']);
  });

  it('that got less than the recorded stream as a whole is reported', async () => {
    const found = await findings(({ conversations }) =>
      change(conversations, whole(true), ({ request, answer }) => {
        return { request, answer: { ...answer, body: answer.body.subarray(0, -20) } };
      }),
    );
    expect(found).toEqual(['delivered']);
  });

  it('that got different answers under one key is reported', () => {
    const [first, second] = honest.conversations.filter(whole(true));
    if (first === undefined || second === undefined) throw new Error('the round left no such evidence');
    const answers = [first.answer.body, second.answer.body];
    expect(checkPromises([], [{ key: 'k', answers }])).toMatchObject([{ check: 'keys' }]);
  });
});

it('a stored response with a placeholder is reported', async () => {
  const found = await findings(({ events }) =>
    change(
      events,
      ({ type, body }) =>
        type === 'response.stored' && body !== undefined && Buffer.from(body).includes('"placeholders"'),
      (event) => {
        const text = Buffer.from(event.body ?? []).toString();
        return { ...event, body: Buffer.from(text.replace(/[\w.]+@personal\.example/, '<EMAIL_1>')) };
      },
    ),
  );
  expect(found).toContain('placeholder');
});
