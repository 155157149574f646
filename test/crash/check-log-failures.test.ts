/** What the checks accept while the log cannot be written, and what they still find then. */
import { beforeAll, describe, expect, it } from 'vitest';
import { type Refusal, refusals } from '../../src/commands/refusal.ts';
import { LogUnavailable } from '../../src/events/log.ts';
import { type Answer, type Conversation, framesOf } from './evidence.ts';
import { type Case, change, type HonestRound, honestRound, renumber, whole } from './honest-round.ts';
import { logFailuresIn } from './log-failures.ts';

let findings: HonestRound['findings'];

beforeAll(async () => {
  ({ findings } = await honestRound());
}, 60_000);

const always = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };
const refusedWith = ({ code, message }: Refusal) =>
  ({ status: 503, end: 'whole', body: Buffer.from(JSON.stringify({ error: { code, message } })) }) as const;
const refused = refusedWith(refusals.answerNotRecorded(new LogUnavailable('refused', 'none')));
const notConfirmed = refusedWith(refusals.answerNotRecorded(new LogUnavailable('no answer', 'unknown')));

/** Changes what one client got. @returns the exchange */
function answerWith(evidence: Case, wanted: (one: Conversation) => boolean, changed: Partial<Answer>): string {
  let exchangeId = '';
  change(evidence.conversations, wanted, ({ request, answer }) => {
    exchangeId = answer.headers['x-exchange-id'] ?? '';
    return { request, answer: { ...answer, ...changed } };
  });
  return exchangeId;
}

/** Removes what is recorded of the exchange after its first event, and ends it as failed. */
function failExchange(evidence: Case, exchangeId: string, code: string): void {
  const stream = `exchange-${exchangeId}`;
  evidence.events = evidence.events.flatMap((event) => {
    if (event.stream !== stream || event.type === 'request.received') return [event];
    if (event.type !== 'exchange.completed') return [];
    return [{ ...event, type: 'exchange.failed', data: { status: 503, code } }];
  });
  evidence.calls = [];
  renumber(evidence);
}

function removeExchange(evidence: Case, exchangeId: string): void {
  evidence.events = evidence.events.filter(({ stream }) => stream !== `exchange-${exchangeId}`);
  evidence.calls = [];
  renumber(evidence);
}

const embeddings = whole('embeddings');

describe('503 not_ready of a service without workers', () => {
  const { status, message, code } = refusals.noWorker();
  const unserved = (evidence: Case) =>
    answerWith(evidence, embeddings, {
      ...refused,
      status,
      headers: {},
      body: Buffer.from(JSON.stringify({ error: { message, code } })),
    });

  it('is accepted for a request that the log does not have, and for no other', async () => {
    expect(await findings((evidence) => removeExchange(evidence, unserved(evidence)))).toEqual([]);
    expect(await findings(unserved)).not.toEqual([]);
  });
});

describe('503 log_unavailable', () => {
  const withoutId = (evidence: Case) => answerWith(evidence, embeddings, { ...refused, headers: {} });
  const unrecorded = (evidence: Case) => removeExchange(evidence, answerWith(evidence, embeddings, refused));
  const failed = (evidence: Case) =>
    failExchange(evidence, answerWith(evidence, embeddings, refused), 'log_unavailable');
  const killedBefore = (evidence: Case) =>
    failExchange(evidence, answerWith(evidence, embeddings, refused), 'gateway_stopped');

  it.each([
    ['without an exchange', (evidence: Case) => removeExchange(evidence, withoutId(evidence))],
    ['of an exchange without a record', unrecorded],
    ['of an exchange that failed when the log could be written again', failed],
    ['of an exchange that failed at the next start', killedBefore],
  ])('%s is accepted while the log cannot be written, and reported at any other time', async (_what, tamper) => {
    expect(
      await findings((evidence) => {
        tamper(evidence);
        evidence.logFailures = [always];
      }),
    ).toEqual([]);
    expect(await findings(tamper)).toContain('answers');
  });

  it('is reported when the log has the exchange as completed, unless it says that the outcome is not known', async () => {
    const answered = (answer: Partial<Answer>) =>
      findings((evidence) => {
        answerWith(evidence, embeddings, answer);
        evidence.logFailures = [always];
      });
    expect(await answered(refused)).toContain('answers');
    expect(await answered(notConfirmed)).toEqual([]);
  });

  it('is reported when the exchange failed for another reason', async () => {
    const other = await findings((evidence) => {
      failExchange(evidence, answerWith(evidence, embeddings, refused), 'provider_error');
      evidence.logFailures = [always];
    });
    expect(other).toContain('answers');
  });
});

