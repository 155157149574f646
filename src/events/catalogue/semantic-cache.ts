/** The semantic cache family: vectors of cached answers, on stream `exchange-<id>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

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
