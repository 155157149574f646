/** Every stream is known as one of the configuration, or as another one. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { configurationCategories } from '../../src/commands/gateways/fenced-log.ts';
import { root } from '../e2e/gateway-process.ts';

/** What a gateway records of its work, and what it observes. */
const others = [
  ...[
    'access',
    'audit',
    'batch',
    'cancellation',
    'conversation',
    'exchange',
    'file',
    'gateway',
    'guard',
    'idempotency',
    'item',
    'job',
    'lease',
    'log',
  ],
  ...['provider', 'realtime', 'replay', 'response', 'tool', 'views'],
];

it('categories of streams are either configuration or not', () => {
  const found = new Set<string>();
  for (const file of globSync('src/**/*.ts', { cwd: root })) {
    for (const [, category] of readFileSync(join(root, file), 'utf8').matchAll(
      /(?:streamName\(\s*|\bcategory: )'([a-z]+)/g,
    )) {
      if (category !== undefined) found.add(category);
    }
  }
  expect([...found].toSorted()).toEqual([...configurationCategories, ...others].toSorted());
});
