/** What the declarations of `/v1` routes have in common. Their schemas describe requests; they do not validate them. */
import { z } from 'zod';
import { textParameter } from '../api/parameters.ts';

/** Errors of requests that call a provider. */
export const providerErrors = [404, 409, 501, 502, 504];

export const idempotencyHeader = {
  'Idempotency-Key': z
    .string()
    .max(255)
    .describe('For 24 hours, the same key with the same body returns the same answer without another provider call'),
};

/** Headers for the response cache (`cacheDirectives`). */
export const cacheRequestHeaders = {
  'Cache-Control': z
    .string()
    .describe(
      'For the response cache: `no-cache` (do not answer from it), `no-store` (nor keep the answer), `max-age=<seconds>` (accept no older entry), `only-if-cached` (do not call a provider)',
    ),
  'X-Cache-Control': z.string().describe('The same, in place of Cache-Control; a malformed value is a 400'),
  'X-Cache-Type': z.enum(['exact', 'semantic', 'both']).describe('Which entries may answer; default both'),
  'X-Cache-TTL': z.string().describe('Seconds for which the answer is kept; 0: it is not kept'),
  'X-Cache-Semantic-Threshold': z.string().describe('Least similarity of an entry for a similar request: 0 to 1'),
};

export const anthropicRequestHeaders = Object.fromEntries(
  ['anthropic-version', 'anthropic-beta'].map((name) => [
    name,
    z.string().describe("Forwarded to providers with Anthropic's API"),
  ]),
);

export const providerParameter = textParameter(
  'Name or type of the provider, for an object that the gateway does not know',
);

/** The page of a list of OpenAI's API (`openAiPageIn`). */
export const openAiPageParameters = {
  limit: textParameter('Entries of the page', { type: 'integer', minimum: 1, maximum: 100, default: 20 }),
  order: textParameter('By creation', { enum: ['asc', 'desc'], default: 'desc' }),
  after: textParameter('Id of the entry before the page'),
};
