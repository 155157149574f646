/** Histories of exchanges with everything that analytics counts, written to a log: the same for the same seed. */

import { keyCreated, keyDeactivated } from '../../src/events/catalogue/access.ts';
import {
  attemptFailed,
  attemptStarted,
  chunkReceived,
  clientDisconnected,
  exchangeCompleted,
  exchangeFailed,
  modelResolved,
  requestReceived,
  requestRefused,
  requestsRefused,
  usageRecalculated,
  usageRecorded,
} from '../../src/events/catalogue/exchange.ts';
import {
  frameDelivered,
  guardrailApplied,
  guardrailVerdicts,
  placeholdersAssigned,
} from '../../src/events/catalogue/guardrail.ts';
import { type Actor, type EventContext, type NewEvent, streamName, type UserPath } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import type { EventLog, StreamWrite } from '../../src/events/log.ts';
import { createChance } from '../crash/random.ts';

export interface HistoryOptions {
  readonly exchanges: number;
  readonly seed: number;
  /** Milliseconds since the epoch of the first exchange. Default: two hours ago. */
  readonly from?: number;
  /** From one exchange to the next, in milliseconds. Default 50. */
  readonly everyMs?: number;
  /** Pieces of an answer, at the most. Default 4. */
  readonly chunks?: number;
  /** Whether refused requests that were counted together are among it. Default false. */
  readonly refusals?: boolean;
}

/** A whole number from 0 to below this one. */
type Chance = (below: number) => number;

const models = [
  ['openai', 'openai', 'gpt-4o'],
  ['openai', 'openai', 'gpt-4o-mini'],
  ['claude', 'anthropic', 'claude-sonnet-4-5'],
  ['local', 'llamacpp', 'tiny'],
] as const;
const paths = ['/', '/sales', '/sales/north', '/research/alice', '/research/bob'];
const words = ["it's\ta\\tab", 'line\nbreak', 'ünïcödé 🙂', 'plain', ''];

/** Appends the history. Exchanges overlap: some events of one come between those of the next. */
export async function writeHistory(log: EventLog, options: HistoryOptions): Promise<void> {
  const { exchanges, seed, everyMs = 50, chunks = 4, refusals = false } = options;
  const { from = Date.now() - 2 * 3600_000 } = options;
  const { between } = createChance(seed);
  const chance: Chance = (below) => between(0, below - 1);
  const guarded = createChance(seed + 1);
  const ofGuardrails: Chance = (below) => guarded.between(0, below - 1);
  let unfinished: StreamWrite[] = [];
  let writes: StreamWrite[] = [];
  const recorded: { readonly usage: NewEvent; readonly stream: StreamWrite['stream'] }[] = [];
  for (let index = 0; index < exchanges; index++) {
    const at = from + index * everyMs + chance(1000) / 1000;
    const { begin, end, usage } = exchange(index, at, chance, ofGuardrails, chunks);
    writes.push(begin);
    if (unfinished.length > 0 && chance(2) === 0) {
      writes.push(...unfinished);
      unfinished = [];
    }
    unfinished.push(end);
    if (usage !== undefined) recorded.push({ usage, stream: begin.stream });
    if (refusals && chance(20) === 0) writes.push(refusedTogether(at, chance));
    if (chance(50) === 0) writes.push(...keyChanges(index, at, chance));
    if (recorded.length > 0 && chance(10) === 0) {
      const corrected = recorded[chance(recorded.length)];
      // A correction comes after the corrected event.
      if (corrected !== undefined && !unfinished.some(({ stream }) => stream === corrected.stream)) {
        writes.push(correction(corrected, at, chance));
      }
    }
    if (writes.length >= 100) {
      await log.append(writes);
      writes = [];
    }
  }
  await log.append([...writes, ...unfinished]);
}

