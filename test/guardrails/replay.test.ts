/** Runs of a draft over recorded exchanges: samples and their costs, cancellation, and what is recorded of a run. */
import { describe, expect, it } from 'vitest';
import { createChatDialect } from '../../src/commands/exchange/dialects/chat/chat-dialect.ts';
import { type Guardrail, prepareGuardrail } from '../../src/commands/guardrails/guardrail.ts';
import type { CallModel, ModelCall } from '../../src/commands/guardrails/guardrail-type.ts';
import { checkDraft, type DraftParts } from '../../src/commands/guardrails/replay/draft.ts';
import { GuardrailReplays, type Replay } from '../../src/commands/guardrails/replay/replays.ts';
import type { ReplayOptions } from '../../src/commands/guardrails/replay/run-replay.ts';
import { knownGuardrailTypes } from '../../src/commands/guardrails/types/known-types.ts';
import type { ModelRates } from '../../src/commands/pricing/pricing.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { archiveOf } from '../../src/commands/responses/archive.ts';
import type { WorkflowStep } from '../../src/commands/workflows/workflow.ts';
import {
  attemptStarted,
  chunkReceived,
  exchangeCompleted,
  modelResolved,
  requestReceived,
  usageRecorded,
} from '../../src/events/catalogue/exchange.ts';
import { streamName, type UserPath } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { createResponseRecords } from '../../src/projections/responses.ts';

const features = { cache: true, audit: true, usage: true, budget: true, guardrails: true, failover: true };
const admin = { actor: 'master' } as const;
const team = { actor: 'master', userPath: '/team' as UserPath } as const;
const types = new Map(knownGuardrailTypes.map((type) => [type.type, type]));
const step = (ref: string, phase: WorkflowStep['phase'] = 'prompt', at = 0): WorkflowStep => ({ ref, phase, step: at });
const define = (name: string, type: string, config: Guardrail['config']): Guardrail => ({
  ...{ name, type, config, failMode: 'closed', timeoutMs: 0 },
});
const judge = define('judge', 'llm_judge', { model: 'judge-model', max_tokens: 100 });
const noCherry = define('no-cherry', 'string_replace', { rules: 'cherry', on_match: 'block' });

async function withExchanges(count: number, log = new MemoryLog()): Promise<MemoryLog> {
  for (let n = 0; n < count; n++) {
    const body = Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: `question ${n}` }] }));
    const answer = { id: 'a', choices: [{ index: 0, message: { role: 'assistant', content: `answer ${n}` } }] };
    const facts = { method: 'POST', headers: {}, authMethod: 'master_key', capture: 'full', stream: false } as const;
    const target = { provider: 'local', providerType: 'llamacpp', model: 'm' };
    const events = [
      requestReceived.create({ ...facts, dialect: 'chat', path: '/v1/chat/completions', model: 'm' }, team, body),
      modelResolved.create({ requested: 'm', ...target }, team),
      attemptStarted.create({ attempt: 1, kind: 'primary', dialect: 'chat', ...target }, team),
      chunkReceived.create({ attempt: 1, index: 0 }, team, Buffer.from(JSON.stringify(answer))),
      exchangeCompleted.create(
        {
          ...{ status: 200, attempt: 1, provider: 'local', model: 'm' },
          finishReason: 'stop',
          chunks: 1,
          bytes: 1,
          durationMs: 1,
        },
        team,
      ),
    ];
    await log.append([{ stream: streamName('exchange', mintEventId()), events, expectedRevision: 'noStream' }]);
  }
  return log;
}

interface Given {
  readonly log: MemoryLog;
  readonly callModel?: CallModel;
  readonly rates?: ModelRates;
}

function replaysOn({ log, callModel = unexpectedCall, rates }: Given) {
  const servicesOf = ({ name, userPath }: Pick<Guardrail, 'name' | 'userPath'>) => ({
    ...{ name, userPath, callModel },
    fetch: () => Promise.reject(new Error('nothing calls a server')),
  });
  const openSecret = (_name: string, _field: string, sealed: string) => sealed;
  const prepare: DraftParts['prepare'] = (guardrail, services = (of) => of) =>
    prepareGuardrail(guardrail, { types, openSecret, servicesOf: (one) => services(servicesOf(one)) });
  const replays = new GuardrailReplays({
    log,
    gateway: 'this one',
    isServing: () => false,
    recorded: () => [],
    newId: mintEventId,
    whenProcessed: async () => {},
    failed: (error) => expect(error).toBeUndefined(),
    runDependencies: () => ({
      log,
      archive: archiveOf(createResponseRecords(log)),
      dialects: new Map([['chat', createChatDialect({ enforceUsage: false })]]),
      scopes: [{}],
      ratesOf: () => rates,
    }),
  });
  return {
    replays,
    start(guardrails: readonly Guardrail[], steps: readonly WorkflowStep[], options: Partial<ReplayOptions> = {}) {
      const inForce = { prepared: (name: string) => ({ problem: `there is no guardrail '${name}'` }) };
      const payload = { schemaVersion: 2 as const, features, steps: [...steps] };
      const draft = checkDraft({ scope: {}, payload, guardrails }, { inForce, prepare });
      if (draft instanceof Refusal) throw draft;
      const range = { from: 0, until: Date.now() + 60_000 };
      return replays.start(draft, { range, sample: 0, maxRequests: 10_000, ...options }, admin);
    },
  };
}

