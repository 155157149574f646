/**
 * `POST /v1/messages/batches`: sent to one provider that serves all its models. A provider with Anthropic's API gets
 * it unchanged; a provider with OpenAI's batches gets the requests as chat completions in a file.
 */
import { z } from 'zod';
import { elementsIn, membersIn, rewriteMembers } from '../../providers/translate/json.ts';
import { chatRequestFromMessages } from '../../providers/translate/messages-to-chat/request.ts';
import { plainReasoning } from '../../providers/translate/responses-to-chat/reasoning.ts';
import { providerType } from '../../providers/types.ts';
import type { ExchangeDialect, PlanInput } from '../exchange/dialect.ts';
import { upstreamChat } from '../exchange/dialects/chat/chat-dialect.ts';
import { jsonHeaders } from '../exchange/dialects/forward/forward-dialect.ts';
import { anthropicHeaders, nativeBody } from '../exchange/dialects/messages/messages-dialect.ts';
import { parseMessagesRequest } from '../messages/messages-request.ts';
import type { Target } from '../model-request/routing-types.ts';
import type { WorkPart } from '../model-request/usage.ts';
import { batchKindOf, messageBatches } from '../provider-objects/tracked.ts';
import { Refusal, refusedInTranslation } from '../refusal.ts';
import { checkRequest } from '../request-check.ts';
import { mayServe, takesInline } from './holders.ts';
import { type InlineRoute, inlineLines, invalidRequest, routeOf, uploadLines } from './inline-batch.ts';
import { messageBatchOf } from './message-batches.ts';
import { createPlan, noModelRequest, objectStream } from './object-plan.ts';
import { checkBatchLines, type ObjectRequest } from './stored-objects.ts';

/** Anthropic's limit. */
const MAX_REQUESTS = 100_000;
const CHAT = '/v1/chat/completions';

const messageRequest = z.looseObject({ custom_id: z.string().min(1).max(64), params: z.looseObject({}) });

/** Body of `POST /v1/messages/batches`: the members that the gateway reads. */
export const messageBatchRequestSchema = z.looseObject({
  requests: z.array(messageRequest).min(1).max(MAX_REQUESTS),
});

interface RequestedMessage {
  readonly customId: string;
  /** A selector. */
  readonly model: string;
  readonly params: Record<string, unknown>;
}

/** One dialect per request. */
export function messageBatchDialect(request: ObjectRequest): ExchangeDialect {
  let requests: readonly RequestedMessage[] = [];
  let route: InlineRoute | undefined;
  return {
    name: 'forward',
    endpoint: messageBatches.endpoint,
    mayBeFree: true,
    read(json) {
      const checked = checkRequest(messageBatchRequestSchema, json, ['requests']);
      if (!checked.ok) {
        return { ok: false, refusal: new Refusal({ ...checked.refusal, type: 'invalid_request_error' }) };
      }
      const read = readRequests(checked.request.requests);
      if (read instanceof Refusal) return { ok: false, refusal: read };
      requests = read;
      return noModelRequest(checked.request, request.provider);
    },
    async target(parsedRequest) {
      route = await routeOf(
        requests.map(({ model }) => model),
        parsedRequest.provider,
        request.providers,
        {
          serves: (one) => (batchKindOf(one) === messageBatches ? mayServe(one, messageBatches) : takesInline(one)),
          refused: (at, why) => invalidRequest(at, why, 'params.model'),
        },
      );
      return { provider: route.provider, model: '' };
    },
    async plan(input) {
      if (route === undefined) throw new Error('the request was not routed');
      const kind = batchKindOf(input.target.provider);
      const bodies =
        kind === messageBatches ? nativeBodies(input, requests, route) : chatBodies(input, requests, route);
      const url = kind === messageBatches ? '/v1/messages' : CHAT;
      const lines = requests.map(({ customId }, at) => lineOf(customId, url, bodies[at] ?? Buffer.from('{}')));
      const parts: readonly WorkPart[] = await checkBatchLines(inlineLines(lines), input, request);
      const head = createPlan(kind, input, headersOf(input), {
        work: (id) => ({ kind: 'batch', id, parts }),
        dialect: 'messages',
        shown: (batch) => Buffer.from(JSON.stringify(messageBatchOf(kind, batch))),
      });
      if (kind === messageBatches) return { ...head, body: nativeBatch(requests, bodies), repeatable: false };
      const input_file_id = await uploadLines(lines, input, request);
      const batch = { input_file_id, endpoint: CHAT, completion_window: '24h' };
      return { ...head, body: Buffer.from(JSON.stringify(batch)), repeatable: false };
    },
    streamOfRecorded: () => objectStream(),
  };
}

