/** The steps of a request in the order of the pipeline, with their times, from its recorded events. */
import { type AttemptFacts, type ExchangeFacts, type GuardrailRun, runsOf } from '../record/exchange-facts.ts';
import { numberOf, type RecordedEvent, type RelatedLink, textOf, textsOf, timeOf } from '../record/recorded-event.ts';

/** As in `ui/status-badge.tsx`. */
type Tone = 'ok' | 'warn' | 'bad' | 'info' | 'plain';

export interface TimelineStep {
  readonly key: string;
  readonly title: string;
  /** In sentences or short facts. */
  readonly details: readonly string[];
  /** Milliseconds since the request was received. */
  readonly startMs: number;
  /** Equal to the start for a moment; undefined while the step is running. */
  readonly endMs: number | undefined;
  readonly tone: Tone;
  /** The tone in a word, where it is not plain. */
  readonly word?: string;
  /** 0 for a step of the pipeline, 1 for a part of one. */
  readonly depth: 0 | 1;
  /** Revision of the event that records it. */
  readonly revision: string | undefined;
  /** Another exchange. */
  readonly exchange?: string;
}

export interface Timeline {
  readonly steps: readonly TimelineStep[];
  /** The end of the last step, or the present while the request is running. */
  readonly totalMs: number;
}

/** @param now milliseconds since the epoch: a running request lasts until now */
export function timelineOf(
  events: readonly RecordedEvent[],
  facts: ExchangeFacts,
  related: readonly RelatedLink[],
  now: number,
): Timeline {
  const steps: TimelineStep[] = [];
  const since = (event: Pick<RecordedEvent, 'at'>) => Math.max(0, timeOf(event) - facts.receivedAt);
  const moment = (event: RecordedEvent, title: string, details: readonly string[], tone: Tone = 'plain') => {
    const at = since(event);
    steps.push({
      key: event.revision,
      title,
      details,
      startMs: at,
      endMs: at,
      tone,
      depth: 0,
      revision: event.revision,
    });
  };

  moment(facts.received, 'Received', receivedDetails(facts));
  for (const event of events) {
    switch (event.type) {
      case 'plugin.applied':
        steps.push(pluginStep(event, since(event)));
        break;
      case 'model.resolved':
        moment(event, 'Model', resolvedDetails(event));
        if (facts.workflow !== undefined) {
          const { scope, version } = facts.workflow;
          steps.push({
            ...{ key: 'workflow', title: 'Workflow', details: [`${scope}, version ${version}`] },
            ...{
              startMs: since(event),
              endMs: since(event),
              tone: 'plain',
              depth: 0,
              revision: facts.received.revision,
            },
          });
        }
        break;
      case 'history.replayed':
        moment(event, 'Earlier turns', [
          `${numberOf(event.data, 'items') ?? 0} items of ${textsOf(event.data, 'responses').length} responses were put in front of the input.`,
        ]);
        break;
      case 'guardrail.applied':
        steps.push(...guardrailSteps(event, since(event)));
        break;
      case 'placeholders.assigned':
        moment(event, 'Placeholders', [
          `Values replaced before a provider was called: ${numberOf(event.data, 'count') ?? 0}.`,
        ]);
        break;
      case 'cache.hit':
        steps.push({
          ...{ key: event.revision, title: 'Cache hit', details: cacheDetails(event), tone: 'ok', depth: 0 },
          ...{ startMs: since(event), endMs: since(event), revision: event.revision },
          ...withExchange(textOf(event.data, 'exchangeId')),
        });
        break;
      case 'answer.replayed':
        steps.push({
          ...{ key: event.revision, title: 'Answer on record', tone: 'ok', depth: 0, revision: event.revision },
          details: ['The same idempotency key: the earlier answer was returned.'],
          ...{ startMs: since(event), endMs: since(event) },
          ...withExchange(textOf(event.data, 'exchangeId')),
        });
        break;
      case 'exchange.resumed':
        moment(event, 'Resumed', ['The gateway restarted and continued the response.'], 'warn');
        break;
      case 'attempt.started': {
        const number = numberOf(event.data, 'attempt');
        const attempt = facts.attempts.find((one) => one.number === number && one.started === event);
        if (attempt !== undefined) steps.push(...attemptSteps(attempt, facts, since));
        break;
      }
      case 'request.refused':
      case 'exchange.completed':
      case 'exchange.failed':
      case 'client.disconnected':
        steps.push(endStep(event, facts, since(event)));
        break;
      case 'cache.stored':
        moment(event, 'Cached', [`Until ${new Date(numberOf(event.data, 'expiresAt') ?? 0).toISOString()}.`]);
        break;
    }
  }
  for (const { relation, id, at, position } of related) {
    if (relation !== 'caused') continue;
    const startMs = Math.max(0, timeOf({ at }) - facts.receivedAt);
    steps.push({
      ...{
        key: `caused ${position}`,
        title: 'Request of a guardrail or the semantic cache',
        details: [],
        tone: 'plain',
      },
      ...{ depth: 1, startMs, endMs: startMs, revision: undefined, exchange: id },
    });
  }
  const ordered = withMomentsInOrder(steps);
  const isRunning = facts.end === undefined;
  const totalMs = Math.max(
    isRunning ? now - facts.receivedAt : 0,
    ...ordered.map(({ startMs, endMs }) => endMs ?? startMs),
  );
  return { steps: ordered, totalMs };
}

