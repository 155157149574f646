/** Prices of models in words. Pure. */
import type { ModelRow } from './types.ts';

type Price = NonNullable<ModelRow['price']>;

/** A rate in US dollars with as many digits as it has. */
export function rateText(dollars: number | undefined): string {
  if (dollars === undefined) return '–';
  if (dollars === 0) return '$0';
  return `$${new Intl.NumberFormat('en', { maximumSignificantDigits: 6, useGrouping: false }).format(dollars)}`;
}

/** Where a price comes from, with the date of a list price. */
export function sourceText(source: string): string {
  return source
    .split('+')
    .map((one) => {
      if (one.startsWith('override:')) return `set for ${one.slice('override:'.length)}`;
      if (one.startsWith('snapshot:')) return `list price ${one.slice('snapshot:'.length)}`;
      return one === 'config' ? 'configuration' : one;
    })
    .join(', then ');
}

/** Names of rates as labels. */
export const rateLabels: Readonly<Record<string, string>> = {
  input_per_mtok: 'Input',
  output_per_mtok: 'Output',
  cached_input_per_mtok: 'Cached input',
  cache_write_per_mtok: 'Cache write',
  cache_write_1h_per_mtok: 'Cache write for an hour',
  reasoning_output_per_mtok: 'Reasoning output',
  batch_input_per_mtok: 'Batch input',
  batch_output_per_mtok: 'Batch output',
  audio_input_per_mtok: 'Audio input',
  audio_output_per_mtok: 'Audio output',
  image_input_per_mtok: 'Image input',
  output_image_per_mtok: 'Image output',
  per_request: 'Each request',
  per_image: 'Each image made',
  per_second_input: 'Each second of input',
  per_character_input: 'Each character of input',
  input_per_image: 'Each image of input (kept, not counted)',
  per_second_output: 'Each second of output (kept, not counted)',
  per_page: 'Each page (kept, not counted)',
};

/** Rates other than input and output: `Cached input $0.1`. */
export function otherRates(rates: Price['rates']): string {
  return Object.entries(rates)
    .filter(([name]) => name !== 'input_per_mtok' && name !== 'output_per_mtok')
    .map(([name, dollars]) => `${rateLabels[name] ?? name} ${rateText(dollars)}`)
    .join(', ');
}