describe('a connection that breaks', () => {
  const [sentAt, endedAt] = [1000, 2000];
  it.each([
    ['began before the request and ended within it', { from: 900, to: 1100 }, true],
    ['lasted as long as the gateway', { from: 1900, to: Number.POSITIVE_INFINITY }, true],
    ['ended before the request', { from: 500, to: 990 }, false],
    ['began after the end of the answer', { from: 2010, to: 3000 }, false],
  ])('is accepted only when the failure of the log met it: it %s', async (_when, failure, isAccepted) => {
    const found = await findings((evidence) => {
      answerWith(evidence, whole('chat', { stream: true }), { end: 'cut', sentAt, endedAt });
      evidence.logFailures = [failure];
    });
    expect(found).toEqual(isAccepted ? [] : ['connections']);
  });
});

describe('a stream that the failure of the log broke off', () => {
  const shortened = (keeps: (index: number) => boolean) => (evidence: Case) => {
    change(
      evidence.conversations,
      whole('chat', { stream: true, provider: 'llamacpp' }),
      ({ request, answer }): Conversation => {
        const body = Buffer.concat(framesOf(answer.body).frames.filter((_, index) => keeps(index)));
        return { request, answer: { ...answer, body, end: 'cut' } };
      },
    );
    evidence.logFailures = [always];
  };

  it('is accepted as the beginning of what is recorded', async () => {
    expect(await findings(shortened((index) => index < 3))).toEqual([]);
  });

  it.each([
    ['lacks a piece in the middle', (index: number) => index !== 2 && index < 6],
    ['lacks its beginning', (index: number) => index > 0 && index < 6],
  ])('is reported when it %s', async (_what, keeps) => {
    expect(await findings(shortened(keeps))).toContain('bytes');
  });

  it('is reported when it ends with an error after a piece that is missing', async () => {
    const found = await findings((evidence) => {
      change(evidence.conversations, whole('chat', { stream: true }), ({ request, answer }) => {
        const { frames } = framesOf(answer.body);
        const error = Buffer.from('data: {"error":{"code":"log_unavailable"}}\n\n');
        return { request, answer: { ...answer, body: Buffer.concat([...frames.slice(0, 2), error]) } };
      });
      evidence.logFailures = [always];
    });
    expect(found).toContain('bytes');
  });
});

it('a response with the status completed is reported when its exchange failed because of the log', async () => {
  const found = await findings((evidence) => {
    const index = evidence.responses.findIndex(({ id, seen }) => {
      const isCompleted = Object(evidence.retrieved.get(id)?.json).status === 'completed';
      return isCompleted && seen?.['status'] === 'completed';
    });
    const response = evidence.responses[index];
    if (response === undefined) throw new Error('the round left no such response');
    evidence.responses[index] = { ...response, seen: undefined };
    const isEnd = ({ stream, type }: { readonly stream: string; readonly type: string }) =>
      stream === `exchange-${response.exchangeId}` && type === 'exchange.completed';
    const data = { code: 'log_unavailable' };
    change(evidence.events, isEnd, (event) => ({ ...event, type: 'exchange.failed', data }));
    evidence.logFailures = [always];
  });
  expect(found).toContain('responses');
});

describe('the failures that a gateway printed', () => {
  const at = (ms: number) => new Date(Math.floor(performance.timeOrigin) + ms).toISOString();
  const line = (ms: number, msg: string, more: object = {}) => `${JSON.stringify({ time: at(ms), msg, ...more })}\n`;

  it('last from the first report to the recovery, and otherwise to its end', () => {
    const printed =
      'not JSON\n' +
      line(1000, 'the event log cannot be written: kafka: connect ECONNREFUSED') +
      line(1200, 'the event log cannot be written: kafka: timed out') +
      line(1300, 'the event log can be written again') +
      line(2000, 'the event log cannot be written: closed');
    const [first, second, ...others] = logFailuresIn(printed);
    expect(others).toEqual([]);
    expect(first?.from).toBeCloseTo(1000, -1);
    expect(first?.to).toBeCloseTo(1300, -1);
    expect(second?.from).toBeCloseTo(2000, -1);
    expect(second?.to).toBe(Number.POSITIVE_INFINITY);
  });

  it('are no errors of single requests', () => {
    const err = { type: 'LogUnavailable', message: 'the event log cannot be written: too slow' };
    expect(logFailuresIn(line(1, err.message, { err }) + line(2, 'another message'))).toEqual([]);
  });

  it('are no last words of a stop, which are plain text', () => {
    const words =
      'All acknowledged events are recorded; the stop could not be: the event log cannot be written: closed\n';
    expect(logFailuresIn(words)).toEqual([]);
  });
});
