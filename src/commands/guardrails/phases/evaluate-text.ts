/** Evaluates one text with one guardrail, as if it were a message of a request or an answer. */
import { chatAnswerBody, chatRequestBody } from '../body/guarded-bodies.ts';
import {
  allowed,
  type EvaluationContext,
  type GuardrailDecision,
  type GuardrailPhase,
  type HeaderChanges,
  type TextRole,
} from '../guardrail-type.ts';
import type { GuardrailRun, GuardrailStep } from './guardrail-step.ts';
import { runPhase } from './run-phase.ts';
import { mustCollect, StreamPhase } from './stream-phase.ts';

export interface EvaluatedText {
  readonly decision: GuardrailDecision;
  /** The text after the guardrail; of a stream that ends early, what its client gets before. */
  readonly text: string;
  /** The request's messages after the guardrail; undefined in the other phases. */
  readonly messages: readonly { readonly role: TextRole; readonly text: string }[] | undefined;
  readonly headers: readonly HeaderChanges[];
  readonly run: GuardrailRun;
}

/** @param role of the message in the prompt phase; an answer is the assistant's */
export function evaluateText(
  step: GuardrailStep,
  phase: GuardrailPhase,
  { role, text }: { readonly role: TextRole; readonly text: string },
  context: EvaluationContext,
): Promise<EvaluatedText> {
  if (phase === 'prompt') return inRequest(step, role, text, context);
  if (phase === 'response' || mustCollect([step])) return inAnswer(step, phase, text, context);
  return inStream(step, text, context);
}

async function inRequest(
  step: GuardrailStep,
  role: TextRole,
  text: string,
  context: EvaluationContext,
): Promise<EvaluatedText> {
  const body = { messages: [{ role, content: text, ...(role === 'tool' && { tool_call_id: 'call_1' }) }] };
  const {
    decision,
    headers,
    runs,
    body: changed,
  } = await runPhase({
    ...{ phase: 'prompt', steps: [step], body, of: chatRequestBody, context },
  });
  const messages = chatRequestBody.texts(changed).parts.map((part) => ({ role: part.role, text: part.text }));
  // A guardrail adds system texts in front, or replaces them; the message itself stays the last one.
  const evaluated = messages.at(-1)?.text ?? '';
  return { decision, text: evaluated, messages, headers, run: onlyRun(runs) };
}

async function inAnswer(
  step: GuardrailStep,
  phase: GuardrailPhase,
  text: string,
  context: EvaluationContext,
): Promise<EvaluatedText> {
  const body = { choices: [{ index: 0, message: { role: 'assistant', content: text } }] };
  const {
    decision,
    headers,
    runs,
    body: changed,
  } = await runPhase({
    ...{ phase, steps: [step], body, of: chatAnswerBody, context },
  });
  const evaluated = chatAnswerBody.texts(changed).parts[0]?.text ?? '';
  return { decision, text: evaluated, messages: undefined, headers, run: onlyRun(runs) };
}

async function inStream(step: GuardrailStep, text: string, context: EvaluationContext): Promise<EvaluatedText> {
  const stream = new StreamPhase([step], context);
  const channel = { key: 'choice 0 text', kind: 'text', isJson: false } as const;
  const pushed = stream.push(channel, text);
  const end = stream.end(channel);
  const run = onlyRun(stream.runs());
  const stop = pushed.stop ?? end.stop;
  const code = stream.warnings[0];
  const warning: GuardrailDecision = code === undefined ? allowed : { action: 'warn', code };
  const decision = stop !== undefined && 'decision' in stop ? stop.decision : warning;
  return { decision, text: pushed.text + end.text, messages: undefined, headers: [], run };
}

function onlyRun(runs: readonly GuardrailRun[]): GuardrailRun {
  const [run] = runs;
  if (run === undefined) throw new Error('one step makes one run');
  return run;
}
