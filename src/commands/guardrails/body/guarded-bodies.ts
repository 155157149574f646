/** The bodies that guardrails read, by dialect. */
import { chatAnswerBody, chatRequestBody } from './chat-body.ts';
import { completionsAnswerBody, completionsRequestBody, embeddingsRequestBody } from './completions-body.ts';
import type { GuardedBody } from './guarded-body.ts';
import { messagesAnswerBody, messagesRequestBody } from './messages-body.ts';
import { responsesAnswerBody, responsesRequestBody } from './responses-body.ts';

export type GuardedDialect = 'chat' | 'responses' | 'messages' | 'completions' | 'embeddings';

export interface GuardedBodies {
  readonly request: GuardedBody;
  /** Undefined when the answer contains no text. */
  readonly answer: GuardedBody | undefined;
}

export const guardedBodies: Readonly<Record<GuardedDialect, GuardedBodies>> = {
  chat: { request: chatRequestBody, answer: chatAnswerBody },
  responses: { request: responsesRequestBody, answer: responsesAnswerBody },
  messages: { request: messagesRequestBody, answer: messagesAnswerBody },
  completions: { request: completionsRequestBody, answer: completionsAnswerBody },
  embeddings: { request: embeddingsRequestBody, answer: undefined },
};
