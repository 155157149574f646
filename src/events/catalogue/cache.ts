/**
 * The cache family: answers that later requests may get, and those that did, on stream `exchange-<id>`; purges, on
 * stream `settings-cache`.
 * The semantic cache family: vectors of cached answers, on stream `exchange-<id>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

const digest = z
  .string()
  .describe(
    'SHA-256 of everything that determines the answer: scope, target, workflow, body and headers of the request',
  );

export const answerCached = defineEvent({
  type: 'cache.stored',
  when: 'The answer of this exchange may be sent to later requests with the same digest, in the append of its end.',
  data: z.object({
    digest,
    partition: z
      .string()
      .optional()
      .describe('SHA-256 of everything but the last user text; absent where similar requests are not answered'),
    expiresAt: z.number().int().describe('milliseconds since the epoch'),
    dialect: z.string(),
    stream: z.boolean(),
    provider: z.string(),
    model: z.string(),
    bytes: z.number().int().describe('size of the answer'),
    purges: z
      .number()
      .int()
      .optional()
      .describe('purges that precede the request: the answer is not served when the log has another number here'),
  }),
});

export const cacheHit = defineEvent({
  type: 'cache.hit',
  when:
    'The request is answered with the recorded answer of an earlier exchange, under ids and times of its own. No ' +
    'provider is called for it.',
  data: z.object({
    exchangeId: z.string().describe('the exchange that a provider answered'),
    cacheType: z.enum(['exact', 'semantic']),
    digest: digest.describe('of the earlier request'),
    similarity: z.number().optional().describe('semantic: cosine similarity of the embedded texts'),
    storedAt: z.number().int().describe('when the answer was cached, in milliseconds since the epoch'),
  }),
});

export const cachePurged = defineEvent({
  type: 'cache.purged',
  when: 'An administrator removed cached answers. They stay on the record of their exchanges.',
  data: z.object({
    userPath: z.string().optional().describe('answers of requests at this path or below'),
    provider: z.string().optional(),
    model: z.string().optional().describe("the provider's own id of the model"),
  }),
});

export const vectorStored = defineEvent({
  type: 'cache.vector_stored',
  when:
    'The answer of this exchange, which `cache.stored` offers to equal requests, may also be sent to similar ones. ' +
    'Recorded where vectors are kept in memory: they are read back at start.',
  body: 'the embedding of the last user text: little-endian numbers of four bytes, of length 1',
  data: z.object({
    digest: z.string().describe('of `cache.stored`'),
    partition: z.string().describe('SHA-256 of everything but that text: only vectors with the same one are compared'),
    expiresAt: z.number().int().describe('milliseconds since the epoch'),
    model: z.string().describe('JSON of the configured provider and model of the embedding'),
    dimensions: z.number().int(),
  }),
});
