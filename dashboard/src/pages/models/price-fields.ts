/** The fields of a price override. Pure. */
import type { SchemaField } from '../../ui/schema-fields.ts';
import { rateLabels } from './model-prices.ts';

const usual = ['input_per_mtok', 'output_per_mtok', 'cached_input_per_mtok'] as const;

function rate(key: string): SchemaField {
  const label = rateLabels[key] ?? key;
  const unit = key.endsWith('_per_mtok') ? 'USD per million tokens' : 'USD';
  return { key, label: `${label}, ${unit}`, kind: 'number', least: 0 };
}

export const usualRates: readonly SchemaField[] = usual.map(rate);

const ofTiers = [
  'input_per_mtok',
  'output_per_mtok',
  'cached_input_per_mtok',
  'cache_write_per_mtok',
  'cache_write_1h_per_mtok',
];

export const otherRateFields: readonly SchemaField[] = [
  ...Object.keys(rateLabels)
    .filter((key) => !usual.some((one) => one === key))
    .map(rate),
  {
    ...{ key: 'tiers', label: 'Rates by input tokens of a request', kind: 'objects', itemName: 'Tier' },
    fields: [
      { key: 'up_to_tokens', label: 'Up to tokens', kind: 'number', least: 1 },
      { key: 'up_to_mtok', label: 'or up to million tokens', kind: 'number', least: 0 },
      ...ofTiers.map(rate),
    ],
  },
];