/**
 * Events are in the order of the pipeline, and carry the time at which they were appended together: a moment is not later
 * than the step that follows it.
 */
function withMomentsInOrder(steps: readonly TimelineStep[]): TimelineStep[] {
  const ordered: TimelineStep[] = [];
  let next = Number.POSITIVE_INFINITY;
  for (const step of steps.toReversed()) {
    const isMoment = step.endMs === step.startMs;
    const startMs = isMoment && step.depth === 0 ? Math.min(step.startMs, next) : step.startMs;
    if (step.depth === 0) next = startMs;
    ordered.push(isMoment ? { ...step, startMs, endMs: startMs } : step);
  }
  return ordered.reverse();
}

function withExchange(id: string | undefined): Pick<TimelineStep, 'exchange'> {
  return id === undefined ? {} : { exchange: id };
}

function receivedDetails({ received, isStream, capture }: ExchangeFacts): string[] {
  const { data, body_bytes: bytes } = received;
  return [
    `${textOf(data, 'method') ?? ''} ${textOf(data, 'path') ?? ''}`,
    ...(isStream ? ['stream'] : []),
    ...(bytes === undefined ? [] : [`${bytes} bytes`]),
    ...(capture === 'metadata' ? ['bodies are not recorded'] : []),
  ];
}

function resolvedDetails({ data }: RecordedEvent): string[] {
  const through = textsOf(data, 'through');
  return [
    `${textOf(data, 'requested') ?? ''} → ${textOf(data, 'provider') ?? ''}/${textOf(data, 'model') ?? ''}`,
    ...(through.length === 0 ? [] : [`through ${through.join(', ')}`]),
  ];
}

function cacheDetails({ data }: RecordedEvent): string[] {
  const similarity = numberOf(data, 'similarity');
  const storedAt = numberOf(data, 'storedAt');
  return [
    `${textOf(data, 'cacheType') ?? 'exact'} match`,
    ...(similarity === undefined ? [] : [`similarity ${similarity.toFixed(3)}`]),
    ...(storedAt === undefined ? [] : [`answer of ${new Date(storedAt).toISOString()}`]),
  ];
}

