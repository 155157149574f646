/**
 * Evaluates one text with a guardrail that is in force, or with one that an administrator is editing. Calls of models
 * are real: they are recorded and charged at the guardrail's path.
 */
import { randomUUID } from 'node:crypto';
import { usageRecorded } from '../../events/catalogue/exchange.ts';
import { streamName, type UserPath } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { GuardrailDirectory } from '../guardrails/directory.ts';
import {
  type Guardrail,
  type GuardrailInput,
  type GuardrailProblem,
  isPrepared,
  type PreparedGuardrail,
} from '../guardrails/guardrail.ts';
import {
  type GuardrailPhase,
  type GuardrailServices,
  ModelCallFailed,
  type TextRole,
} from '../guardrails/guardrail-type.ts';
import { type EvaluatedText, evaluateText } from '../guardrails/phases/evaluate-text.ts';
import { Placeholders, type RecordedPlaceholder } from '../guardrails/placeholders.ts';
import { usdOf } from '../limits/budget.ts';
import { refusals } from '../refusal.ts';

/** Milliseconds; a shorter time limit of the guardrail applies. */
const MAX_TEST_MS = 60_000;

export interface GuardrailTest {
  /** The name of one in force, or a definition that is not saved. */
  readonly guardrail: string | GuardrailInput;
  readonly phase: GuardrailPhase;
  readonly role: TextRole;
  readonly text: string;
  /** The path of the request that the text would belong to. */
  readonly userPath: UserPath;
  readonly signal: AbortSignal;
}

/** A call of a model, which is recorded as an exchange. Its counts are null when it was cut, and may follow later. */
export interface TestCall {
  readonly exchangeId: string;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** US dollars; null when it is not known. */
  readonly cost: number | null;
}

export interface GuardrailTestResult extends EvaluatedText {
  readonly guardrail: Guardrail;
  readonly placeholders: readonly RecordedPlaceholder[];
  readonly calls: readonly TestCall[];
}

export interface GuardrailTestParts {
  readonly directory: Pick<GuardrailDirectory, 'inForce'>;
  readonly log: Pick<EventLog, 'readStream'>;
  /** The definition that `PUT` would save. @throws Refusal 400 */
  draft(input: GuardrailInput): Guardrail;
  /** @param services changes what the compiled guardrail may use */
  prepare(
    guardrail: Guardrail,
    services: (of: GuardrailServices) => GuardrailServices,
  ): PreparedGuardrail | GuardrailProblem;
}

/** @throws Refusal 404 for an unknown name, 400 for a definition or a phase with which it cannot run */
export async function testGuardrail(test: GuardrailTest, parts: GuardrailTestParts): Promise<GuardrailTestResult> {
  const { phase, role, text, userPath, signal } = test;
  const guardrail = definitionOf(test.guardrail, parts);
  const exchanges: Promise<string | undefined>[] = [];
  const prepared = parts.prepare(guardrail, (services) => noting(services, exchanges));
  if (!isPrepared(prepared)) {
    const { problem, param = 'config' } = prepared;
    throw refusals.invalidRequest(`The guardrail '${guardrail.name}' cannot run: ${problem}.`, `guardrail.${param}`);
  }
  const problem = phaseProblem(prepared, phase);
  if (problem !== undefined) throw refusals.invalidRequest(problem, 'phase');
  const { name, failMode, timeoutMs } = guardrail;
  const { type, config, compiled } = prepared;
  const limit = timeoutMs === 0 ? MAX_TEST_MS : Math.min(timeoutMs, MAX_TEST_MS);
  const placeholders = new Placeholders();
  const step = { name, type: type.type, step: 0, failMode, timeoutMs: limit, mutating: config.mutating };
  const evaluated = await evaluateText(
    { ...step, guardrail: compiled },
    phase,
    { role, text },
    {
      ...{
        requestId: randomUUID(),
        userPath,
        model: '',
        provider: '',
        labels: [],
        now: new Date(),
        signal,
        placeholders,
      },
    },
  );
  const ids = await Promise.all(exchanges);
  const calls = await Promise.all(ids.flatMap((id) => (id === undefined ? [] : [callOf(id, parts.log)])));
  return { ...evaluated, guardrail, placeholders: placeholders.recorded(), calls };
}

function definitionOf(given: string | GuardrailInput, { directory, draft }: GuardrailTestParts): Guardrail {
  if (typeof given !== 'string') return draft(given);
  const found = directory.inForce.get(given);
  if (found === undefined) throw refusals.notFound('guardrail', given);
  return found;
}

function phaseProblem({ type, config }: PreparedGuardrail, phase: GuardrailPhase): string | undefined {
  if (!type.phases.includes(phase)) {
    return `The type '${type.type}' has no ${phase} phase. Its phases are: ${type.phases.join(', ')}.`;
  }
  const problem = config.phaseProblem(phase);
  return problem === undefined ? undefined : `The guardrail cannot run in the ${phase} phase: ${problem}.`;
}

/** Notes the exchanges of its calls, also of those that fail. */
function noting(services: GuardrailServices, exchanges: Promise<string | undefined>[]): GuardrailServices {
  return {
    ...services,
    callModel(call) {
      const answer = services.callModel(call);
      exchanges.push(
        answer.then(
          ({ exchangeId }) => exchangeId,
          (error: unknown) => (error instanceof ModelCallFailed ? error.exchangeId : undefined),
        ),
      );
      return answer;
    },
  };
}

async function callOf(exchangeId: string, log: Pick<EventLog, 'readStream'>): Promise<TestCall> {
  let inputTokens: number | null = null;
  let outputTokens: number | null = null;
  let cost: number | null = null;
  for await (const event of log.readStream(streamName('exchange', exchangeId))) {
    if (event.type !== usageRecorded.type) continue;
    const usage = usageRecorded.data.parse(event.data);
    inputTokens = plus(inputTokens, usage.inputTokens);
    outputTokens = plus(outputTokens, usage.outputTokens);
    cost = plus(cost, usage.totalCost === null ? null : usdOf(Number(usage.totalCost)));
  }
  return { exchangeId, inputTokens, outputTokens, cost };
}

function plus(one: number | null, other: number | null): number | null {
  return one === null && other === null ? null : (one ?? 0) + (other ?? 0);
}