const unexpectedCall: CallModel = () => Promise.reject(new Error('no model may be called'));

async function ended(replays: GuardrailReplays, { id }: Replay): Promise<Replay> {
  for (;;) {
    const run = await replays.get(id);
    if (run === undefined) throw new Error(`there is no run ${id}`);
    if (run.status !== 'running') return run;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Allows everything, and records its usage as the gateway does for calls of guardrails. */
function recordingModel(log: MemoryLog, calls: ModelCall[], totalCost: string | null = '2000'): CallModel {
  return async (call) => {
    calls.push(call);
    const counts = { cachedInputTokens: null, cacheWriteInputTokens: null, cacheWrite1hInputTokens: null };
    const others = { reasoningTokens: null, audioInputTokens: null, audioOutputTokens: null };
    const more = { imageInputTokens: null, imageOutputTokens: null };
    const predicted = { acceptedPredictionTokens: null, rejectedPredictionTokens: null };
    const tokens = { inputTokens: 1, outputTokens: 1, totalTokens: 2, ...counts, ...others, ...more, ...predicted };
    const spent = { provider: 'p', providerType: 'openai', model: call.model, endpoint: '/v1/chat/completions' };
    const cost = { inputCost: null, outputCost: null, totalCost };
    const usage = usageRecorded.create(
      { ...spent, ...tokens, ...cost, source: 'provider', raw: null },
      { actor: 'system', userPath: call.userPath as UserPath },
    );
    const exchangeId = mintEventId();
    await log.append([{ stream: streamName('exchange', exchangeId), events: [usage], expectedRevision: 'noStream' }]);
    return { text: '{"verdict":"allow"}', isCut: false, exchangeId };
  };
}

describe('guardrails that call a model', () => {
  const steps = [step('no-cherry'), step('judge', 'prompt', 1), step('judge', 'response')];
  const rates = { inputPerMtok: 1, outputPerMtok: 10, perRequest: 0 };

  it('do not run without a sample; the others do', async () => {
    const { replays, start } = replaysOn({ log: await withExchanges(5) });
    const run = await ended(replays, await start([noCherry, judge], steps));
    expect(run.result).toMatchObject({
      requests: 5,
      verdicts: { passed: 5 },
      guardrails: [{ guardrail: 'no-cherry', runs: 5 }],
    });
    expect(run.result?.sample).toMatchObject({ state: 'not_requested', calls: 0, cost: null });
  });

  it('run on a sample spread over the range, at the path of the run, with the cost before and after', async () => {
    const log = await withExchanges(40);
    const calls: ModelCall[] = [];
    const { replays, start } = replaysOn({ log, rates, callModel: recordingModel(log, calls) });
    const run = await ended(replays, await start([noCherry, judge], steps, { sample: 4, maxCost: 1 }));
    expect(run.result).toMatchObject({ requests: 40, verdicts: { passed: 40 } });
    expect(run.result?.sample).toMatchObject({ state: 'evaluated', size: 4, evaluated: 4, calls: 8, cost: '16000' });
    const asked = calls.flatMap(({ messages }) => messages.at(-1)?.content.match(/question \d+/) ?? []).map(String);
    expect(asked).toEqual(['question 0', 'question 10', 'question 20', 'question 30']);
    expect(new Set(calls.map(({ userPath }) => userPath))).toEqual(
      new Set([`/guardrail-replays/${run.id}/guardrails/judge`]),
    );
    // Eight answers of at most 100 tokens at 10 dollars per million, and the prompts.
    const estimate = Number(run.result?.sample?.estimatedCost) / 1e9;
    expect(estimate).toBeGreaterThan(0.008);
    expect(estimate).toBeLessThan(0.01);
  });

  it.each([
    ['too_expensive', rates],
    ['price_unknown', undefined],
  ])('do not run when the estimate exceeds the highest cost: %s', async (state, given) => {
    const { replays, start } = replaysOn({ log: await withExchanges(5), ...(given && { rates: given }) });
    const run = await ended(replays, await start([noCherry, judge], steps, { sample: 4, maxCost: 0.001 }));
    expect(run.result).toMatchObject({ requests: 5, sample: { state, evaluated: 0, calls: 0, cost: null } });
  });

  it('have an unknown cost when that of one call is unknown', async () => {
    const log = await withExchanges(3);
    const { replays, start } = replaysOn({ log, callModel: recordingModel(log, [], null) });
    const run = await ended(replays, await start([judge], [step('judge')], { sample: 2 }));
    expect(run.result?.sample).toMatchObject({ state: 'evaluated', calls: 2, estimatedCost: null, cost: null });
  });

  it('are the types that call something', () => {
    const calling = knownGuardrailTypes.filter(({ calls }) => calls !== undefined).map(({ type }) => type);
    expect(calling).toEqual(['llm_based_altering', 'llm_judge', 'presidio']);
  });

  it('count as failed when the model fails', async () => {
    const { replays, start } = replaysOn({ log: await withExchanges(2) });
    const run = await ended(replays, await start([judge], [step('judge')], { sample: 1 }));
    expect(run.result).toMatchObject({
      verdicts: { failed: 1, passed: 1 },
      guardrails: [{ verdicts: { failure: 1 } }],
    });
  });
});

describe('a run', () => {
  /** Never answers; resolves `called` when it is called first. */
  function hangingModel() {
    const called = Promise.withResolvers<void>();
    const callModel: CallModel = ({ signal }) =>
      new Promise((_resolve, reject) => {
        called.resolve();
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    return { called: called.promise, callModel };
  }

  it('is cancelled in the middle of a call, with the result so far', async () => {
    const { called, callModel } = hangingModel();
    const { replays, start } = replaysOn({ log: await withExchanges(5), callModel });
    const { id } = await start([judge], [step('judge')], { sample: 1 });
    await called;
    expect(await replays.get(id)).toMatchObject({ status: 'running', progress: { stage: 'running' } });
    expect(await replays.cancel(id, admin)).toMatchObject({ status: 'cancelled', result: { requests: 0 } });
    expect(await replays.cancel(id, admin)).toMatchObject({ status: 'cancelled' });
  });

  it('refuses another run until it has ended', async () => {
    const { called, callModel } = hangingModel();
    const { replays, start } = replaysOn({ log: await withExchanges(1), callModel });
    const [{ id }] = [await start([judge], [step('judge')], { sample: 1 })];
    await called;
    await expect(start([noCherry], [step('no-cherry')])).rejects.toMatchObject({ status: 409, code: 'replay_running' });
    await replays.cancel(id, admin);
    expect(await ended(replays, await start([noCherry], [step('no-cherry')]))).toMatchObject({ status: 'completed' });
  });

  it('is interrupted by the stop of the gateway, and its result so far is read after the next start', async () => {
    const { called, callModel } = hangingModel();
    const log = await withExchanges(3);
    const { replays, start } = replaysOn({ log, callModel });
    const { id } = await start([judge], [step('judge')], { sample: 1 });
    await called;
    await replays.stop();
    const { replays: afterwards } = replaysOn({ log });
    expect(await afterwards.get(id)).toMatchObject({
      id,
      status: 'interrupted',
      actor: 'master',
      result: { requests: 0 },
    });
  });

  it('reads as interrupted when its end was never recorded', async () => {
    const { called, callModel } = hangingModel();
    const log = await withExchanges(1);
    const { replays, start } = replaysOn({ log, callModel });
    const { id } = await start([judge], [step('judge')], { sample: 1 });
    await called;
    const { replays: afterACrash } = replaysOn({ log });
    expect(await afterACrash.get(id)).toMatchObject({ status: 'interrupted', result: undefined });
    await replays.stop();
  });

  it('ends before the requests that come after its start', async () => {
    const log = await withExchanges(2);
    const { called, callModel } = hangingModel();
    const { replays, start } = replaysOn({ log, callModel: (call) => Promise.race([callModel(call), more]) });
    const more = called.then(async () => {
      await withExchanges(3, log);
      return { text: '{"verdict":"allow"}', isCut: false, exchangeId: mintEventId() };
    });
    const run = await ended(replays, await start([judge], [step('judge')], { sample: 1 }));
    expect(run.result?.requests).toBe(2);
  });
});
