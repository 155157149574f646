/** The exchange family: one model request with its attempts, answer and usage, on stream `exchange-<id>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';
import { workflowFeatures } from './workflow.ts';

const attempt = z.number().int().min(1).describe('1 for the first call to a provider, then counting up');
const durationMs = z.number().describe('milliseconds since `request.received`');

const labels = z.array(z.string()).readonly().describe('of the key and of tagging headers');
const sessionId = z.string().describe("the client's session id, unique within its user path");

/**
 * Formats of model endpoints. `forward`: requests are passed on unchanged, such as `/v1/audio/speech`. `realtime`: a session
 * over a WebSocket.
 */
const modelDialects = ['chat', 'responses', 'embeddings', 'messages', 'forward', 'passthrough', 'realtime'] as const;
/** Formats of client requests. `mcp`: a call of a tool. `none`: a request that begins no exchange, and was refused. */
const clientDialects = [...modelDialects, 'mcp', 'none'] as const;
const providerDialects = [...modelDialects, 'ollama_chat', 'ollama_embed'] as const;

export const requestReceived = defineEvent({
  type: 'request.received',
  when:
    'The gateway authenticated a request and read it whole, and has done nothing else with it yet; or it refused a ' +
    'request that begins no exchange, as the following `request.refused` states.',
  body: "the client's request body, untouched; of a refused request the first 4 KiB",
  data: z.object({
    dialect: z.enum(clientDialects),
    method: z.string(),
    path: z.string().describe('path and query, with credentials in the query redacted'),
    headers: z.record(z.string(), z.string()).describe('request headers, with credentials redacted'),
    model: z.string().optional().describe("the selector in the client's spelling"),
    stream: z.boolean(),
    clientIp: z.string().optional(),
    clientSubject: z.string().optional().describe('subject of the certificate that the client has presented'),
    gateway: z.string().optional().describe('id of the gateway that serves the request'),
    authMethod: z.enum(['master_key', 'api_key', 'no_key']),
    origin: z
      .enum(['plugin', 'tools'])
      .optional()
      .describe(
        '`plugin`: a guardrail of the gateway called the model, for the request with the same request id; `tools`: the ' +
          'gateway called it for a response whose tools it runs, which is the exchange that caused this one',
      ),
    capture: z.enum(['full', 'metadata']).describe('the capture level in force'),
    workflow: z
      .object({
        id: z.string().describe('of the version'),
        version: z.number().int(),
        scope: z.string().describe('the key of the scope, as in the name of the stream of the workflow'),
        off: z
          .array(z.enum(workflowFeatures))
          .readonly()
          .optional()
          .describe('the features that the workflow turns off'),
      })
      .optional()
      .describe('the workflow of the request'),
    labels: labels.optional(),
    sessionId: sessionId.optional(),
    toolCall: z
      .object({
        argumentBytes: z.number().int().describe('size of the arguments as JSON; 0 without arguments'),
        itemId: z
          .string()
          .optional()
          .describe('of the `mcp_call` in the response that made the call, whose exchange caused this one'),
      })
      .optional()
      .describe('of a call of a tool at an MCP server'),
    bodyBytes: z
      .number()
      .int()
      .optional()
      .describe('size of the body, where the request was refused and only the first 4 KiB of it are kept'),
    bodySha256: z.string().optional().describe('of the whole body, hexadecimal, where only its beginning is kept'),
  }),
});

export const requestBodyReceived = defineEvent({
  type: 'request.body_received',
  when:
    'A piece of a streamed request body arrived, or a message of the client in a realtime session. It is forwarded once ' +
    'this event is recorded.',
  body: 'the bytes of the piece or the message; of audio in messages the size, where audio is not recorded',
  data: z.object({ index: z.number().int().min(0) }),
});

export const requestPartReceived = defineEvent({
  type: 'request.part_received',
  when: 'A part of a multipart form was read. The bytes of a file are kept as `request.body_received`, or not at all.',
  data: z.object({
    name: z.string(),
    filename: z.string().optional().describe('absent for a text field'),
    contentType: z.string().optional(),
    bytes: z.number().int(),
    sha256: z.string().optional().describe('of the bytes of a file, or of a value that was cut, hexadecimal'),
    value: z.string().optional().describe('of a text field, where bodies are kept; cut when the request was refused'),
  }),
});

export const requestRefused = defineEvent({
  type: 'request.refused',
  when: 'The gateway refused the request before any provider was called.',
  data: z.object({
    status: z.number().int(),
    type: z.string(),
    code: z.string().nullable(),
    param: z.string().nullable(),
    message: z.string(),
    durationMs,
  }),
});