function refusedTogether(at: number, chance: Chance): StreamWrite {
  const key = `key-${chance(7)}`;
  const count = 1 + chance(500);
  const [status, type, code] = chance(2) === 0 ? [429, 'rate_limit_error', 'x\ty'] : [404, 'not_found_error', null];
  const path = paths[chance(paths.length)];
  const context: EventContext = {
    actor: `key:${key}`,
    ...(path === '/' ? {} : { userPath: path as UserPath }),
  };
  const data = { status, type, code, authMethod: 'api_key', count, durationMs: count * chance(20) } as const;
  const endpoint = chance(2) === 0 ? '/v1/responses' : undefined;
  const event = requestsRefused.create({ ...data, endpoint, firstAt: at, lastAt: at + chance(50_000) }, context);
  return { stream: streamName('refusals', key), events: [{ ...event, at: at + 60_000 }], expectedRevision: 'any' };
}

const off = ['cache', 'failover'] as const;
const workflows = [
  undefined,
  { id: 'f0000000-0000-4000-8000-000000000001', version: 1, scope: 'global' },
  { id: 'f0000000-0000-4000-8000-000000000002', version: 7, scope: "path:/sales/it's\there", off },
] as const;

/** The guardrails of one phase: up to three runs. */
function applied(
  of: { readonly phase: 'prompt' | 'response' | 'stream'; readonly attempt?: number },
  context: EventContext,
  chance: Chance,
): NewEvent {
  const runs = Array.from({ length: 1 + chance(3) }, (_, step) => {
    const verdict = guardrailVerdicts[chance(guardrailVerdicts.length)] ?? 'allow';
    const isFailure = verdict === 'failure';
    return {
      step,
      guardrail: `rail-${step}`,
      type: ['pii', 'string_replace', 'llm_judge'][step] ?? 'pii',
      verdict,
      ...(verdict === 'allow' ? {} : { code: `code\t${step}`, message: "it's\nnot allowed" }),
      ...(isFailure ? { error: 'no answer\tin time', failMode: 'closed' as const } : {}),
      edited: chance(2) === 0,
      ...(chance(2) === 0 ? { findings: { email: 1 + chance(9), "driver's licence\t": chance(3) } } : {}),
      durationNs: chance(1_000_000),
    };
  });
  const strongest = runs.toSorted(
    (one, other) => guardrailVerdicts.indexOf(other.verdict) - guardrailVerdicts.indexOf(one.verdict),
  )[0];
  const verdict = strongest?.verdict ?? 'allow';
  return guardrailApplied.create(
    {
      ...of,
      verdict,
      ...(verdict === 'allow' ? {} : { decidedBy: strongest?.guardrail, code: strongest?.code }),
      edited: runs.some(({ edited }) => edited),
      runs,
    },
    context,
    of.phase === 'prompt' && runs.some(({ edited }) => edited) ? Buffer.from('{"changed":"[EMAIL_1]"}') : undefined,
  );
}

function promptPhase(context: EventContext, chance: Chance, time: () => number): NewEvent[] {
  const verdicts = { ...applied({ phase: 'prompt' }, context, chance), at: time() };
  if (chance(2) === 0) return [verdicts];
  const restore = Buffer.from('[{"placeholder":"[EMAIL_1]","value":"secret-value@example.com"}]');
  return [verdicts, { ...placeholdersAssigned.create({ count: 1 }, context, restore), at: time() }];
}

const costs = new WeakMap<NewEvent, string | null>();

