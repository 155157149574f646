import { describe, expect, it } from 'vitest';
import { RemoteVectors } from '../../src/commands/semantic-cache/remote-vectors.ts';
import { ScannedVectors } from '../../src/commands/semantic-cache/scanned-vectors.ts';
import type { VectorStore } from '../../src/commands/semantic-cache/vector-store.ts';
import { at, describeVectorStore, entry, query } from './vector-store-contract.ts';

function remote(change: Partial<VectorStore> = {}, { timeoutMs = 5000, maxPending = 10 } = {}) {
  const failures: string[] = [];
  const clock = { now: 0 };
  const memory = new ScannedVectors();
  const store: VectorStore = {
    add: (added) => memory.add(added),
    nearest: (searched) => memory.nearest(searched),
    remove: (ids) => memory.remove(ids),
    purge: () => memory.purge(),
    close: () => memory.close(),
    ...change,
  };
  const vectors = new RemoteVectors({
    store,
    timeoutMs,
    maxPending,
    failed: (operation, error) => failures.push(`${operation}: ${error}`),
    now: () => clock.now,
  });
  return { vectors, failures, clock };
}

describeVectorStore('RemoteVectors', async () => remote().vectors);

describe('RemoteVectors', () => {
  it('turns a failed search into a miss, and a failed add into nothing, and counts both', async () => {
    const fails = () => Promise.reject(new Error('down'));
    const { vectors, failures } = remote({ add: fails, nearest: fails });
    expect(await vectors.nearest(query())).toBeUndefined();
    await vectors.add(entry());
    expect(failures).toEqual(['search: Error: down', 'store: Error: down']);
  });

  it('misses when the server takes too long', async () => {
    const { vectors, failures } = remote({ nearest: () => new Promise(() => {}) }, { timeoutMs: 5 });
    expect(await vectors.nearest(query())).toBeUndefined();
    expect(failures).toEqual(['search: Error: no answer within 5 ms']);
  });

  it('does not call a server that failed five times in a row for ten seconds, and then tries it once', async () => {
    let calls = 0;
    let isDown = true;
    const { vectors, clock } = remote({
      async nearest() {
        calls += 1;
        if (isDown) throw new Error('down');
        return { digest: 'e', similarity: 1 };
      },
    });
    for (let count = 0; count < 8; count++) await vectors.nearest(query());
    expect(calls).toBe(5);
    clock.now = 10_000;
    isDown = false;
    expect(await vectors.nearest(query({ vector: at(3) }))).toEqual({ digest: 'e', similarity: 1 });
    expect(calls).toBe(6);
  });

  it('drops and counts vectors when too many wait', async () => {
    const stored = Promise.withResolvers<void>();
    const { vectors, failures } = remote({ add: () => stored.promise }, { maxPending: 2 });
    const adding = [vectors.add(entry()), vectors.add(entry())];
    await vectors.add(entry());
    expect(failures).toEqual(['store: Error: 2 vectors wait to be stored already']);
    stored.resolve();
    await Promise.all(adding);
    await vectors.add(entry());
    expect(failures).toHaveLength(1);
  });

  it('reports a failed purge to its caller', async () => {
    const fails = () => Promise.reject(new Error('down'));
    const { vectors } = remote({ purge: fails, remove: fails });
    await expect(vectors.purge()).rejects.toThrow('down');
    await vectors.remove(['e']);
  });
});
