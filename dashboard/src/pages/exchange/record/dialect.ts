/** The dialect in which recorded bodies are shown. */
import type { Dialect } from '../../../content/conversation/turn.ts';

const dialects: Readonly<Record<string, Dialect>> = {
  chat: 'chat',
  responses: 'responses',
  messages: 'messages',
  embeddings: 'embeddings',
};

/** Undefined for requests that are forwarded without being read. @param path of the request */
export function dialectOf(recorded: string, path: string): Dialect | undefined {
  if (/^\/v1\/completions\b/.test(path)) return 'completions';
  return dialects[recorded];
}