function readRequests(requests: z.infer<typeof messageBatchRequestSchema>['requests']): RequestedMessage[] | Refusal {
  const ids = new Set<string>();
  const read: RequestedMessage[] = [];
  for (const [at, { custom_id: customId, params }] of requests.entries()) {
    if (ids.has(customId)) return invalidRequest(at, `repeats the custom_id '${customId}'`, 'custom_id');
    ids.add(customId);
    const parsed = parseMessagesRequest(params);
    if (!parsed.ok) {
      const { param, message, ...facts } = parsed.refusal;
      const named = `requests[${at}].params${param === null ? '' : `.${param}`}`;
      return new Refusal({ ...facts, type: 'invalid_request_error', param: named, message: `${named}: ${message}` });
    }
    if (params.stream === true)
      return invalidRequest(at, 'asks for a stream, which batches do not have', 'params.stream');
    read.push({ customId, model: parsed.request.model, params });
  }
  return read;
}

/** The requests byte for byte, except for members that the provider must not or cannot get. */
function nativeBodies(
  { body, target }: PlanInput,
  requests: readonly RequestedMessage[],
  { models }: InlineRoute,
): Buffer[] {
  const member = membersIn(body).findLast(({ name }) => name === 'requests');
  return elementsIn(member?.value ?? Buffer.from('[]')).map((element, at) => {
    const { model = '', params = {} } = requests[at] ?? {};
    const bytes = membersIn(element).findLast(({ name }) => name === 'params')?.value ?? Buffer.from('{}');
    const parsedRequest = { model, provider: undefined, stream: false, json: params };
    return nativeBody({ parsedRequest, body: bytes, target: { ...target, model: models.get(model) ?? model } });
  });
}

/** @throws Refusal when a chat provider cannot honour a request */
function chatBodies({ target }: PlanInput, requests: readonly RequestedMessage[], { models }: InlineRoute): Buffer[] {
  const { provider } = target;
  const reasoningStyle = providerType(provider.type)?.reasoning ?? plainReasoning;
  return requests.map(({ model: selector, params }) => {
    const own: Target = { provider, model: models.get(selector) ?? selector };
    const chat = chatRequestFromMessages(params, { model: own.model, reasoningStyle });
    if (!chat.ok) throw refusedInTranslation(chat.refusal);
    return upstreamChat(chat.body, own, false).body;
  });
}

function lineOf(customId: string, url: string, body: Buffer): Buffer {
  const head = Buffer.from(JSON.stringify({ custom_id: customId, method: 'POST', url }));
  const line = rewriteMembers(head, { body: body.toString() });
  return Buffer.from(line.toString().replaceAll(/[\r\n]+/g, ' '));
}

function nativeBatch(requests: readonly RequestedMessage[], bodies: readonly Buffer[]): Buffer {
  const lines = requests.map(
    ({ customId }, at) => `{"custom_id":${JSON.stringify(customId)},"params":${bodies[at]?.toString() ?? '{}'}}`,
  );
  return Buffer.from(`{"requests":[${lines.join(',')}]}`);
}

function headersOf(input: PlanInput): Record<string, string> {
  return { ...jsonHeaders(input), ...anthropicHeaders(input.headers) };
}