export const requestsRefused = defineEvent({
  type: 'requests.refused',
  when:
    'Requests of one key that the gateway refused for one reason within one minute, beyond those that are recorded ' +
    'individually; and requests that begin no exchange and exceeded a rate limit or failed in the gateway (5xx). ' +
    'On the stream `refusals-<key id or actor>`.',
  data: z.object({
    status: z.number().int(),
    type: z.string(),
    code: z.string().nullable().describe('with `status` and `type`, the reason'),
    authMethod: z.enum(['master_key', 'api_key', 'no_key']),
    endpoint: z.string().optional().describe('when it is the same for all of them'),
    count: z.number().int().min(1),
    firstAt: z.number().describe('milliseconds since the epoch'),
    lastAt: z.number().describe('milliseconds since the epoch'),
    durationMs: z.number().describe('the sum over the requests'),
  }),
});

export const requestsAnswered = defineEvent({
  type: 'requests.answered',
  when:
    'Requests of one key to one route, within one minute, that began no exchange: under /v1 those that were not refused ' +
    "(lists, lookups, changes), elsewhere, as under /admin, all of them. Their changes, and reads of other actors' bodies, are separate events. On the stream `requests-<key id or actor>`.",
  data: z.object({
    method: z.string(),
    endpoint: z.string().describe('the route, with its parameters by name'),
    status: z.number().int(),
    code: z.string().nullable().optional().describe('of an error'),
    authMethod: z.enum(['master_key', 'api_key', 'no_key']),
    count: z.number().int().min(1),
    firstAt: z.number().describe('milliseconds since the epoch'),
    lastAt: z.number().describe('milliseconds since the epoch'),
  }),
});

export const modelResolved = defineEvent({
  type: 'model.resolved',
  when: 'The selector was resolved to a provider and its model id.',
  data: z.object({
    requested: z.string(),
    provider: z.string(),
    providerType: z.string(),
    model: z.string(),
    through: z.array(z.string()).readonly().optional().describe('the resolved virtual models, outermost first'),
    selections: z
      .array(
        z.object({
          virtualModel: z.string(),
          strategy: z.string(),
          target: z.string().describe('the selected target, as <provider>/<model>'),
          by: z.enum(['strategy', 'session', 'fallback']).describe('fallback: weighted round robin'),
          reason: z
            .string()
            .optional()
            .describe(
              'the explanation of the strategy; of a fallback: not_loaded, invalid_config, late, failed or unknown_target',
            ),
        }),
      )
      .readonly()
      .optional()
      .describe('how route strategies selected targets'),
  }),
});

export const historyReplayed = defineEvent({
  type: 'history.replayed',
  when: 'The gateway put earlier turns in front of the input, because the provider cannot look them up.',
  data: z.object({
    responses: z.array(z.string()).describe('response ids, oldest first'),
    conversation: z.string().optional().describe('the conversation that holds the items, when there is one'),
    items: z.number().int(),
  }),
});

export const exchangeResumed = defineEvent({
  type: 'exchange.resumed',
  when: 'The gateway resumes a background response that was interrupted before its first output.',
  data: z.object({ attempts: z.number().int().describe('earlier calls to a provider') }),
});

export const answerReplayed = defineEvent({
  type: 'answer.replayed',
  when: 'The request repeats an earlier one with the same idempotency key: the gateway returns the earlier answer.',
  data: z.object({ exchangeId: z.string().describe('the exchange that made the answer') }),
});

/** A body on record: the client's, that of `guardrail.applied`, or that of an earlier attempt of the exchange. */
const attemptRequestBase = z.union([z.enum(['client', 'guardrails']), z.templateLiteral(['attempt:', z.number()])]);

const attemptRequest = z.object({
  path: z.string().optional().describe("on the provider's server, without query; absent for forwarded requests"),
  contentType: z.string().optional().describe('absent: application/json'),
  bytes: z.number().int().optional().describe('size of the body that is sent; absent when it is streamed'),
  base: attemptRequestBase
    .optional()
    .describe(
      'the recorded body that it is compared with: `client` (`request.received`), `guardrails` (the last ' +
        '`guardrail.applied` with a body before) or `attempt:<number>`; absent: the body of this event is all of it',
    ),
  prefixBytes: z.number().int().optional().describe('bytes at the beginning of the base with which it begins'),
  suffixBytes: z.number().int().optional().describe('bytes at the end of the base with which it ends'),
  sha256: z.string().optional().describe('of the body, hexadecimal, where its bytes are not kept'),
  streamed: z
    .literal(true)
    .optional()
    .describe('the body is sent as it arrives: `request.body_received` and `request.part_received` have its pieces'),
});