function exchange(index: number, at: number, chance: Chance, ofGuardrails: Chance, mostChunks: number) {
  const stream = streamName('exchange', mintEventId(at));
  const [provider, providerType, model] = models[chance(models.length)] ?? models[0];
  const actor: Actor = chance(3) === 0 ? 'master' : `key:key-${chance(7)}`;
  const path = paths[chance(paths.length)];
  const context: EventContext = {
    actor,
    requestId: `request-${index}`,
    ...(path === '/' ? {} : { userPath: path as UserPath }),
  };
  let after = 0;
  const time = () => {
    after += chance(3000) / 100;
    return at + after;
  };
  const labels = chance(3) === 0 ? [`team-${chance(3)}`, "it's"] : undefined;
  const sessionId = chance(4) === 0 ? `session-${chance(20)}` : undefined;
  const workflow = workflows[ofGuardrails(workflows.length)];
  const isGuarded = workflow !== undefined && ofGuardrails(3) > 0;
  const begin: NewEvent[] = [
    {
      ...requestReceived.create(
        {
          dialect: 'chat',
          method: 'POST',
          path: '/v1/chat/completions?x=1',
          headers: { 'user-agent': 'generated/1' },
          model: `${provider}/${model}`,
          stream: chance(2) === 0,
          authMethod: actor === 'master' ? 'master_key' : 'api_key',
          capture: 'full',
          workflow,
          labels,
          sessionId,
        },
        context,
        Buffer.from(JSON.stringify({ model, messages: [{ role: 'user', content: words[chance(words.length)] }] })),
      ),
      at,
    },
  ];
  const kind = chance(10);
  if (kind === 0) {
    const refusal = {
      status: 429,
      type: 'rate_limit_error',
      code: 'budget_exceeded',
      param: null,
      message: 'no\tmore',
    };
    const end = { ...requestRefused.create({ ...refusal, durationMs: 1.5 }, context), at: time() };
    return { begin: write(stream, begin), end: write(stream, [end]), usage: undefined };
  }
  begin.push({
    ...modelResolved.create({ requested: `${provider}/${model}`, provider, providerType, model }, context),
    at: time(),
  });
  if (isGuarded) begin.push(...promptPhase(context, ofGuardrails, time));
  const attempts = 1 + Number(chance(5) === 0);
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const of = { attempt, kind: attempt === 1 ? 'primary' : 'retry', dialect: 'chat' } as const;
    begin.push({
      ...attemptStarted.create({ ...of, provider, providerType, model, guarded: isGuarded || undefined }, context),
      at: time(),
    });
    if (attempt < attempts) {
      const failed = { attempt, status: 503, code: 'overloaded', message: "it's\nbusy", durationMs: after };
      begin.push({ ...attemptFailed.create(failed, context), at: time() });
      // The provider did answer, and is paid for, but the answer was malformed.
      const spent = { provider, providerType, model, labels, sessionId, failedAttempt: attempt };
      if (chance(2) === 0) begin.push(usageEvent(spent, context, chance, time()));
    }
  }
  const chunks = chance(mostChunks + 1);
  for (let piece = 0; piece < chunks; piece++) {
    // Any bytes at all: audio is passed on like text.
    const body =
      chance(20) === 0 ? Buffer.from([0, 9, 10, 13, 92, 255, piece]) : Buffer.from(`data: {"n":${piece}}\n\n`);
    begin.push({ ...chunkReceived.create({ attempt: attempts, index: piece }, context, body), at: time() });
    if (!isGuarded) continue;
    const delivered = Buffer.from(`data: {"delivered":${piece}}\n\n`);
    begin.push({ ...frameDelivered.create({ attempt: attempts, index: piece }, context, delivered), at: time() });
  }
  if (isGuarded && chunks > 0) {
    const phase = ofGuardrails(2) === 0 ? 'response' : 'stream';
    begin.push({ ...applied({ phase, attempt: attempts }, context, ofGuardrails), at: time() });
  }
  const usage = usageEvent({ provider, providerType, model, labels, sessionId }, context, chance, time());
  const end = [
    { ...lastWord(kind, { attempts, provider, model, chunks, durationMs: after }, context), at: after + at },
    usage,
  ];
  return { begin: write(stream, begin), end: write(stream, end), usage };
}

interface Told {
  readonly attempts: number;
  readonly provider: string;
  readonly model: string;
  readonly chunks: number;
  readonly durationMs: number;
}

function lastWord(
  kind: number,
  { attempts, provider, model, chunks, durationMs }: Told,
  context: EventContext,
): NewEvent {
  if (kind === 1) {
    const error = { type: 'provider_error', code: null, message: 'it broke', reason: 'stream_broken' } as const;
    return exchangeFailed.create({ status: 200, ...error, chunks, durationMs }, context);
  }
  if (kind === 2) return clientDisconnected.create({ chunks, bytes: 17, durationMs }, context);
  const completed = { status: 200, attempt: attempts, provider, model, finishReason: 'stop', chunks, bytes: 42 };
  return exchangeCompleted.create({ ...completed, firstByteMs: durationMs / 2, durationMs }, context);
}

