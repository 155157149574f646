import type { ChatAdapter } from '../chat-adapter.ts';
import { MessagesAnswerReader } from './reader.ts';
import { messagesRequestFromChat } from './request.ts';

/** Chat completions translated to Anthropic's Messages API. */
export const messagesAdapter: ChatAdapter = {
  dialect: 'messages',
  request: messagesRequestFromChat,
  reader: (facts) => new MessagesAnswerReader(facts),
};
