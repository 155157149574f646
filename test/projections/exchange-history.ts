/** Exchanges in the form of the log, for tests of their readers. */
import type { z } from 'zod';
import { unknownUsage } from '../../src/commands/model-request/usage.ts';
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
  usageRecorded,
} from '../../src/events/catalogue/exchange.ts';
import { frameDelivered, guardrailApplied, type guardrailVerdicts } from '../../src/events/catalogue/guardrail.ts';
import { type Actor, type EventContext, type NewEvent, streamName, type UserPath } from '../../src/events/event.ts';
import type { Appended, EventLog } from '../../src/events/log.ts';

export interface ExchangeInput {
  readonly path?: string;
  readonly model?: string;
  readonly stream?: boolean;
  readonly body?: string;
  readonly userPath?: string;
  readonly requestId?: string;
  readonly actor?: Actor;
  readonly workflow?: z.infer<typeof requestReceived.data>['workflow'];
}

/** The events of one exchange, to be appended in any portions. */
export function exchangeOf(id: string, input: ExchangeInput = {}) {
  const { path = '/v1/chat/completions', model = 'local/tiny', stream = true, body = '{"model":"local/tiny"}' } = input;
  const context: EventContext = {
    actor: input.actor ?? 'master',
    requestId: input.requestId ?? `req-${id}`,
    userPath: input.userPath as UserPath | undefined,
  };
  const failure = { type: 'provider_error', code: 'broken', message: 'it broke' };
  return {
    stream: streamName('exchange', id),
    context,
    received: requestReceived.create(
      {
        dialect: 'chat',
        method: 'POST',
        path,
        headers: { 'user-agent': 'test/1', authorization: '[REDACTED]' },
        model,
        stream,
        clientIp: '127.0.0.1',
        authMethod: 'master_key',
        capture: 'full',
        workflow: input.workflow,
      },
      context,
      Buffer.from(body),
    ),
    resolved: modelResolved.create(
      { requested: model, provider: 'local', providerType: 'llamacpp', model: 'tiny' },
      context,
    ),
    attempt: (attempt = 1, guarded?: true) =>
      attemptStarted.create(
        {
          attempt,
          kind: attempt === 1 ? 'primary' : 'retry',
          provider: 'local',
          providerType: 'llamacpp',
          model: 'tiny',
          dialect: 'chat',
          guarded,
        },
        context,
      ),
    chunk: (bytes: string, attempt = 1, index = 0) =>
      chunkReceived.create({ attempt, index }, context, Buffer.from(bytes)),
    frame: (bytes: string, attempt = 1, index = 0) =>
      frameDelivered.create({ attempt, index }, context, Buffer.from(bytes)),
    /** One run of one guardrail. @param body the changed request */
    applied: (
      verdict: (typeof guardrailVerdicts)[number],
      of: { phase: 'prompt' | 'response' | 'stream'; attempt?: number } = { phase: 'prompt' },
      body?: string,
    ) =>
      guardrailApplied.create(
        {
          ...of,
          verdict,
          ...(verdict === 'allow' ? {} : { decidedBy: 'mask', code: `${verdict}_code` }),
          edited: body !== undefined,
          runs: [
            {
              ...{ step: 0, guardrail: 'mask', type: 'pii', verdict, edited: body !== undefined, durationNs: 3 },
              ...(verdict === 'allow' ? {} : { code: `${verdict}_code`, message: 'why' }),
            },
          ],
        },
        context,
        body === undefined ? undefined : Buffer.from(body),
      ),
    attemptFailed: (attempt = 1) =>
      attemptFailed.create({ attempt, status: 500, code: 'boom', message: 'no', durationMs: 2 }, context),
    words: (index: number, text: string) => ({
      ...chunkReceived.create({ attempt: 1, index }, context, Buffer.from(chatChunk(text))),
    }),
    json: (answer: unknown) =>
      chunkReceived.create({ attempt: 1, index: 0 }, context, Buffer.from(JSON.stringify(answer))),
    completed: exchangeCompleted.create(
      {
        status: 200,
        attempt: 1,
        provider: 'local',
        model: 'tiny',
        finishReason: 'stop',
        chunks: 2,
        bytes: 100,
        firstByteMs: 3,
        durationMs: 12.5,
      },
      context,
    ),
    failed: exchangeFailed.create(
      { status: 502, ...failure, reason: 'provider_error', chunks: 0, durationMs: 4 },
      context,
    ),
    refused: requestRefused.create(
      {
        status: 404,
        type: 'not_found_error',
        code: 'model_not_found',
        param: 'model',
        message: 'no such model',
        durationMs: 1,
      },
      context,
    ),
    left: clientDisconnected.create({ chunks: 1, bytes: 10, durationMs: 5 }, context),
    usage: usageRecorded.create(
      {
        provider: 'local',
        providerType: 'llamacpp',
        model: 'tiny',
        endpoint: '/v1/chat/completions',
        ...unknownUsage,
        inputTokens: 10,
        outputTokens: 5,
        totalTokens: 15,
        cachedInputTokens: 4,
        source: 'provider',
        raw: { prompt_tokens: 10 },
        inputCost: '3000',
        outputCost: '4000',
        totalCost: '7000',
      },
      context,
    ),
  };
}

export type ExchangeHistory = ReturnType<typeof exchangeOf>;

export function chatChunk(text: string): string {
  const chunk = { object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: text } }] };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

export function append(log: EventLog, stream: ExchangeHistory['stream'], ...events: NewEvent[]): Promise<Appended> {
  return log.append([{ stream, events, expectedRevision: 'any' }]);
}

/** A whole exchange in one append. */
export function appendWhole(log: EventLog, exchange: ExchangeHistory, ...words: string[]): Promise<Appended> {
  const chunks = words.map((text, index) => exchange.words(index, text));
  const { stream, received, resolved, usage, completed } = exchange;
  return append(log, stream, received, resolved, exchange.attempt(), ...chunks, usage, completed);
}
