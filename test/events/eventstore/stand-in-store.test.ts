/** The file of the stand-in for EventStoreDB is read in blocks when it starts. */
import { randomBytes, randomUUID } from 'node:crypto';
import { appendFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { temporaryFolder } from '../../e2e/gateway-process.ts';
import { Store } from '../../support/eventstore-stand-in/store.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const event = (bytes: number) => ({
  id: randomUUID(),
  type: 'thing',
  contentType: 'application/octet-stream',
  metadata: Buffer.alloc(0),
  data: randomBytes(bytes),
});

it('has all events again that are larger than a block, without a torn end', async () => {
  const path = join(folder.path, 'events');
  const store = new Store(path);
  const sizes = [1, 9_000_000, 9_000_000, 100, 20_000_000, 3];
  const written = sizes.map(event);
  for (const one of written) await store.append('things', 'any', [one]);
  store.close();
  const { size } = statSync(path);
  appendFileSync(path, randomBytes(1000));
  const again = new Store(path);
  expect(again.streamEvents('things').map(({ id, data }) => [id, data.length])).toEqual(
    written.map(({ id, data }) => [id, data.length]),
  );
  expect(statSync(path).size).toBe(size);
  again.close();
});