export type AttemptRequest = z.infer<typeof attemptRequest>;
export type AttemptRequestBase = z.infer<typeof attemptRequestBase>;

export const attemptStarted = defineEvent({
  type: 'attempt.started',
  when: 'A provider is about to be called.',
  body:
    "the bytes of the provider's request that are not in `request.base`: the request is the first `prefixBytes` of the " +
    'base, these bytes, and the last `suffixBytes` of the base',
  data: z.object({
    attempt,
    kind: z.enum(['primary', 'retry', 'translation', 'failover']).describe('why this attempt is made'),
    provider: z.string(),
    providerType: z.string(),
    model: z.string().optional(),
    dialect: z.enum(providerDialects).describe('the format of the request to the provider'),
    guarded: z
      .literal(true)
      .optional()
      .describe('guardrails evaluate the answer: the client gets the bytes of `frame.delivered`, or of the end event'),
    outputLimit: z
      .number()
      .int()
      .optional()
      .describe('the most tokens of each answer, which the gateway has set in the request because of a budget'),
    runsTools: z
      .literal(true)
      .optional()
      .describe(
        'the gateway makes the answer: it runs the tools, and calls the model in exchanges that have this one as their ' +
          'cause and are charged; `chunk.received` has the events of the answer',
      ),
    calls: z
      .number()
      .int()
      .optional()
      .describe(
        'the request is sent so many times at once, for `n` choices of a provider whose API gives one: `chunk.received` ' +
          'has the events of all calls, each behind a line `call: <index>`, or their whole answers as `{"calls":[…]}`; absent for one',
      ),
    reservedCost: z
      .string()
      .optional()
      .describe(
        'nano-dollars that the budgets of the request reserve for it, where one gateway uses the log: its cost when the gateway is killed and the record does not tell what the answer cost',
      ),
    request: attemptRequest.optional().describe('what is sent to the provider; absent in events of earlier versions'),
  }),
});

export const attemptFailed = defineEvent({
  type: 'attempt.failed',
  when: 'A provider could not be reached, returned an error, or ended its answer early.',
  body: "the provider's error body, when it sent one",
  data: z.object({
    attempt,
    status: z.number().int().optional().describe("the provider's HTTP status, when there was one"),
    code: z.string().nullable(),
    message: z.string(),
    retryInMs: z.number().optional().describe('wait before the next attempt; absent when there is none'),
    durationMs,
  }),
});

export const chunkReceived = defineEvent({
  type: 'chunk.received',
  when: "One piece of a provider's answer arrived: one stream event, the whole body of a JSON answer, or a message in a realtime session.",
  body: 'the bytes of the piece, unchanged; of audio in messages the size, where audio is not recorded',
  data: z.object({ attempt, index: z.number().int().min(0) }),
});

const calledTool = z.object({
  itemId: z.string().describe('of the item `mcp_call` in the output of the response'),
  serverLabel: z.string(),
  tool: z.string(),
});

const toolCallBody =
  'JSON `{"items": [[place in the output, item], …], "usage": …}`: the items that are new or changed since the last such ' +
  'event, and the tokens so far; absent for a stream that does not run in the background, whose events hold the same';

export const toolCallBegun = defineEvent({
  type: 'tool_call.begun',
  when:
    'The gateway is about to call a tool for a response whose tools it runs. Without `tool_call.ended`, whether the tool ' +
    'has run is not known here: it is called again only when it states that it is idempotent.',
  body: toolCallBody,
  data: calledTool,
});

export const toolCallEnded = defineEvent({
  type: 'tool_call.ended',
  when: 'The tool has returned a result or an error, or the gateway did not call it.',
  body: toolCallBody,
  data: calledTool.extend({ failed: z.boolean() }),
});

export const answerReceived = defineEvent({
  type: 'answer.received',
  when: 'An answer is complete whose bytes are not kept: audio, images, files.',
  data: z.object({
    attempt,
    contentType: z.string().optional(),
    bytes: z.number().int(),
    sha256: z.string().describe("of the answer's bytes, hexadecimal"),
  }),
});

