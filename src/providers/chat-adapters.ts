/** The dialects that chat completions can be translated to. */
import type { ChatAdapter } from './translate/chat-adapter.ts';
import { messagesAdapter } from './translate/chat-to-messages/adapter.ts';
import { ollamaAdapter } from './translate/chat-to-ollama/adapter.ts';

const adapters = new Map<string, ChatAdapter>([messagesAdapter, ollamaAdapter].map((one) => [one.dialect, one]));

/** The adapter of a dialect; undefined for a dialect that needs no translation from chat completions. */
export function chatAdapter(dialect: string): ChatAdapter | undefined {
  return adapters.get(dialect);
}
