import { z } from 'zod';
import type { Refused } from '../../providers/translate/json.ts';
import { type Accepted, checkRequest } from '../request-check.ts';

const tokens = z.array(z.int()).min(1);

export const embeddingsRequestSchema = z.looseObject({
  model: z.string().min(1),
  input: z.union([z.string().min(1), z.array(z.string()).min(1), tokens, z.array(tokens).min(1)]),
});

/** Body of `POST /v1/embeddings`, the members that the gateway reads: text or tokens, one or many. */
export type EmbeddingsRequest = z.infer<typeof embeddingsRequestSchema>;

export function parseEmbeddingsRequest(json: unknown): Accepted<EmbeddingsRequest> | Refused {
  return checkRequest(embeddingsRequestSchema, json, ['model', 'input']);
}
