/** The crash suite's checks can fail: they find evidence that was changed. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { RecordedEvent } from '../../src/events/event.ts';
import { framesOf, type ProviderCall } from './evidence.ts';
import {
  altered,
  type Case,
  change,
  drop,
  dropEvent,
  type HonestRound,
  honestRound,
  ofType,
  renumber,
  repeatEvent,
  whole,
} from './honest-round.ts';
import { RecordedLog } from './recorded-log.ts';

let honest: Case;
let findings: HonestRound['findings'];

beforeAll(async () => {
  ({ evidence: honest, findings } = await honestRound());
}, 60_000);

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
  const arrival = { port: 0, at: 0, isAnswered: true, framesSent: 0 };

  it('without an exchange is reported', async () => {
    const call: ProviderCall = {
      provider: 'openai',
      method: 'POST',
      path: '/v1/chat/completions',
      requestId: 'not-in-the-log',
      ...arrival,
    };
    expect(await findings(({ calls }) => calls.push(call))).toContain('provider calls');
  });

  it('that carries no request id is reported', async () => {
    const unnamed = { provider: 'llamacpp', method: 'POST', path: '/v1/embeddings', requestId: undefined } as const;
    const call: ProviderCall = { ...unnamed, ...arrival };
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
