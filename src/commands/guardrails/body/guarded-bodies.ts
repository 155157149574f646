/** The bodies that guardrails read, by dialect. */
import { chatAnswerBody, chatRequestBody } from './chat-body.ts';
import { completionsAnswerBody, completionsRequestBody, embeddingsRequestBody } from './completions-body.ts';
import type { GuardedBody } from './guarded-body.ts';
import { messagesAnswerBody, messagesRequestBody } from './messages-body.ts';
import { everyTextOfAnswer, everyTextOfRequest } from './remaining-texts.ts';
import { responsesAnswerBody, responsesRequestBody } from './responses-body.ts';

export type GuardedDialect = 'chat' | 'responses' | 'messages' | 'completions' | 'embeddings';

export interface GuardedBodies {
  readonly request: GuardedBody;
  /** Undefined when the answer contains no text. */
  readonly answer: GuardedBody | undefined;
}

export const guardedBodies: Readonly<Record<GuardedDialect, GuardedBodies>> = {
  chat: { request: everyTextOfRequest(chatRequestBody), answer: everyTextOfAnswer(chatAnswerBody) },
  responses: { request: everyTextOfRequest(responsesRequestBody), answer: everyTextOfAnswer(responsesAnswerBody) },
  messages: { request: everyTextOfRequest(messagesRequestBody), answer: everyTextOfAnswer(messagesAnswerBody) },
  completions: {
    request: everyTextOfRequest(completionsRequestBody),
    answer: everyTextOfAnswer(completionsAnswerBody),
  },
  embeddings: { request: everyTextOfRequest(embeddingsRequestBody), answer: undefined },
};
