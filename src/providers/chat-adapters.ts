/** The dialects that chat completions can be translated to: Anthropic's Messages API, and Ollama's own. */
import type { ChatAdapter } from './translate/chat-adapter.ts';
import { MessagesAnswerReader } from './translate/chat-to-messages/reader.ts';
import { messagesRequestFromChat } from './translate/chat-to-messages/request.ts';
import { OllamaReader } from './translate/chat-to-ollama/reader.ts';
import { ollamaRequestFromChat } from './translate/chat-to-ollama/request.ts';

const adapters: readonly ChatAdapter[] = [
  { dialect: 'messages', request: messagesRequestFromChat, reader: (facts) => new MessagesAnswerReader(facts) },
  { dialect: 'ollama_chat', request: ollamaRequestFromChat, reader: (facts) => new OllamaReader(facts) },
];

/** The adapter of a dialect; undefined for a dialect that needs no translation from chat completions. */
export function chatAdapter(dialect: string): ChatAdapter | undefined {
  return adapters.find((one) => one.dialect === dialect);
}