interface SpentOn {
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  readonly labels?: readonly string[] | undefined;
  readonly sessionId?: string | undefined;
  readonly failedAttempt?: number;
}

function usageEvent(on: SpentOn, context: EventContext, chance: Chance, at: number): NewEvent {
  const known = chance(8) > 0;
  const input = known ? chance(5000) : null;
  const output = known ? chance(2000) : null;
  const priced = known && chance(4) > 0;
  const cached = chance(10);
  const isCached = cached <= 1;
  const inputCost = priced ? String(BigInt(input ?? 0) * 2500n) : null;
  const outputCost = priced ? String(BigInt(output ?? 0) * 10_000n) : null;
  const totalCost = priced ? String(BigInt(inputCost ?? 0) + BigInt(outputCost ?? 0)) : null;
  const event = {
    ...usageRecorded.create(
      {
        ...on,
        endpoint: '/v1/chat/completions',
        inputTokens: input,
        outputTokens: output,
        totalTokens: input === null || output === null ? null : input + output,
        cachedInputTokens: known ? Math.floor((input ?? 0) / 3) : null,
        cacheWriteInputTokens: known ? chance(50) : null,
        cacheWrite1hInputTokens: null,
        reasoningTokens: known ? chance(20) : null,
        audioInputTokens: null,
        audioOutputTokens: null,
        imageInputTokens: null,
        imageOutputTokens: null,
        acceptedPredictionTokens: null,
        rejectedPredictionTokens: null,
        ...(isCached
          ? { cacheType: cached === 0 ? ('exact' as const) : ('semantic' as const), savedCost: totalCost }
          : {}),
        source: known ? 'provider' : 'unknown',
        raw: known ? { prompt_tokens: input, note: "it's\t" } : null,
        ...(isCached ? { inputCost: '0', outputCost: '0', totalCost: '0' } : { inputCost, outputCost, totalCost }),
        ...(priced ? { priceSource: 'snapshot:2026-01-01', price: { input_per_mtok: 2.5 } } : {}),
      },
      context,
    ),
    at,
    id: mintEventId(at),
  };
  costs.set(event, isCached ? '0' : totalCost);
  return event;
}

function correction(
  { usage, stream }: { readonly usage: NewEvent; readonly stream: StreamWrite['stream'] },
  at: number,
  chance: Chance,
): StreamWrite {
  const { provider, providerType, model, endpoint, labels, sessionId } = usageRecorded.data.parse(usage.data);
  const unknown = chance(5) === 0;
  const inputCost = unknown ? null : String(chance(1_000_000));
  const outputCost = unknown ? null : String(chance(1_000_000));
  const totalCost = unknown ? null : String(Number(inputCost) + Number(outputCost));
  const event = usageRecalculated.create(
    {
      ...{ provider, providerType, model, endpoint, labels, sessionId },
      usageId: usage.id ?? '',
      usageAt: usage.at ?? 0,
      inputCost,
      outputCost,
      totalCost,
      previousTotalCost: costs.get(usage) ?? null,
    },
    { actor: 'master', userPath: usage.context.userPath },
  );
  costs.set(usage, totalCost);
  return write(stream, [{ ...event, at }]);
}

function keyChanges(index: number, at: number, chance: Chance): StreamWrite[] {
  const id = `made-${index}`;
  const stream = streamName('key', id);
  const context = { actor: 'master' as const };
  const made = keyCreated.create(
    {
      id,
      name: words[chance(words.length)] ?? '',
      labels: [],
      allowedModels: [],
      dashboardAccess: false,
      secretHash: 'f00d'.repeat(16),
      lastCharacters: 'abcd',
    },
    context,
  );
  return [
    write(stream, [
      { ...made, at },
      { ...keyDeactivated.create({}, context), at: at + 1 },
    ]),
  ];
}

function write(stream: StreamWrite['stream'], events: readonly NewEvent[]): StreamWrite {
  return { stream, events, expectedRevision: 'any' };
}
