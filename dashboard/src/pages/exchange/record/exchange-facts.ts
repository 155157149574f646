/** The facts of one request, from its recorded events. */
import { isEnd, listOf, membersOf, numberOf, type RecordedEvent, textOf, textsOf, timeOf } from './recorded-event.ts';

export type Outcome = 'in_progress' | 'completed' | 'failed' | 'refused' | 'disconnected';

export interface AttemptFacts {
  readonly number: number;
  readonly kind: string;
  readonly provider: string;
  readonly providerType: string;
  readonly model: string | undefined;
  readonly dialect: string;
  readonly guarded: boolean;
  readonly started: RecordedEvent;
  readonly failed: RecordedEvent | undefined;
  readonly firstPiece: RecordedEvent | undefined;
  readonly lastPiece: RecordedEvent | undefined;
  readonly pieces: number;
}

export interface ExchangeFacts {
  readonly received: RecordedEvent;
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
  readonly dialect: string;
  readonly method: string;
  readonly path: string;
  readonly isStream: boolean;
  readonly requestedModel: string | undefined;
  readonly capture: 'full' | 'metadata';
  readonly sessionId: string | undefined;
  readonly labels: readonly string[];
  readonly workflow: { readonly id: string; readonly version: number; readonly scope: string } | undefined;
  readonly resolved: RecordedEvent | undefined;
  readonly provider: string | undefined;
  readonly model: string | undefined;
  readonly attempts: readonly AttemptFacts[];
  readonly guardrails: readonly RecordedEvent[];
  readonly plugins: readonly RecordedEvent[];
  readonly cacheHit: RecordedEvent | undefined;
  /** The exchange whose recorded answer was returned. */
  readonly answerOf: string | undefined;
  readonly usage: readonly RecordedEvent[];
  readonly corrections: readonly RecordedEvent[];
  readonly end: RecordedEvent | undefined;
  readonly outcome: Outcome;
  /** 0 while none was sent; 499 when the client disconnected. */
  readonly status: number;
  readonly durationMs: number | undefined;
  readonly firstByteMs: number | undefined;
  readonly responseId: string | undefined;
}

/** Undefined while the first event is not read. */
export function factsOf(events: readonly RecordedEvent[]): ExchangeFacts | undefined {
  const received = events.find(({ type }) => type === 'request.received');
  if (received === undefined) return undefined;
  const ofType = (type: string) => events.filter((event) => event.type === type);
  const resolved = ofType('model.resolved')[0];
  const attempts = attemptsOf(events);
  const end = events.find(isEnd);
  const cacheHit = ofType('cache.hit')[0];
  const replayed = ofType('answer.replayed')[0];
  const last = attempts.at(-1);
  const workflow = membersOf(received.data, 'workflow');
  const ended = end?.data ?? {};
  return {
    received,
    receivedAt: timeOf(received),
    dialect: textOf(received.data, 'dialect') ?? '',
    method: textOf(received.data, 'method') ?? '',
    path: textOf(received.data, 'path') ?? '',
    isStream: received.data['stream'] === true,
    requestedModel: textOf(received.data, 'model'),
    capture: received.data['capture'] === 'metadata' ? 'metadata' : 'full',
    sessionId: textOf(received.data, 'sessionId'),
    labels: textsOf(received.data, 'labels'),
    workflow:
      workflow === undefined
        ? undefined
        : {
            id: textOf(workflow, 'id') ?? '',
            version: numberOf(workflow, 'version') ?? 0,
            scope: textOf(workflow, 'scope') ?? '',
          },
    resolved,
    provider: textOf(ended, 'provider') ?? last?.provider ?? textOf(resolved?.data ?? {}, 'provider'),
    model: textOf(ended, 'model') ?? last?.model ?? textOf(resolved?.data ?? {}, 'model'),
    attempts,
    guardrails: ofType('guardrail.applied'),
    plugins: ofType('plugin.applied'),
    cacheHit,
    answerOf: textOf(cacheHit?.data ?? replayed?.data ?? {}, 'exchangeId'),
    usage: ofType('usage.recorded'),
    corrections: ofType('usage.recalculated'),
    end,
    outcome: outcomeOf(end),
    status: end?.type === 'client.disconnected' ? 499 : (numberOf(ended, 'status') ?? 0),
    durationMs: numberOf(ended, 'durationMs'),
    firstByteMs: numberOf(ended, 'firstByteMs'),
    responseId: textOf(ended, 'responseId'),
  };
}

function outcomeOf(end: RecordedEvent | undefined): Outcome {
  if (end === undefined) return 'in_progress';
  if (end.type === 'exchange.completed') return 'completed';
  if (end.type === 'request.refused') return 'refused';
  return end.type === 'client.disconnected' ? 'disconnected' : 'failed';
}

function attemptsOf(events: readonly RecordedEvent[]): AttemptFacts[] {
  const attempts: AttemptFacts[] = [];
  for (const event of events) {
    const number = numberOf(event.data, 'attempt');
    if (number === undefined) continue;
    if (event.type === 'attempt.started') {
      attempts.push({
        number,
        kind: textOf(event.data, 'kind') ?? 'primary',
        provider: textOf(event.data, 'provider') ?? '',
        providerType: textOf(event.data, 'providerType') ?? '',
        model: textOf(event.data, 'model'),
        dialect: textOf(event.data, 'dialect') ?? '',
        guarded: event.data['guarded'] === true,
        started: event,
        ...{ failed: undefined, firstPiece: undefined, lastPiece: undefined, pieces: 0 },
      });
      continue;
    }
    const at = attempts.findLastIndex((attempt) => attempt.number === number);
    const attempt = attempts[at];
    if (attempt === undefined) continue;
    if (event.type === 'attempt.failed') attempts[at] = { ...attempt, failed: event };
    if (event.type === 'chunk.received') {
      const { firstPiece = event, pieces } = attempt;
      attempts[at] = { ...attempt, firstPiece, lastPiece: event, pieces: pieces + 1 };
    }
  }
  return attempts;
}

export interface GuardrailRun {
  readonly guardrail: string;
  readonly type: string;
  readonly step: number;
  readonly verdict: string;
  readonly code: string | undefined;
  readonly message: string | undefined;
  readonly error: string | undefined;
  readonly edited: boolean;
  readonly durationMs: number;
  /** Such as `email: 2`. */
  readonly findings: readonly string[];
}

/** The runs of a `guardrail.applied`, in their order. */
export function runsOf({ data }: RecordedEvent): readonly GuardrailRun[] {
  return listOf(data, 'runs').map((run) => ({
    guardrail: textOf(run, 'guardrail') ?? '',
    type: textOf(run, 'type') ?? '',
    step: numberOf(run, 'step') ?? 0,
    verdict: textOf(run, 'verdict') ?? '',
    code: textOf(run, 'code'),
    message: textOf(run, 'message'),
    error: textOf(run, 'error'),
    edited: run['edited'] === true,
    durationMs: (numberOf(run, 'durationNs') ?? 0) / 1e6,
    findings: Object.entries(membersOf(run, 'findings') ?? {}).map(([kind, count]) => `${kind}: ${String(count)}`),
  }));
}
