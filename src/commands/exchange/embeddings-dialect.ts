/** `POST /v1/embeddings`: forwarded as it is to any model, whatever its category. */
import { rewriteMembers } from '../../providers/json-members.ts';
import { parseEmbeddingsRequest } from '../embeddings/embeddings-request.ts';
import { hasMembers, memberChanges, readWith } from './chat-dialect.ts';
import type { ExchangeDialect } from './dialect.ts';
import { PassthroughRelay } from './relay-passthrough.ts';

export const embeddingsDialect: ExchangeDialect = {
  name: 'embeddings',
  endpoint: '/v1/embeddings',
  read(json) {
    const read = readWith(parseEmbeddingsRequest(json));
    // There is no such thing as streamed embeddings, and a member that asks for it changes nothing.
    return read.ok ? { ok: true, asked: { ...read.asked, stream: false } } : read;
  },
  plan({ asked, body, target }) {
    const changes = memberChanges(asked, target.model);
    return {
      dialect: 'embeddings',
      body: hasMembers(changes) ? rewriteMembers(body, changes) : body,
      relay: () => new PassthroughRelay(),
    };
  },
};
