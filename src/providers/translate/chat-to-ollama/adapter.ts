import type { ChatAdapter } from '../chat-adapter.ts';
import { OllamaReader } from './reader.ts';
import { ollamaRequestFromChat } from './request.ts';

/** Chat completions translated to Ollama's own API. */
export const ollamaAdapter: ChatAdapter = {
  dialect: 'ollama_chat',
  request: ollamaRequestFromChat,
  reader: (facts) => new OllamaReader(facts),
};
