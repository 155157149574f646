/** The idempotency family: claims of idempotency keys, on stream `idempotency-<digest of caller, route and key>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const idempotencyKeyClaimed = defineEvent({
  type: 'idempotency.key_claimed',
  when: 'A request with an `Idempotency-Key` began; the newest claim of the stream holds for 24 hours.',
  data: z.object({
    exchangeId: z.string(),
    requestDigest: z.string().describe('SHA-256 of the request body: another body with the same key is refused'),
  }),
});