function pluginStep(event: RecordedEvent, at: number): TimelineStep {
  const { data, revision } = event;
  const durationMs = (numberOf(data, 'durationNs') ?? 0) / 1e6;
  const refused = data['refused'] !== undefined;
  const error = textOf(data, 'error');
  const details = [
    ...(textOf(data, 'model') === undefined ? [] : [`model ${textOf(data, 'model')}`]),
    ...(textOf(data, 'provider') === undefined ? [] : [`provider ${textOf(data, 'provider')}`]),
    ...textsOf(data, 'labels').map((label) => `label ${label}`),
    ...(error === undefined ? [] : [error]),
    ...(refused ? ['refused the request'] : []),
  ];
  const tone: Tone = refused ? 'bad' : error === undefined ? 'info' : 'warn';
  const startMs = Math.max(0, at - durationMs);
  const title = `Plugin ${textOf(data, 'plugin') ?? ''}`;
  return { key: revision, title, details, startMs, endMs: startMs + durationMs, tone, depth: 0, revision };
}

const phaseTitles: Readonly<Record<string, string>> = {
  prompt: 'Guardrails of the request',
  response: 'Guardrails of the answer',
  stream: 'Guardrails of the stream',
};

const verdictTones: Readonly<Record<string, Tone>> = {
  allow: 'ok',
  warn: 'warn',
  respond: 'warn',
  failure: 'bad',
  block: 'bad',
};

/** Guardrails of one step run at the same time, steps one after another; the phase ends when it is recorded. */
function guardrailSteps(event: RecordedEvent, at: number): TimelineStep[] {
  const { data, revision } = event;
  const runs = runsOf(event);
  const durations = new Map<number, number>();
  for (const { step, durationMs } of runs) durations.set(step, Math.max(durations.get(step) ?? 0, durationMs));
  const total = [...durations.values()].reduce((sum, one) => sum + one, 0);
  const startMs = Math.max(0, at - total);
  const verdict = textOf(data, 'verdict') ?? 'allow';
  const decidedBy = textOf(data, 'decidedBy');
  const phase: TimelineStep = {
    ...{ key: revision, title: phaseTitles[textOf(data, 'phase') ?? ''] ?? 'Guardrails', depth: 0, revision },
    details: [
      ...(decidedBy === undefined ? [] : [`decided by ${decidedBy}`]),
      ...(data['edited'] === true ? ['content was changed'] : []),
    ],
    ...{ startMs, endMs: startMs + total, tone: verdictTones[verdict] ?? 'plain', word: verdict },
  };
  let begin = startMs;
  const starts = new Map<number, number>();
  for (const [step, duration] of [...durations].sort(([one], [other]) => one - other)) {
    starts.set(step, begin);
    begin += duration;
  }
  return [
    phase,
    ...runs.map((run, place): TimelineStep => {
      const from = starts.get(run.step) ?? startMs;
      return {
        ...{ key: `${revision} ${place}`, title: run.guardrail, details: runDetails(run), depth: 1, revision },
        ...{ startMs: from, endMs: from + run.durationMs, tone: verdictTones[run.verdict] ?? 'plain' },
        word: run.verdict,
      };
    }),
  ];
}

function runDetails({ type, code, message, error, edited, findings }: GuardrailRun): string[] {
  return [
    type,
    ...[code, message, error].filter((one) => one !== undefined),
    ...(edited ? ['edited'] : []),
    ...findings,
  ];
}

