/** `POST /admin/guardrails/test`: evaluates one text with a guardrail. */
import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import type { GuardrailTest, GuardrailTestResult } from '../../../commands/auxiliary-calls/test-guardrail.ts';
import { blockStatus } from '../../../commands/guardrails/phases/guardrail-step.ts';
import type { UserPath } from '../../../events/event.ts';
import { globalAdmin, jsonAnswer, type Routes } from '../../api/route-schema.ts';
import { optionalUserPath } from '../../request-head.ts';
import { guardrailBody, guardrailInput } from './guardrails.ts';

const MAX_TEXT = 100_000;

const phase = z.enum(['prompt', 'response', 'stream']);
const role = z.enum(['system', 'user', 'assistant', 'tool']);

const testBody = z.strictObject({
  guardrail: z
    .union([z.string(), guardrailBody.extend({ name: z.string().default('draft') })], {
      error: () => 'must be the name of a guardrail, or a definition with type and config',
    })
    .describe(
      'the name of a guardrail, or a definition as for `PUT /admin/guardrails`, which is not saved; with the name of a ' +
        'saved one, the secret `********` is its secret',
    ),
  phase: phase.default('prompt'),
  text: z.string().max(MAX_TEXT),
  role: role.default('user').describe('of the message, in the prompt phase'),
  user_path: z.string().nullish().describe('of the request that the text would belong to; default: `/`'),
});

const headerValues = z.record(z.string(), z.string());

const testAnswer = z.object({
  guardrail: z.string(),
  type: z.string(),
  phase,
  decision: z
    .enum(['allow', 'warn', 'respond', 'block', 'failure'])
    .describe('`failure`: the guardrail could not decide; in a request, `fail_mode` then applies'),
  code: z.string().nullable().describe('of the decision'),
  message: z.string().nullable().describe('of the decision, or why the guardrail failed'),
  status: z.number().int().nullable().describe('of the answer to a client, when the decision is `block`'),
  respond_text: z.string().nullable().describe("the assistant's turn, when the decision is `respond`"),
  fail_mode: z.enum(['closed', 'open']),
  text: z.string().describe('as the guardrail leaves it'),
  changed: z.boolean().describe('whether the text, the system messages or headers were changed'),
  messages: z
    .array(z.object({ role, text: z.string() }))
    .nullable()
    .describe('of the request after the prompt phase; null in other phases'),
  headers: z
    .array(
      z.object({
        request_set: headerValues.optional(),
        request_remove: z.array(z.string()).readonly().optional(),
        response_set: headerValues.optional(),
        response_add: headerValues.optional(),
        response_remove: z.array(z.string()).readonly().optional(),
        upstream_set: headerValues.optional(),
      }),
    )
    .describe('the changes of headers'),
  findings: z.record(z.string(), z.number()).describe('what was found: the number by kind'),
  placeholders: z
    .array(z.object({ placeholder: z.string(), value: z.string() }))
    .readonly()
    .describe('that are replaced by their values in the answer'),
  duration_ms: z.number(),
  calls: z
    .array(
      z.object({
        exchange_id: z.string(),
        input_tokens: z.number().nullable(),
        output_tokens: z.number().nullable(),
        cost: z.number().nullable(),
      }),
    )
    .describe('the calls of models; `cost` in US dollars, null when it is not known'),
});

const testOne = globalAdmin('testGuardrail', 'Evaluate one text with a guardrail', {
  description:
    'Nothing is saved. A guardrail that calls a model calls it: the call is recorded and charged at the path of the ' +
    'guardrail, and `calls` names it. Ends after 60 seconds at the latest.',
  body: testBody,
  example: {
    guardrail: { type: 'pii', config: { action: 'anonymize' } },
    phase: 'prompt',
    text: 'Write to jane@example.com',
  },
  response: { 200: jsonAnswer('The evaluation', testAnswer) },
  errors: [404, 503],
});

export function registerGuardrailTest(
  admin: Routes,
  test: (given: GuardrailTest) => Promise<GuardrailTestResult>,
): void {
  admin.post('/guardrails/test', testOne, async ({ body }, reply) => {
    const { guardrail, phase, role, text } = body;
    const result = await test({
      guardrail: typeof guardrail === 'string' ? guardrail : guardrailInput(guardrail),
      phase,
      role,
      text,
      userPath: optionalUserPath(body.user_path, 'user_path') ?? ('/' as UserPath),
      signal: whileOpen(reply.raw),
    });
    return answerOf(result, text);
  });
}

/** Aborted, with the reason of an exchange, when the client leaves before its answer. */
export function whileOpen(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once('close', () => controller.abort('client_gone'));
  return controller.signal;
}

function answerOf(result: GuardrailTestResult, given: string): z.input<typeof testAnswer> {
  const { guardrail, decision, run, text, messages, headers, placeholders, calls } = result;
  const isFailure = run.verdict === 'failure';
  return {
    guardrail: guardrail.name,
    type: guardrail.type,
    phase: run.phase,
    decision: isFailure ? 'failure' : decision.action,
    code: decision.action === 'allow' ? null : decision.code,
    message: (isFailure ? run.error : decision.action === 'allow' ? undefined : decision.message) ?? null,
    status: decision.action === 'block' ? blockStatus(decision, run.phase) : null,
    respond_text: decision.action === 'respond' ? decision.text : null,
    fail_mode: guardrail.failMode,
    text,
    changed: run.edited || text !== given,
    messages: messages === undefined ? null : [...messages],
    headers: headers.map((one) => ({
      request_set: one.requestSet,
      request_remove: one.requestRemove,
      response_set: one.responseSet,
      response_add: one.responseAdd,
      response_remove: one.responseRemove,
      upstream_set: one.upstreamSet,
    })),
    findings: run.findings ?? {},
    placeholders,
    duration_ms: run.durationNs / 1e6,
    calls: calls.map(({ exchangeId, inputTokens, outputTokens, cost }) => ({
      exchange_id: exchangeId,
      input_tokens: inputTokens,
      output_tokens: outputTokens,
      cost,
    })),
  };
}
