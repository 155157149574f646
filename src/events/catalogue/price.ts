/** The price family: prices of models that administrators set, on stream `price-<selector>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

/** US dollars. A rate that is left out is not known; 0 is free. */
const rate = () => z.number().min(0).optional();

const tier = z.object({
  up_to_tokens: z.number().int().optional().describe('input tokens of a request, inclusive; absent in the last tier'),
  up_to_mtok: z.number().optional().describe('the same in millions'),
  input_per_mtok: rate(),
  output_per_mtok: rate(),
  cached_input_per_mtok: rate(),
  cache_write_per_mtok: rate(),
  cache_write_1h_per_mtok: rate(),
});

/** `…_per_mtok`: for a million tokens. Tokens without a rate of their own are charged as plain input or output. */
export const modelPricing = z.object({
  input_per_mtok: rate(),
  output_per_mtok: rate(),
  cached_input_per_mtok: rate().describe('input read from the prompt cache'),
  cache_write_per_mtok: rate().describe('input written to the prompt cache'),
  cache_write_1h_per_mtok: rate().describe('the same, kept for an hour'),
  reasoning_output_per_mtok: rate(),
  batch_input_per_mtok: rate(),
  batch_output_per_mtok: rate(),
  audio_input_per_mtok: rate(),
  audio_output_per_mtok: rate(),
  image_input_per_mtok: rate(),
  output_image_per_mtok: rate().describe('image tokens of the output'),
  per_image: rate().describe('an image of the output'),
  input_per_image: rate(),
  per_request: rate(),
  per_second_input: rate(),
  per_second_output: rate(),
  per_character_input: rate(),
  per_page: rate(),
  tiers: z
    .array(tier)
    .optional()
    .describe('prices by input tokens: the first tier that is large enough applies to the whole request'),
});

const selector = z
  .string()
  .describe('`/` for every model, `<provider>/` for those of a provider, `<model>`, or `<provider>/<model>`');

export const priceOverrideSet = defineEvent({
  type: 'price.override_set',
  when: 'An administrator set the prices of models. They apply to requests that end after this event.',
  data: z.object({ selector, pricing: modelPricing }),
});

export const priceOverrideRemoved = defineEvent({
  type: 'price.override_removed',
  when: 'An administrator removed a price override: a less specific override, the configuration or the snapshot applies.',
  data: z.object({ selector }),
});