function attemptSteps(
  attempt: AttemptFacts,
  facts: ExchangeFacts,
  since: (event: Pick<RecordedEvent, 'at'>) => number,
): TimelineStep[] {
  const { number, started, failed, firstPiece, lastPiece, pieces } = attempt;
  const startMs = since(started);
  const failedMs = failed === undefined ? undefined : (numberOf(failed.data, 'durationMs') ?? since(failed));
  const isLast = facts.attempts.at(-1) === attempt;
  const isOfEnd = isLast && facts.end !== undefined;
  const endedMs = isOfEnd ? (facts.durationMs ?? since(facts.end ?? started)) : undefined;
  const endMs = failedMs ?? endedMs;
  const target = `${attempt.provider}${attempt.model === undefined ? '' : `/${attempt.model}`}`;
  const tone: Tone =
    failed !== undefined ? 'bad' : endMs === undefined ? 'info' : facts.outcome === 'completed' ? 'ok' : 'warn';
  const steps: TimelineStep[] = [
    {
      ...{ key: started.revision, title: `Attempt ${number}: ${target}`, revision: started.revision, depth: 0, tone },
      details: [attempt.kind, attempt.dialect, ...(failed === undefined ? [] : failureDetails(failed))],
      ...{ startMs, endMs: endMs === undefined ? undefined : Math.max(startMs, endMs) },
    },
  ];
  const isOfCompleted = facts.end?.type === 'exchange.completed' && isLast && failed === undefined;
  const measuredMs = isOfCompleted && facts.firstByteMs !== undefined ? facts.firstByteMs : undefined;
  // Durations and times of events are rounded apart from each other.
  const firstMs = measuredMs === undefined ? timeOfPiece(firstPiece, since) : Math.max(startMs, measuredMs);
  if (firstMs !== undefined && firstMs >= startMs) {
    steps.push({
      ...{ key: `${started.revision} wait`, title: 'Until the first byte', details: [], depth: 1, tone: 'plain' },
      ...{ startMs, endMs: firstMs, revision: firstPiece?.revision },
    });
    const lastMs = timeOfPiece(lastPiece, since);
    if (pieces > 1 && lastMs !== undefined) {
      steps.push({
        ...{
          key: `${started.revision} stream`,
          title: 'Stream',
          details: [`${pieces} pieces`],
          depth: 1,
          tone: 'plain',
        },
        ...{ startMs: firstMs, endMs: endMs === undefined ? undefined : Math.max(firstMs, lastMs) },
        revision: lastPiece?.revision,
      });
    }
  }
  const wait = failed === undefined ? undefined : numberOf(failed.data, 'retryInMs');
  if (wait !== undefined && failedMs !== undefined) {
    steps.push({
      ...{
        key: `${started.revision} retry`,
        title: 'Wait before the next attempt',
        details: [],
        depth: 1,
        tone: 'plain',
      },
      ...{ startMs: failedMs, endMs: failedMs + wait, revision: failed?.revision },
    });
  }
  return steps;
}

function timeOfPiece(
  piece: RecordedEvent | undefined,
  since: (event: Pick<RecordedEvent, 'at'>) => number,
): number | undefined {
  return piece === undefined ? undefined : since(piece);
}

function failureDetails({ data }: RecordedEvent): string[] {
  const status = numberOf(data, 'status');
  const code = textOf(data, 'code');
  return [
    ...(status === undefined ? ['no answer'] : [`status ${status}`]),
    ...(code === undefined ? [] : [code]),
    ...[textOf(data, 'message')].filter((one) => one !== undefined),
  ];
}

const endTitles: Readonly<Record<string, string>> = {
  'request.refused': 'Refused',
  'exchange.completed': 'Completed',
  'exchange.failed': 'Failed',
  'client.disconnected': 'Client disconnected',
};

function endStep(event: RecordedEvent, facts: ExchangeFacts, at: number): TimelineStep {
  const { data, revision, type } = event;
  const ms = facts.durationMs ?? at;
  const bytes = numberOf(data, 'bytes');
  const details = [
    ...[textOf(data, 'finishReason'), textOf(data, 'code'), textOf(data, 'message')].filter((one) => one !== undefined),
    ...(bytes === undefined || bytes === 0 ? [] : [`${bytes} bytes of the provider`]),
  ];
  const tone: Tone = type === 'exchange.completed' ? 'ok' : type === 'client.disconnected' ? 'warn' : 'bad';
  const word = facts.status === 0 ? 'no status' : `status ${facts.status}`;
  return {
    key: revision,
    title: endTitles[type] ?? type,
    details,
    startMs: ms,
    endMs: ms,
    tone,
    word,
    depth: 0,
    revision,
  };
}
