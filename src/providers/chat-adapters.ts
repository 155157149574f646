/** Which languages chat completions are translated to, beside their own. */
import type { ChatAdapter } from './translate/chat-adapter.ts';
import { messagesAdapter } from './translate/chat-to-messages/adapter.ts';
import { ollamaAdapter } from './translate/chat-to-ollama/adapter.ts';

const adapters = new Map<string, ChatAdapter>([messagesAdapter, ollamaAdapter].map((one) => [one.dialect, one]));

/** The adapter of a language, or undefined when chat completions are spoken as they are. */
export function chatAdapter(dialect: string): ChatAdapter | undefined {
  return adapters.get(dialect);
}