export const exchangeCompleted = defineEvent({
  type: 'exchange.completed',
  when: 'The answer is complete and on its way to the client.',
  body: "the client's answer, when it differs from the provider's bytes: the translated answer or terminal response",
  data: z.object({
    status: z.number().int(),
    attempt: z
      .number()
      .int()
      .min(0)
      .describe('the attempt that gave the answer; 0 when a guardrail answered and no provider was called'),
    provider: z.string().describe('when a guardrail answered, the provider that would have been called'),
    model: z.string().optional(),
    finishReason: z.string().nullable(),
    chunks: z.number().int(),
    bytes: z.number().int().describe("size of the provider's answer"),
    firstByteMs: z.number().optional().describe('milliseconds from `request.received` to the first byte of the answer'),
    durationMs,
    responseId: z.string().optional(),
  }),
});

export const exchangeFailed = defineEvent({
  type: 'exchange.failed',
  when: 'The exchange ended with an error, or the gateway stopped in the middle of it.',
  body: "the partial answer, when there is one and it differs from the provider's chunks",
  data: z.object({
    status: z.number().int().describe('the status the client got, or 0 when it got none'),
    type: z.string(),
    code: z.string().nullable(),
    message: z.string(),
    reason: z.enum([
      'provider_error',
      'guardrail',
      'stream_broken',
      'upload_failed',
      'budget_exceeded',
      'gateway_stopped',
      'log_unavailable',
      'internal_error',
      'cancelled',
    ]),
    chunks: z.number().int(),
    durationMs,
    responseId: z.string().optional(),
  }),
});

export const clientDisconnected = defineEvent({
  type: 'client.disconnected',
  when: 'The client disconnected before its answer was complete; the gateway cancelled the provider call.',
  data: z.object({ chunks: z.number().int(), bytes: z.number().int(), durationMs, responseId: z.string().optional() }),
});

/** Types of the events that end an exchange. Only usage may follow them. */
export const exchangeEnds: ReadonlySet<string> = new Set(
  [requestRefused, exchangeCompleted, exchangeFailed, clientDisconnected].map(({ type }) => type),
);

const tokens = () => z.number().int().nullable();
const nanoDollars = () => z.string().nullable();

/** The cost of usage. Amounts are nano-dollars as decimal text; null is not known, "0" is free. */
const cost = {
  price: z
    .record(z.string(), z.number())
    .optional()
    .describe('the rates in US dollars that applied, named as in a pricing override'),
  priceSource: z
    .string()
    .optional()
    .describe(
      '`override:<selector>`, `config`, `snapshot:<date>`, `provider_reported` or `reservation`; absent when there is no price',
    ),
  inputCost: nanoDollars(),
  outputCost: nanoDollars(),
  totalCost: nanoDollars().describe('in nano-dollars; null when not known, `0` when free'),
  caveat: z.string().optional().describe('what the cost leaves out, or why it is not known'),
};

/** What usage is counted for: members of the event and of its corrections. */
const spentOn = {
  provider: z.string(),
  providerType: z.string(),
  model: z.string(),
  endpoint: z.string(),
  labels: labels.optional(),
  sessionId: sessionId.optional(),
};

/** Counts are null where the provider does not report them. */
export const tokenCounts = {
  inputTokens: tokens().describe('including those read from or written to a prompt cache'),
  outputTokens: tokens().describe('including reasoning tokens'),
  totalTokens: tokens(),
  cachedInputTokens: tokens(),
  cacheWriteInputTokens: tokens(),
  cacheWrite1hInputTokens: tokens().describe('of `cacheWriteInputTokens`, those kept for an hour'),
  reasoningTokens: tokens(),
  audioInputTokens: tokens(),
  audioOutputTokens: tokens(),
  imageInputTokens: tokens(),
  imageOutputTokens: tokens(),
  acceptedPredictionTokens: tokens(),
  rejectedPredictionTokens: tokens(),
};

