/** The dialects of model requests. */
import { createChatDialect } from '../commands/exchange/dialects/chat/chat-dialect.ts';
import { embeddingsDialect } from '../commands/exchange/dialects/embeddings/embeddings-dialect.ts';
import { messagesDialect } from '../commands/exchange/dialects/messages/messages-dialect.ts';
import {
  createResponsesDialect,
  type ResponsesDialectOptions,
} from '../commands/exchange/dialects/responses/responses-dialect.ts';
import type { Config } from '../config/config.ts';
import type { EventLog } from '../events/log.ts';
import type { StoredObjects } from './log/views.ts';

export interface DialectOptions extends Pick<ResponsesDialectOptions, 'contextWindow' | 'learned' | 'toolLoop'> {
  readonly config: Pick<Config, 'enforceUsage'>;
  readonly log: EventLog;
  readonly stored: StoredObjects;
}

/** @returns the dialects by name, in the order of their routes */
export function modelDialects({ config, log, stored, contextWindow, learned, toolLoop }: DialectOptions) {
  const { archive, findItem } = stored;
  const now = () => Math.floor(Date.now() / 1000);
  const dialects = [
    createChatDialect({ enforceUsage: config.enforceUsage }),
    createResponsesDialect({ archive, log, findItem, now, contextWindow, learned, toolLoop }),
    embeddingsDialect,
    messagesDialect,
  ];
  return new Map(dialects.map((dialect) => [dialect.name, dialect]));
}
