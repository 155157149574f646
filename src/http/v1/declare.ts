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