export const usageRecorded = defineEvent({
  type: 'usage.recorded',
  version: 2,
  when:
    'Tokens were used: once per exchange that a provider answered, also when the answer ended early; once for each ' +
    'earlier attempt that failed after its provider had reported usage; and once for each response and transcription of a realtime session.',
  data: z.object({
    ...spentOn,
    providerId: z
      .string()
      .optional()
      .describe("the provider's own id of the answer, response or batch; absent when it gave none"),
    cacheType: z
      .enum(['exact', 'semantic'])
      .optional()
      .describe('answered from the response cache: the tokens are those of the recorded answer, and the costs are 0'),
    savedCost: nanoDollars()
      .optional()
      .describe('with `cacheType`: what the recorded answer cost, in nano-dollars; null when not known'),
    ...tokenCounts,
    inputSeconds: z.number().optional().describe('of audio, where the provider counts seconds'),
    inputCharacters: z.number().int().optional().describe('of the text of a speech request'),
    outputImages: z.number().int().optional().describe('number of requested images'),
    partial: z.literal(true).optional().describe('the answer ended early: the usage reported until then'),
    answers: z.number().int().optional().describe('of a batch: number of its answers in these sums'),
    calls: z
      .number()
      .int()
      .optional()
      .describe('of parallel calls: how many these sums cover, each with the same input; absent for one'),
    estimated: z
      .literal(true)
      .optional()
      .describe(
        'the provider reported incomplete usage: the cost is that of the estimated tokens; the other counts are as reported',
      ),
    estimatedInputTokens: z.number().int().optional(),
    estimatedOutputTokens: z.number().int().optional(),
    failedAttempt: z
      .number()
      .int()
      .optional()
      .describe('the number of a failed attempt: its usage is not part of the usage of the answer'),
    source: z.enum(['provider', 'unknown']).describe('`unknown`: the provider reported no usage that can be read'),
    contradiction: z
      .string()
      .optional()
      .describe(
        'what in the report cannot be read or contradicts itself: a total that differs from input and output (the ' +
          'difference costs nothing), more cached than input tokens, a number of tokens that is none',
      ),
    raw: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe(
        'the usage object exactly as the provider reported it; of a translated answer, in the form of chat completions, with members that are no counts as reported; of parallel calls, the sum',
      ),
    ...cost,
  }),
  upcasts: [withoutCost],
});

const workKind = z.enum(['response', 'batch']).describe('a response in the background, or a batch');
const workId = z.string().describe("the provider's id of the response or the batch");

export const costReserved = defineEvent({
  type: 'cost.reserved',
  when:
    'Several gateways use the log, and a provider is about to be called for a request that budgets count: in the append ' +
    'of `attempt.started`. The order of the log decides whether it fits in the budgets; when it does not, no provider ' +
    'is called. It replaces an earlier one of the exchange. Recorded again beside the first bytes for the client when the ' +
    'provider has counted the input, and that frees half of the reservation or more, or needs more than was reserved; one that does not fit then leaves the earlier one in place.',
  data: z.object({
    amount: z.string().describe('nano-dollars that the exchange reserves until its cost is recorded or it ends'),
    bounded: z
      .boolean()
      .describe('whether the cost cannot be higher; if it can, the last tenth of each budget stays free'),
    labels: labels.optional(),
  }),
});

export const usageDeferred = defineEvent({
  type: 'usage.deferred',
  when:
    'The provider continues work after its answer: on a response in the background, or on a batch. The gateway polls ' +
    'the provider until the work has ended, and then records its usage and cost.',
  data: z.object({
    ...spentOn,
    kind: workKind,
    workId,
    parts: z
      .array(
        z.object({
          model: z.string(),
          answers: z.number().int(),
          inputTokens: z.number().int(),
          outputTokens: z.number().int(),
        }),
      )
      .readonly()
      .optional()
      .describe(
        'the estimate for each model: charged when the provider never reports usage; absent when the input was not read',
      ),
    reservedCost: nanoDollars().describe(
      'reserved in the budgets until `usage.settled`; null when there was no budget',
    ),
  }),
});

export const usageSettled = defineEvent({
  type: 'usage.settled',
  when: 'Work that continued after an answer has ended. Its usage is recorded in the same append, before this event.',
  data: z.object({
    kind: workKind,
    workId,
    outcome: z
      .enum(['completed', 'incomplete', 'failed', 'cancelled', 'expired', 'deleted', 'lost'])
      .describe('as the provider reports; `lost`: it does not know the id, or could not be reached for too long'),
  }),
});

/** Version 1 had five counts and no cost. Other reported counts are still in `raw`. */
function withoutCost(data: unknown): unknown {
  return {
    ...Object(data),
    cacheWriteInputTokens: null,
    cacheWrite1hInputTokens: null,
    audioInputTokens: null,
    audioOutputTokens: null,
    imageInputTokens: null,
    imageOutputTokens: null,
    acceptedPredictionTokens: null,
    rejectedPredictionTokens: null,
    inputCost: null,
    outputCost: null,
    totalCost: null,
  };
}

export const usageRecalculated = defineEvent({
  type: 'usage.recalculated',
  when: 'An administrator recalculated the costs of past requests, and the cost of this exchange changed. Its tokens are unchanged.',
  data: z.object({
    ...spentOn,
    usageId: z.string().describe('id of the `usage.recorded` that is corrected'),
    usageAt: z.number().describe('time of that event, in milliseconds since the epoch'),
    ...cost,
    previousTotalCost: nanoDollars().describe('the cost before this correction'),
    previousPriceSource: z.string().optional(),
  }),
});
