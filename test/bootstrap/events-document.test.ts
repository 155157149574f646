import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { eventsDocument, eventsDocumentPath } from '../../scripts/events-document.ts';
import { catalogue } from '../../src/events/catalogue/catalogue.ts';

const root = dirname(dirname(import.meta.dirname));

describe('docs/events.md', () => {
  const text = eventsDocument(root);

  test('it is generated from the catalogue (npm run docs:events)', () => {
    expect(readFileSync(join(root, eventsDocumentPath), 'utf8')).toBe(text);
  });

  test('it has every event with its version and when it happens', () => {
    for (const { type, version, when } of catalogue.values()) {
      expect(text).toContain(`### \`${type}\` (version ${version})\n\n${when}\n`);
    }
  });

  test('it has the events of a family in the order in which they happen', () => {
    const places = ['request.received', 'model.resolved', 'attempt.started', 'chunk.received', 'exchange.completed'];
    const found = places.map((type) => text.indexOf(`### \`${type}\``));
    expect(found).toEqual([...found].sort((a, b) => a - b));
  });

  test('it has the fields with their types, nested ones too, and the body', () => {
    expect(text).toContain('| `stream` | boolean |');
    expect(text).toContain('| `capture` | `full`, `metadata` | the capture level in force |');
    expect(text).toContain('| `code` | string or null |');
    expect(text).toContain('| `clientIp` | string, optional |');
    expect(text).toContain('| `models[].id` | string |');
    expect(text).toContain("Body: the client's request body, untouched; of a refused request the first 4 KiB.");
  });
});
