/** Requests whose answers are known in advance, in every dialect. */
import { embeddingOf } from '../../infra/simulated-provider/embeddings.ts';
import type { ProviderName, SentRequest } from './evidence.ts';

export interface KnownQuestion {
  readonly route: 'chat' | 'responses' | 'messages' | 'embeddings';
  readonly provider: ProviderName;
  readonly stream: boolean;
  readonly store: boolean;
  readonly model: string;
  /** Without a line break or a full stop. */
  readonly said: string;
  /** Before the task, in the same text. */
  readonly before?: string;
}

const paths = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
  embeddings: '/v1/embeddings',
} as const;

/** Equal questions have equal bodies. */
export function requestOf(question: KnownQuestion) {
  const { route, provider, stream, store } = question;
  const request: Pick<SentRequest, 'route' | 'provider' | 'stream' | 'store' | 'method' | 'path' | 'body'> = {
    ...{ route, provider, stream, store, method: 'POST', path: paths[route] },
    body: Buffer.from(JSON.stringify(bodyOf(question))),
  };
  return request;
}

/** The text of the answer; of embeddings the vector as JSON. @param said as the provider gets it */
export function answerTo({ route }: KnownQuestion, said: string): string {
  return route === 'embeddings' ? JSON.stringify(embeddingOf(said)) : said;
}

function bodyOf({ route, provider, stream, store, model, said, before = '' }: KnownQuestion): object {
  const named = { model: `${provider}/${route === 'embeddings' ? 'embed' : model}` };
  const task = `${before}Reply with exactly: ${said}`;
  const messages = [{ role: 'user', content: task }];
  switch (route) {
    case 'embeddings':
      return { ...named, input: said };
    case 'responses':
      return { ...named, stream, input: task, ...(store ? {} : { store }) };
    case 'messages':
      return { ...named, stream, messages, max_tokens: 500 };
    case 'chat':
      return { ...named, stream, messages };
  }
}
